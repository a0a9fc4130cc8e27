//! Changes of the membership. Every change may be repeated. A change is computed from the current members and applied
//! only if they are still the same, so concurrent changes never undo one another.

use crate::replica::change::{ChangeError, flatten, is_joint, is_not_our_turn, only_on};
use crate::replica::no_outcome::NoOutcome;
use crate::replica::node::Node;
use crate::replica::peer_calls::PeerCalls;
use crate::replica::propose::Responds;
use futures_util::future;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, InitializeError, RaftError};
use openraft::type_config::TypeConfigExt;
use openraft::type_config::alias::LogIdOf;
use openraft::{ChangeMembers, Instant as _};
use raft_store::state::disk::StateDisk;
use raft_store::types::{Member, Membership, NodeId};
use sabotage::{Broken, is_broken};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A learner is promoted when it is at most this many entries behind.
const CAUGHT_UP_WITHIN: u64 = 1_000;
/// How long a change waits for another one to finish.
const TURN_WITHIN: Duration = Duration::from_secs(10);
/// A node that has not answered a heartbeat for this long counts as gone when another one is to be removed.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);
const HAND_OVER_WITHIN: Duration = Duration::from_secs(3);
const ASK_WITHIN: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The next step of a change, computed from the current members.
enum Step {
    /// The members are already as the change wants them.
    Done,
    Make(ChangeMembers<NodeId, Member>),
}

impl<C: Responds, D: StateDisk, P: PeerCalls> Node<C, D, P> {
    /// Creates a cluster of these first members. Repeating it changes nothing.
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

    /// Adds a node that follows without a vote. Adding the same node again changes nothing. Another directory under a
    /// known or removed id is refused, because it does not hold the votes and entries of the first one. An instance of
    /// 0 means that the directory is not known yet: the node reports it when it joins.
    ///
    /// # Errors
    /// When this node does not lead, or the id is taken.
    pub async fn add_learner(&self, id: NodeId, member: Member) -> Result<(), ChangeError> {
        self.change(|members| {
            let Some(known) = members.get_node(&id) else {
                if self.store().was_removed(id).map_err(|error| ChangeError::Refused(error.to_string()))? {
                    return Err(ChangeError::Refused(format!(
                        "node {id} was removed from the cluster, and its id cannot be used again: add it under an id that was \
                         never used"
                    )));
                }
                return Ok(Step::Make(ChangeMembers::AddNodes(BTreeMap::from([(id, member.clone())]))));
            };
            let mut member = member.clone();
            if member.instance == 0 {
                member.instance = known.instance;
                if member.api_address.is_empty() {
                    member.api_address.clone_from(&known.api_address);
                }
            }
            if known.instance != 0 && known.instance != member.instance {
                return Err(ChangeError::Refused(format!(
                    "node {id} is a member with another directory: a node that lost its directory needs a new id; remove node \
                     {id} and add it under an id that was never used"
                )));
            }
            if *known == member {
                return Ok(Step::Done);
            }
            // The same directory at another address.
            Ok(Step::Make(ChangeMembers::SetNodes(BTreeMap::from([(id, member)]))))
        })
        .await
    }

    /// Gives a learner a vote once it has nearly all of the log.
    ///
    /// # Errors
    /// When this node does not lead, the id is unknown, or the learner does not catch up in time.
    pub async fn promote(&self, id: NodeId, within: Duration) -> Result<(), ChangeError> {
        let give_vote = |members: &Membership| match members.get_node(&id) {
            None => Err(ChangeError::Refused(format!("node {id} is not a member: add it first"))),
            // Without its instance, its votes could not be told from those of a wiped directory.
            Some(member) if member.instance == 0 => {
                Err(ChangeError::Refused(format!("node {id} has not started yet: start it with --join")))
            }
            Some(_) if members.voter_ids().any(|voter| voter == id) => Ok(Step::Done),
            Some(_) => Ok(Step::Make(ChangeMembers::AddVoterIds(BTreeSet::from([id])))),
        };
        // Do not wait for a node that cannot be promoted or is a voter already.
        if matches!(give_vote(&self.membership())?, Step::Make(_)) {
            let caught_up = async {
                while !self.has_caught_up(id) {
                    C::sleep(LOOK_EVERY).await;
                }
            };
            if C::timeout(within, caught_up).await.is_err() {
                return Err(ChangeError::Refused(format!("node {id} has not caught up yet: wait and retry")));
            }
        }
        self.change(give_vote).await
    }

    /// Removes a node and its vote. Removing an unknown id changes nothing. A leader that removes itself hands over
    /// first and returns the new leader in `NotLeader`: repeat the call there.
    ///
    /// # Errors
    /// When this node does not lead or no longer leads, or the node is the last voter.
    pub async fn remove(&self, id: NodeId) -> Result<(), ChangeError> {
        let leads = || id == self.id() && self.leader() == Some(id);
        if leads() && self.membership().voter_ids().count() > 1 {
            self.settle_members().await?;
            let next = self.transfer(None, HAND_OVER_WITHIN).await?;
            return Err(ChangeError::NotLeader(Some(next)));
        }
        self.change(|members| {
            if members.get_node(&id).is_none() {
                return Ok(Step::Done);
            }
            let voters: BTreeSet<NodeId> = members.voter_ids().collect();
            if !voters.contains(&id) {
                return Ok(Step::Make(ChangeMembers::RemoveNodes(BTreeSet::from([id]))));
            }
            if voters.len() == 1 {
                return Err(ChangeError::Refused(format!("node {id} is the last voter: promote another one first")));
            }
            let left: BTreeSet<NodeId> = voters.into_iter().filter(|voter| *voter != id).collect();
            let answering = self.answering();
            if left.intersection(&answering).count() <= left.len() / 2 {
                return Err(ChangeError::Refused(format!(
                    "without node {id} the voters would be {left:?}, and too few of them answer for a quorum: start the others \
                     first, or remove those that are gone for good"
                )));
            }
            Ok(Step::Make(ChangeMembers::RemoveVoters(BTreeSet::from([id]))))
        })
        .await
    }

    /// This node and the nodes that answered its heartbeats recently; only itself on a node that does not lead.
    #[must_use]
    pub fn answering(&self) -> BTreeSet<NodeId> {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let heard = metrics.heartbeat.iter().flatten();
        let lately = heard.filter(|(_, heard)| heard.is_some_and(|heard| heard.elapsed() < ANSWERED_WITHIN));
        lately.map(|(id, _)| *id).chain([self.id()]).collect()
    }

    /// Replaces a node: the new one joins, catches up and gets a vote, then the old one is removed.
    ///
    /// # Errors
    /// Those of [`Node::add_learner`], [`Node::promote`] and [`Node::remove`]; repeat it.
    pub async fn replace(&self, old: NodeId, new: NodeId, member: Member, within: Duration) -> Result<(), ChangeError> {
        self.add_learner(new, member).await?;
        self.promote(new, within).await?;
        self.remove(old).await
    }

    /// Makes another voter the leader: the given one, by default the one with the longest log that is not draining.
    ///
    /// # Errors
    /// When this node does not lead, the target cannot lead, or no new leader is seen in time.
    pub async fn transfer(&self, to: Option<NodeId>, within: Duration) -> Result<NodeId, ChangeError> {
        if self.leader() != Some(self.id()) {
            return Err(ChangeError::NotLeader(self.leader()));
        }
        let to = match to {
            Some(to) => to,
            None => self.successor().await?,
        };
        if to == self.id() {
            return Ok(to);
        }
        if let Some(member) = self.membership().get_node(&to)
            && self.calls().is_draining(to, member, ASK_WITHIN).await == Some(true)
        {
            return Err(ChangeError::Refused(format!("node {to} is draining: undrain it first, or name another node")));
        }
        if !self.membership().voter_ids().any(|voter| voter == to) {
            return Err(ChangeError::Refused(format!("node {to} has no vote: promote it first")));
        }
        // A transfer to a node that lags would leave the cluster without a leader for seconds.
        let caught_up = async {
            while !self.has_caught_up(to) {
                C::sleep(LOOK_EVERY).await;
            }
        };
        if C::timeout(within, caught_up).await.is_err() {
            return Err(ChangeError::Refused(format!("node {to} is too far behind: wait and retry")));
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

    /// Makes another node lead before this node stops.
    pub(crate) async fn hand_over(&self) -> Result<(), ChangeError> {
        // A half-done change may have no quorum without this node.
        let _ = C::timeout(TURN_WITHIN, self.settle_members()).await;
        self.transfer(None, HAND_OVER_WITHIN).await.map(|_| ())
    }

    /// The members after the last change that this node knows.
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

    /// A change of voters has two steps; a crash between them leaves both sets in force. Returns when only one is in
    /// force.
    async fn settle_members(&self) -> Result<(), ChangeError> {
        self.change(|_| Ok(Step::Done)).await
    }

    /// Makes the change that `next` computes. Raft makes one change at a time, so this may have to wait; `next` runs
    /// again after each wait on the then current members, and Raft appends the change only if they are still the same.
    /// If there is nothing to change, a quorum confirms it.
    async fn change(&self, next: impl Fn(&Membership) -> Result<Step, ChangeError>) -> Result<(), ChangeError> {
        let by = C::now() + TURN_WITHIN;
        if is_broken(Broken::StaleVoters)
            && let Some(target) = self.membership().get_joint_config().get(1)
        {
            self.repeat_blindly(ChangeMembers::ReplaceAllVoters(target.clone())).await?;
        }
        loop {
            if self.leader() != Some(self.id()) {
                return Err(ChangeError::NotLeader(self.leader()));
            }
            if let Some((last, members)) = self.applied_members() {
                let half_done = is_joint(&members) && !is_broken(Broken::RemovedReturns);
                let step = if half_done { Step::Make(flatten()) } else { next(&members)? };
                match step {
                    Step::Done => {
                        self.in_step(by.saturating_duration_since(C::now())).await.map_err(not_confirmed)?;
                        if self.applied_members().is_some_and(|(now, _)| now == last) {
                            return Ok(());
                        }
                    }
                    Step::Make(change) if is_broken(Broken::RemovedReturns) => {
                        return self.repeat_blindly(change).await;
                    }
                    Step::Make(change) => match self.raft().change_membership_if(change, false, only_on(last)).await {
                        Ok(_) if half_done => continue,
                        Ok(_) => return Ok(()),
                        Err(error) if is_not_our_turn(&error) => {}
                        Err(error) => return Err(failed(error)),
                    },
                }
            }
            if C::now() >= by {
                return Err(ChangeError::Unknown("another membership change has not finished".into()));
            }
            C::sleep(LOOK_EVERY).await;
        }
    }

    /// Only in builds for tests: repeats a change until Raft accepts it, regardless of other changes made meanwhile.
    async fn repeat_blindly(&self, change: ChangeMembers<NodeId, Member>) -> Result<(), ChangeError> {
        let by = C::now() + TURN_WITHIN;
        loop {
            match self.raft().change_membership(change.clone(), false).await {
                Ok(_) => return Ok(()),
                Err(error) if is_not_our_turn(&error) && C::now() < by => C::sleep(LOOK_EVERY).await,
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// The members and the id of the entry that set them, once that entry is committed and applied here.
    fn applied_members(&self) -> Option<(Option<LogIdOf<C>>, Membership)> {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let last = *metrics.membership_config.log_id();
        let is_applied = last <= metrics.last_applied || is_broken(Broken::RemovedReturns);
        is_applied.then(|| (last, metrics.membership_config.membership().clone()))
    }

    fn has_caught_up(&self, id: NodeId) -> bool {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let last = metrics.last_log_index.unwrap_or(0);
        let matched = metrics.replication.as_ref().and_then(|all| all.get(&id)).and_then(Option::as_ref);
        matched.is_some_and(|matched| matched.index + CAUGHT_UP_WITHIN >= last)
    }

    /// The other voter with the longest log, of those that answer and are not draining.
    async fn successor(&self) -> Result<NodeId, ChangeError> {
        let mut others = self.other_voters();
        if others.is_empty() {
            return Err(ChangeError::Refused("there is no other voter".into()));
        }
        others.sort_by_key(|(_, _, matched)| Reverse(*matched));
        let asking = others.iter().map(|(id, member, _)| self.calls().is_draining(*id, member, ASK_WITHIN));
        let draining = future::join_all(asking).await;
        let takes_over = others.iter().zip(draining).find(|(_, is_draining)| *is_draining == Some(false));
        takes_over.map(|((id, ..), _)| *id).ok_or_else(|| {
            ChangeError::Refused("no other voter can lead: each one is draining or does not answer".into())
        })
    }

    /// The voters except this node, each with the last index that it is known to have.
    fn other_voters(&self) -> Vec<(NodeId, Member, Option<u64>)> {
        let metrics = self.raft().metrics();
        let metrics = metrics.borrow_watched();
        let matched = |id: &NodeId| metrics.replication.as_ref()?.get(id)?.as_ref().map(|matched| matched.index);
        let voters: BTreeSet<NodeId> = metrics.membership_config.voter_ids().filter(|id| *id != self.id()).collect();
        let members = metrics.membership_config.nodes().filter(|(id, _)| voters.contains(id));
        members.map(|(id, member)| (*id, member.clone(), matched(id))).collect()
    }
}

fn not_confirmed(no: NoOutcome) -> ChangeError {
    ChangeError::Unknown(format!("no quorum confirmed the members: {no}"))
}

fn failed<C: Responds>(error: RaftError<C, ClientWriteError<C>>) -> ChangeError {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => ChangeError::NotLeader(forward.leader_id),
        RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => ChangeError::Refused(error.to_string()),
        RaftError::APIError(error) => ChangeError::Unknown(error.to_string()),
        RaftError::Fatal(fatal) => ChangeError::Unknown(fatal.to_string()),
    }
}
