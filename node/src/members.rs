//! Who belongs to the cluster. Every change may be repeated, and finishes what an earlier attempt left half done.

use crate::calls::Calls;
use crate::node::Node;
use crate::propose::Responds;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, InitializeError, RaftError};
use openraft::type_config::TypeConfigExt;
use openraft::{ChangeMembers, Raft};
use raft_store::state::Machine;
use raft_store::state::disk::StateDisk;
use raft_store::types::{Member, Membership, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// A learner is promoted when it is at most so many entries behind.
const CAUGHT_UP_WITHIN: u64 = 1_000;
/// A change waits so long for another one to end.
const TURN_WITHIN: Duration = Duration::from_secs(10);
const HAND_OVER_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A change that stands half done for so long was left so by a leader that is gone: they take milliseconds.
const HALF_DONE_FOR: Duration = Duration::from_secs(1);

/// Why a change did not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// Ask this node, if it is known.
    NotLeader(Option<NodeId>),
    Refused(String),
    /// It may have happened: look, and repeat it.
    Unknown(String),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLeader(Some(leader)) => write!(f, "this node does not lead; node {leader} does"),
            Self::NotLeader(None) => write!(f, "no leader is known: wait, or look at the cluster's status"),
            Self::Refused(why) => write!(f, "{why}"),
            Self::Unknown(why) => write!(f, "unknown whether it happened: {why}. Look at the status and repeat it"),
        }
    }
}

impl std::error::Error for ChangeError {}

/// Finishes, while this node leads, the change that another leader left half done. Until then the old and the new
/// voters must both have a majority: the loss of one node could stop a cluster of three.
pub(crate) async fn finish_left_changes<C: Responds, D: StateDisk>(raft: Raft<C, Machine<C, D>>) {
    let mut seen = None;
    loop {
        C::sleep(HALF_DONE_FOR).await;
        let (half_done, target) = {
            let metrics = raft.metrics();
            let metrics = metrics.borrow_watched();
            let target = metrics.membership_config.get_joint_config().get(1).cloned();
            (metrics.membership_config.log_id().filter(|_| metrics.state.is_leader()), target)
        };
        let (Some(id), Some(target)) = (half_done, target) else {
            seen = None;
            continue;
        };
        if seen.replace(id) == Some(id)
            && let Err(error) = raft.change_membership(ChangeMembers::ReplaceAllVoters(target), false).await
        {
            tracing::warn!(%error, "a change of the members is half done; trying on");
        }
    }
}

impl<C: Responds, D: StateDisk, P: Calls> Node<C, D, P> {
    /// The first node of a cluster, or its first nodes, make it. Repeating it changes nothing.
    ///
    /// # Errors
    /// When this node already belongs to a cluster with other members.
    pub async fn bootstrap(&self, members: BTreeMap<NodeId, Member>) -> Result<(), ChangeError> {
        match self.raft().initialize(members.clone()).await {
            Ok(()) => Ok(()),
            Err(RaftError::APIError(InitializeError::NotAllowed(_))) if self.knows_all(&members) => Ok(()),
            Err(RaftError::APIError(error)) => Err(ChangeError::Refused(error.to_string())),
            Err(RaftError::Fatal(fatal)) => Err(ChangeError::Unknown(fatal.to_string())),
        }
    }

    /// Lets a node follow without a vote. Adding the same one again changes nothing; another directory under a known
    /// id, or under one that was removed, is refused, because what the first one promised is not in it. An instance of 0 says that the one who adds it
    /// does not know its directory: the node says that itself when it comes.
    ///
    /// # Errors
    /// When this node does not lead, or the id is taken.
    pub async fn add_learner(&self, id: NodeId, mut member: Member) -> Result<(), ChangeError> {
        if let Some(known) = self.membership().get_node(&id) {
            if member.instance == 0 {
                member.instance = known.instance;
                if member.api_address.is_empty() {
                    member.api_address.clone_from(&known.api_address);
                }
            }
            if known.instance != 0 && known.instance != member.instance {
                return Err(ChangeError::Refused(format!(
                    "node {id} is a member with another directory: a node that lost its directory comes back under a new id; \
                     remove node {id} and add it under an id that was never used"
                )));
            }
            if *known == member {
                return Ok(());
            }
            // The same directory at another address.
            return self.change(ChangeMembers::SetNodes(BTreeMap::from([(id, member)]))).await;
        }
        // All that was committed is looked at: an id that just went must not come back.
        let ready = self.in_step(TURN_WITHIN).await;
        ready.map_err(|_| ChangeError::NotLeader(None))?;
        if self.store().was_removed(id).map_err(|error| ChangeError::Refused(error.to_string()))? {
            return Err(ChangeError::Refused(format!(
                "node {id} was removed from the cluster, and its id does not come back: add it under an id that was never used"
            )));
        }
        self.finish_joint().await?;
        self.change(ChangeMembers::AddNodes(BTreeMap::from([(id, member)]))).await
    }

    /// Gives a learner a vote, once it has nearly all of the log.
    ///
    /// # Errors
    /// When this node does not lead, the id is unknown, or the learner does not catch up in time.
    pub async fn promote(&self, id: NodeId, within: Duration) -> Result<(), ChangeError> {
        self.finish_joint().await?;
        match self.membership().get_node(&id) {
            None => return Err(ChangeError::Refused(format!("node {id} is no member: add it first"))),
            // What it voted could not be told from what a wiped one never did.
            Some(member) if member.instance == 0 => {
                return Err(ChangeError::Refused(format!("node {id} has not come yet: start it with --join")));
            }
            Some(_) => {}
        }
        if self.membership().voter_ids().any(|voter| voter == id) {
            return Ok(());
        }
        let caught_up = async {
            while !self.has_caught_up(id) {
                C::sleep(LOOK_EVERY).await;
            }
        };
        if C::timeout(within, caught_up).await.is_err() {
            return Err(ChangeError::Refused(format!("node {id} has not caught up yet: wait and repeat it")));
        }
        self.change(ChangeMembers::AddVoterIds(BTreeSet::from([id]))).await
    }

    /// Takes a node out, vote and all. Unknown ids are out already. A leader that is to go hands over first, and says
    /// who leads then: ask that one.
    ///
    /// # Errors
    /// When this node does not lead, or no longer, or the node is the last voter.
    pub async fn remove(&self, id: NodeId) -> Result<(), ChangeError> {
        self.finish_joint().await?;
        let membership = self.membership();
        if membership.get_node(&id).is_none() {
            return Ok(());
        }
        if membership.voter_ids().any(|voter| voter == id) {
            if membership.voter_ids().count() == 1 {
                return Err(ChangeError::Refused(format!("node {id} is the last voter: promote another one first")));
            }
            if id == self.id() && self.leader() == Some(id) {
                let next = self.transfer(None, HAND_OVER_WITHIN).await?;
                return Err(ChangeError::NotLeader(Some(next)));
            }
            self.change(ChangeMembers::RemoveVoters(BTreeSet::from([id]))).await?;
        }
        if self.membership().get_node(&id).is_none() {
            return Ok(());
        }
        self.change(ChangeMembers::RemoveNodes(BTreeSet::from([id]))).await
    }

    /// One node takes the place of another: it joins, catches up, gets a vote, and the other one goes.
    ///
    /// # Errors
    /// As its parts; repeat it.
    pub async fn replace(&self, old: NodeId, new: NodeId, member: Member, within: Duration) -> Result<(), ChangeError> {
        self.add_learner(new, member).await?;
        self.promote(new, within).await?;
        self.remove(old).await
    }

    /// Makes another voter lead: this one, or the one that is furthest.
    ///
    /// # Errors
    /// When this node does not lead, the target cannot, or no new leader is seen in time.
    pub async fn transfer(&self, to: Option<NodeId>, within: Duration) -> Result<NodeId, ChangeError> {
        if self.leader() != Some(self.id()) {
            return Err(ChangeError::NotLeader(self.leader()));
        }
        let to = match to {
            Some(to) => to,
            None => self.furthest_other().ok_or_else(|| ChangeError::Refused("there is no other voter".into()))?,
        };
        if to == self.id() {
            return Ok(to);
        }
        if !self.membership().voter_ids().any(|voter| voter == to) {
            return Err(ChangeError::Refused(format!("node {to} has no vote: promote it first")));
        }
        // To one that lags it would leave no leader for seconds.
        let caught_up = async {
            while !self.has_caught_up(to) {
                C::sleep(LOOK_EVERY).await;
            }
        };
        if C::timeout(within, caught_up).await.is_err() {
            return Err(ChangeError::Refused(format!("node {to} is too far behind: wait and repeat it")));
        }
        self.raft().trigger().transfer_leader(to).await.map_err(|fatal| ChangeError::Unknown(fatal.to_string()))?;
        let mut metrics = self.raft().server_metrics();
        let moved = async {
            loop {
                let leader = metrics.borrow_watched().current_leader;
                if leader.is_some_and(|leader| leader != self.id()) || metrics.changed().await.is_err() {
                    return leader;
                }
            }
        };
        match C::timeout(within, moved).await {
            Ok(Some(leader)) => Ok(leader),
            _ => Err(ChangeError::Unknown("no new leader was seen in time".into())),
        }
    }

    /// Before this node stops: another one should lead.
    pub(crate) async fn hand_over(&self) -> Result<(), ChangeError> {
        // Half of a change left in force may have no quorum without this node.
        let _ = C::timeout(TURN_WITHIN, self.finish_joint()).await;
        self.transfer(None, HAND_OVER_WITHIN).await.map(|_| ())
    }

    /// The members, as of the last change that this node knows.
    #[must_use]
    pub fn membership(&self) -> Membership {
        self.raft().server_metrics().borrow_watched().membership_config.membership().clone()
    }

    fn knows_all(&self, members: &BTreeMap<NodeId, Member>) -> bool {
        let membership = self.membership();
        members
            .iter()
            .all(|(id, member)| membership.get_node(id).is_some_and(|known| known.instance == member.instance))
    }

    /// A change of voters is two steps; a crash between them leaves both sets in force.
    async fn finish_joint(&self) -> Result<(), ChangeError> {
        let membership = self.membership();
        let Some(target) = membership.get_joint_config().get(1).cloned() else { return Ok(()) };
        self.change(ChangeMembers::ReplaceAllVoters(target)).await
    }

    /// One change at a time: another one's end is awaited.
    async fn change(&self, change: ChangeMembers<NodeId, Member>) -> Result<(), ChangeError> {
        let by = C::now() + TURN_WITHIN;
        loop {
            match self.raft().change_membership(change.clone(), false).await {
                Ok(_) => return Ok(()),
                Err(error) if is_not_our_turn(&error) && C::now() < by => C::sleep(LOOK_EVERY).await,
                Err(error) => return Err(failed(error)),
            }
        }
    }

    fn has_caught_up(&self, id: NodeId) -> bool {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let last = metrics.last_log_index.unwrap_or(0);
        let matched = metrics.replication.as_ref().and_then(|all| all.get(&id)).and_then(Option::as_ref);
        matched.is_some_and(|matched| matched.index + CAUGHT_UP_WITHIN >= last)
    }

    fn furthest_other(&self) -> Option<NodeId> {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let voters: BTreeSet<NodeId> = metrics.membership_config.voter_ids().collect();
        let replication = metrics.replication.as_ref()?;
        let others = replication.iter().filter(|(id, _)| **id != self.id() && voters.contains(id));
        others.max_by_key(|(_, matched)| matched.as_ref().map(|matched| matched.index)).map(|(id, _)| *id)
    }
}

/// Another change is under way, or a new leader has not committed anything yet.
fn is_not_our_turn<C: Responds>(error: &RaftError<C, ClientWriteError<C>>) -> bool {
    matches!(
        error,
        RaftError::APIError(ClientWriteError::ChangeMembershipError(
            ChangeMembershipError::InProgress(_) | ChangeMembershipError::UncommittedLeaderLog(_)
        ))
    )
}

fn failed<C: Responds>(error: RaftError<C, ClientWriteError<C>>) -> ChangeError {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => ChangeError::NotLeader(forward.leader_id),
        RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => ChangeError::Refused(error.to_string()),
        RaftError::APIError(error) => ChangeError::Unknown(error.to_string()),
        RaftError::Fatal(fatal) => ChangeError::Unknown(fatal.to_string()),
    }
}
