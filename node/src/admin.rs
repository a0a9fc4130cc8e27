//! Operations on a cluster. Any node accepts them and passes a change on to the leader.
//!
//! Every change may be repeated. A change that may have happened is reported as unknown, never as failed.

pub mod backup;
pub mod restore;
pub mod status;

use crate::peers::PeerError;
use crate::peers::admission::join_secret;
use crate::peers::tokio_node::TokioNode;
use crate::peers::wire::{Change, NodeQuestion, NodeReply};
use crate::replica::change::ChangeError;
use crate::replica::leadership::known_leader;
use crate::replica::wall::wall_now;
use lease::caller::Caller;
use lease::encoding::{decode, encode};
use lease::names::{RequestId, SpaceName};
use lease::numbers::Wall;
use lease::{Attempt, Command, Outcome, Request, Salt};
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::codec::records::{Blob, IdentityRecord};
use raft_store::log::LogMonitor;
use raft_store::types::{Member, NodeId};
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long a change is retried with the current leader.
const BEGUN_WITHIN: Duration = Duration::from_secs(10);
/// Pause between two attempts to find a leader.
const AGAIN: Duration = Duration::from_millis(50);
/// The leader makes a change within this time, or reports it as unknown. Without a majority it would wait for ever.
const MADE_WITHIN: Duration = Duration::from_secs(12);
/// A node that passed a change on waits longer than the leader.
const PASSED_ON_WITHIN: Duration = Duration::from_secs(15);
/// Limit for the last entries that a learner lacks. A learner that lacks many is refused; repeat the request later.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(5);
const TRANSFER_WITHIN: Duration = Duration::from_secs(5);
const DRAIN_WITHIN: Duration = Duration::from_secs(5);
const RAISE_WITHIN: Duration = Duration::from_secs(5);
/// A quorum that takes longer to answer is of no use to callers.
const READY_WITHIN: Duration = Duration::from_secs(2);
/// A checkpoint shares its files with the state; only unflushed data is written.
const SNAPSHOT_WITHIN: Duration = Duration::from_secs(120);
const SNAPSHOT_LOOK: Duration = Duration::from_millis(50);

/// The operations that one node offers. Clones share the node and keep it open.
#[derive(Clone, Debug)]
pub struct Admin {
    node: TokioNode,
    identity: IdentityRecord,
    log: LogMonitor,
}

/// The result of a change.
enum Made {
    /// The node that leads after it.
    Led(NodeId),
    Answered(Outcome),
}

/// Why a node is not ready, or not healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// For every caller: contains no path, no address and no node.
    pub kind: &'static str,
    /// For operators.
    pub detail: Option<String>,
}

impl Unfit {
    fn new(kind: &'static str) -> Self {
        Self { kind, detail: None }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        self.detail.as_ref().map_or(Ok(()), |detail| write!(f, ": {detail}"))
    }
}

impl Admin {
    #[must_use]
    pub fn new(node: TokioNode, identity: IdentityRecord, log: LogMonitor) -> Self {
        Self { node, identity, log }
    }

    /// The cluster's salt.
    pub(crate) fn salt(&self) -> Salt {
        self.identity.salt
    }

    #[must_use]
    pub fn node(&self) -> &TokioNode {
        &self.node
    }

    /// Adds a node, which follows without a vote until it has joined and caught up.
    ///
    /// # Errors
    /// When the id is taken by another directory; when no leader was found; when the result is unknown.
    pub async fn add(&self, node: NodeId, member: Member) -> Result<(), ChangeError> {
        self.change(Change::Add { node, member }).await.map(|_| ())
    }

    /// Makes a secret with which any node, or the given one, may join for this long. Nothing is stored.
    #[must_use]
    pub fn join_secret(&self, node: Option<NodeId>, valid_for: Duration) -> String {
        let millis = u64::try_from(valid_for.as_millis()).unwrap_or(u64::MAX);
        join_secret(&self.identity, node, Wall(wall_now().0.saturating_add(millis)))
    }

    /// Gives a vote to a learner that has nearly all of the log.
    ///
    /// # Errors
    /// When it is not a member or has not caught up; when no leader was found; when the result is unknown.
    pub async fn promote(&self, node: NodeId) -> Result<(), ChangeError> {
        self.change(Change::Promote { node }).await.map(|_| ())
    }

    /// Removes a node. If it is the leader, it hands over first.
    ///
    /// # Errors
    /// When it is the last voter; when no leader was found; when the result is unknown.
    pub async fn remove(&self, node: NodeId) -> Result<(), ChangeError> {
        self.change(Change::Remove { node }).await.map(|_| ())
    }

    /// Makes another voter the leader: the given one, by default the most up-to-date one. Returns the new leader.
    ///
    /// # Errors
    /// When it cannot lead; when no leader was found; when no new leader was seen.
    pub async fn transfer(&self, to: Option<NodeId>) -> Result<NodeId, ChangeError> {
        match self.change(Change::Transfer { to }).await? {
            Made::Led(leader) => Ok(leader),
            Made::Answered(_) => Err(ChangeError::Unknown("an answer to another question".into())),
        }
    }

    /// Raises the rules version if every member's build knows it: the leader asks the members right before it proposes.
    ///
    /// # Errors
    /// When members do not know the rules or did not answer (the error names them); when no leader was found; when the
    /// result is unknown.
    pub async fn raise_rules(
        &self,
        version: u32,
        caller: Caller,
        request_id: RequestId,
    ) -> Result<Outcome, ChangeError> {
        let command = Command::RaiseRules { version };
        let request = Request { space: SpaceName::fallback(), caller, request_id, attempt: Attempt::First, command };
        match self.change(Change::RaiseRules { request: Blob(encode(&request).into()) }).await? {
            Made::Answered(outcome) => Ok(outcome),
            Made::Led(_) => Err(ChangeError::Unknown("an answer to another question".into())),
        }
    }

    /// Takes a snapshot of this node's state now, and returns the index of its last entry.
    ///
    /// # Errors
    /// When nothing was applied yet, or it was not finished in time.
    pub async fn snapshot(&self) -> Result<u64, ChangeError> {
        let Some(wanted) = self.node.hub().current().applied else {
            return Err(ChangeError::Refused("the state is still empty, so there is no snapshot to take".into()));
        };
        let taking = async {
            loop {
                let taken = self.node.raft().metrics().borrow_watched().snapshot;
                if let Some(taken) = taken.filter(|taken| taken.index >= wanted.index) {
                    return Ok(taken.index);
                }
                // Repeat it: a snapshot that was already running may contain less, and no other one starts meanwhile.
                let triggered = self.node.raft().trigger().snapshot().await;
                triggered.map_err(|fatal| ChangeError::Refused(fatal.to_string()))?;
                sleep(SNAPSHOT_LOOK).await;
            }
        };
        let late = || ChangeError::Unknown(format!("no snapshot within {} s", SNAPSHOT_WITHIN.as_secs()));
        timeout(SNAPSHOT_WITHIN, taking).await.unwrap_or_else(|_| Err(late()))
    }

    /// Makes this node hand over leadership, reject callers' commands and report that it is not ready, until
    /// [`Admin::undrain`] or its next start.
    ///
    /// # Errors
    /// When it still leads. It drains nevertheless; repeat the call.
    pub async fn drain(&self) -> Result<(), ChangeError> {
        tracing::info!("draining");
        self.node.drain(DRAIN_WITHIN).await
    }

    pub fn undrain(&self) {
        tracing::info!("no longer draining");
        self.node.undrain();
    }

    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.node.is_draining()
    }

    /// Whether callers should be sent to this node: it is a member, a quorum answers, and it has everything committed.
    ///
    /// # Errors
    /// Why it is not ready.
    pub async fn is_ready(&self) -> Result<(), Unfit> {
        self.is_healthy()?;
        if self.is_draining() {
            return Err(Unfit::new("this node is draining"));
        }
        if self.node.membership().get_node(&self.node.id()).is_none() {
            return Err(Unfit::new("this node is not a member of the cluster"));
        }
        let no_quorum = Unfit::new("no leader with a quorum answered in time");
        match timeout(READY_WITHIN, self.node.in_step(READY_WITHIN)).await {
            Ok(in_step) => in_step.map_err(|no| Unfit { detail: Some(no.to_string()), ..no_quorum }),
            Err(_) => {
                let leader = self.node.leader().map_or_else(|| "none".into(), |leader| format!("node {leader}"));
                let detail =
                    format!("within {READY_WITHIN:?}; the leader that node {} knows: {leader}", self.node.id());
                Err(Unfit { detail: Some(detail), ..no_quorum })
            }
        }
    }

    /// Whether this node can continue to run.
    ///
    /// # Errors
    /// Why it must stop.
    pub fn is_healthy(&self) -> Result<(), Unfit> {
        let failed = Unfit::new("this node has failed and stops");
        self.failure().map_or(Ok(()), |why| Err(Unfit { detail: Some(why), ..failed }))
    }

    /// Why this node must stop by itself, if it must.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        // The log's own error says more than Raft's.
        self.log.failure().or_else(|| self.node.failure())
    }

    /// Makes a change that another node passed on, if this one leads.
    pub(crate) async fn answer(&self, change: Change) -> NodeReply {
        match self.make(change).await {
            Ok(Made::Led(leader)) => NodeReply::Changed { leader },
            Ok(Made::Answered(outcome)) => NodeReply::Forwarded { outcomes: Blob(encode(&vec![outcome]).into()) },
            Err(ChangeError::NotLeader(leader)) => NodeReply::NotLeader { leader },
            Err(ChangeError::Refused(why)) => NodeReply::Refused { why },
            Err(ChangeError::Unknown(why)) => NodeReply::Unknown { why },
        }
    }

    /// Makes a change through the current leader. A node that does not lead has done nothing, so another one may be
    /// asked.
    async fn change(&self, change: Change) -> Result<Made, ChangeError> {
        let by = Instant::now() + BEGUN_WITHIN;
        loop {
            let made = match known_leader(self.node.raft()) {
                None => Err(ChangeError::NotLeader(None)),
                Some((leader, _)) if leader == self.node.id() => self.make(change.clone()).await,
                Some((leader, member)) => {
                    let question = NodeQuestion::Change(change.clone());
                    made(leader, self.node.calls().ask(leader, &member, question, PASSED_ON_WITHIN).await)
                }
            };
            match made {
                Err(ChangeError::NotLeader(_)) if Instant::now() < by => sleep(AGAIN).await,
                made => return made,
            }
        }
    }

    /// Makes a change on this node, which must be the leader.
    async fn make(&self, change: Change) -> Result<Made, ChangeError> {
        let own = &self.node;
        if own.leader() != Some(own.id()) {
            return Err(ChangeError::NotLeader(own.leader()));
        }
        let making = async {
            match change {
                Change::Add { node, member } => own.add_learner(node, member).await?,
                Change::Promote { node } => own.promote(node, CAUGHT_UP_WITHIN).await?,
                Change::Remove { node } => own.remove(node).await?,
                Change::Transfer { to } => return own.transfer(to, TRANSFER_WITHIN).await.map(Made::Led),
                Change::RaiseRules { request } => {
                    let request = decode::<Request>(&request.0);
                    let request = request.map_err(|error| ChangeError::Refused(format!("the request: {error}")))?;
                    return own.raise_rules(request, RAISE_WITHIN).await.map(Made::Answered);
                }
            }
            Ok(Made::Led(own.id()))
        };
        let late = || ChangeError::Unknown(format!("no majority answered within {} s", MADE_WITHIN.as_secs()));
        timeout(MADE_WITHIN, making).await.unwrap_or_else(|_| Err(late()))
    }
}

/// Converts the leader's answer, or its error, to the result of a change.
fn made(leader: NodeId, reply: Result<NodeReply, PeerError>) -> Result<Made, ChangeError> {
    match reply {
        Ok(NodeReply::Changed { leader }) => Ok(Made::Led(leader)),
        Ok(NodeReply::Forwarded { outcomes }) => match decode::<Vec<Outcome>>(&outcomes.0).map(|mut all| all.pop()) {
            Ok(Some(outcome)) => Ok(Made::Answered(outcome)),
            Ok(None) => Err(ChangeError::Unknown("an answer without an outcome".into())),
            Err(error) => Err(ChangeError::Unknown(format!("cannot decode the outcome: {error}"))),
        },
        Ok(NodeReply::NotLeader { leader }) => Err(ChangeError::NotLeader(leader)),
        Ok(NodeReply::Refused { why }) => Err(ChangeError::Refused(why)),
        Ok(NodeReply::Unknown { why }) => Err(ChangeError::Unknown(why)),
        Ok(other) => Err(ChangeError::Unknown(format!("unexpected answer: {other:?}"))),
        Err(error) if error.may_have_happened() => Err(ChangeError::Unknown(error.to_string())),
        Err(_) => Err(ChangeError::NotLeader(Some(leader))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_retried_only_if_it_certainly_did_not_happen() {
        let why = || "because".to_owned();
        let is_begun_anew = |reply| matches!(made(1, reply), Err(ChangeError::NotLeader(_)));
        let is_unknown = |reply| matches!(made(1, reply), Err(ChangeError::Unknown(_)));
        assert!(is_begun_anew(Err(PeerError::Unreachable { why: why() })));
        assert!(is_begun_anew(Err(PeerError::Refused { why: why() })));
        assert!(is_begun_anew(Ok(NodeReply::NotLeader { leader: None })));
        assert!(is_unknown(Err(PeerError::Lost { why: why() })));
        assert!(is_unknown(Err(PeerError::TimedOut { limit: AGAIN })));
        assert!(is_unknown(Ok(NodeReply::Unknown { why: why() })));
        assert!(is_unknown(Ok(NodeReply::ReadIndexAt { index: 1 })));
        assert!(is_unknown(Ok(NodeReply::Forwarded { outcomes: Blob(b"rubbish".to_vec().into()) })));
        let refused = made(1, Ok(NodeReply::Refused { why: why() }));
        assert!(matches!(refused, Err(ChangeError::Refused(said)) if said == why()));
        assert!(matches!(made(1, Ok(NodeReply::Changed { leader: 3 })), Ok(Made::Led(3))));
    }
}
