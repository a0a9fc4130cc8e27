//! What this node does for the others: takes commands when it leads, says how far it is, lets nodes join.

use crate::admin::Admin;
use crate::admin::status::role_of;
use crate::leadership::known_leader;
use crate::members::ChangeError;
use crate::metrics;
use crate::node::Node;
use crate::peers::connection::Peers;
use crate::peers::server::Service;
use crate::peers::wire::{Hello, NodeQuestion, NodeReply, Purpose, StatusReply, Welcome};
use crate::propose::{ANSWERS_BYTES_MAX, NoOutcome};
use lease::encoding::{decode, encode, encoded_len};
use lease::sabotage::{Broken, is_broken};
use lease::{Outcome, Request};
use openraft::Raft;
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::codec::records::{Blob, IdentityRecord};
use raft_store::state::Machine;
use raft_store::state::rocks::RocksDisk;
use raft_store::types::{Member, NodeId, OnTokio};
use std::path::PathBuf;
use std::time::Duration;

/// A node as the daemon runs it.
pub type TokioNode = Node<OnTokio, RocksDisk, Peers>;

/// Time that a forwarded command has here; its sender waits longer.
pub(crate) const FORWARDED_WITHIN: Duration = Duration::from_secs(8);
/// What stands before the outcomes in their encoding.
const LENGTH_BYTES: usize = 16;
/// And around it in a frame.
const REPLY_BYTES: usize = 64;
const _: () = assert!(ANSWERS_BYTES_MAX + REPLY_BYTES <= Purpose::Calls.frame_bytes_max());
/// A joining node asks again: no need to keep it waiting.
const PROMOTE_WITHIN: Duration = Duration::from_secs(2);
const PASSED_ON_WITHIN: Duration = Duration::from_secs(5);

/// Answers the other nodes.
#[derive(Debug)]
pub struct NodeService {
    node: TokioNode,
    admin: Admin,
    identity: IdentityRecord,
    incoming: PathBuf,
}

impl NodeService {
    #[must_use]
    pub fn new(admin: Admin, identity: IdentityRecord, incoming: PathBuf) -> Self {
        Self { node: admin.node().clone(), admin, identity, incoming }
    }

    async fn forward(&self, from: NodeId, requests: &Blob) -> NodeReply {
        let requests: Vec<Request> = match decode(&requests.0) {
            Ok(requests) => requests,
            Err(error) => return NodeReply::Refused { why: format!("forwarded commands: {error}") },
        };
        // By its id a request is found in the log of the node that was called, with its trace.
        for request in &requests {
            let (request_id, command) = (request.request_id.as_str(), metrics::name(&request.command));
            tracing::debug!(from, request_id, command, "a command of another node's caller");
        }
        match self.node.proposer().submit_here(requests, FORWARDED_WITHIN).await {
            Ok(outcomes) => NodeReply::Forwarded { outcomes: Blob(encode_fitting(&outcomes).into()) },
            Err(NoOutcome::Unavailable(_)) => NodeReply::NotLeader { leader: self.node.leader() },
            Err(NoOutcome::LowOnDisk(why)) => NodeReply::LowOnDisk { why },
            Err(NoOutcome::TooLarge { .. }) => NodeReply::Refused { why: "more than is taken at once".into() },
            Err(NoOutcome::Unknown(why) | NoOutcome::InDoubt(why)) => NodeReply::Unknown { why },
        }
    }

    async fn join(&self, id: NodeId, member: Member, is_new: bool) -> NodeReply {
        if self.node.leader() != Some(self.node.id()) {
            return self.pass_on(NodeQuestion::Join { node: id, member, is_new }).await;
        }
        let is_known = self.node.membership().get_node(&id).is_some();
        if !is_known && !is_new {
            return NodeReply::Refused { why: format!("node {id} was removed from the cluster") };
        }
        let mut joined = self.node.add_learner(id, member).await;
        if is_known && joined.is_ok() {
            joined = match self.node.promote(id, PROMOTE_WITHIN).await {
                // Not yet: it asks again.
                Err(ChangeError::Refused(_)) => Ok(()),
                other => other,
            };
        }
        match joined {
            Ok(()) => NodeReply::Joined {
                cluster: self.identity.cluster,
                salt: self.identity.salt,
                members: (&self.node.membership()).into(),
            },
            Err(ChangeError::NotLeader(leader)) => NodeReply::NotLeader { leader },
            Err(ChangeError::Refused(why)) => NodeReply::Refused { why },
            Err(ChangeError::Unknown(why)) => NodeReply::Unknown { why },
        }
    }

    /// To the leader, on behalf of one who does not know it.
    async fn pass_on(&self, question: NodeQuestion) -> NodeReply {
        let known = known_leader(self.node.raft()).filter(|(leader, _)| *leader != self.node.id());
        let Some((leader, member)) = known else { return NodeReply::NotLeader { leader: None } };
        match self.node.calls().ask(leader, &member, question, PASSED_ON_WITHIN).await {
            Ok(reply) => reply,
            Err(error) if error.may_have_happened() => NodeReply::Unknown { why: error.to_string() },
            Err(_) => NodeReply::NotLeader { leader: Some(leader) },
        }
    }

    fn status(&self) -> StatusReply {
        let metrics = self.node.raft().metrics();
        let metrics = metrics.borrow_watched();
        StatusReply {
            role: role_of(&metrics),
            term: metrics.current_term,
            leader: metrics.current_leader,
            applied: metrics.last_applied.map(Into::into),
            rules_version: self.node.store().known_rules(),
            members: metrics.membership_config.membership().into(),
        }
    }
}

/// As many outcomes, from the first on, as a reply has room for. All, unless heartbeats name many cancelled leases.
fn encode_fitting(outcomes: &[Outcome]) -> Vec<u8> {
    let all = encode(&outcomes);
    if all.len() <= ANSWERS_BYTES_MAX || is_broken(Broken::LongAnswers) {
        return all;
    }
    let mut left = ANSWERS_BYTES_MAX - LENGTH_BYTES;
    let fit = outcomes.iter().map_while(|outcome| {
        left = left.checked_sub(encoded_len(outcome))?;
        Some(())
    });
    let fit = fit.count();
    tracing::warn!(bytes = all.len(), fit, of = outcomes.len(), "not all answers to another node's callers fit");
    encode(&&outcomes[..fit])
}

impl Service for NodeService {
    type Types = OnTokio;
    type State = Machine<OnTokio, RocksDisk>;

    fn check(&self, hello: &Hello) -> Result<Welcome, String> {
        // One that wants to join is heard, and told by the leader.
        if let Some(known) = self.node.membership().get_node(&hello.node)
            && hello.cluster.is_some()
            && known.instance != 0
            && known.instance != hello.instance
        {
            return Err(format!(
                "node {} is a member with another directory: a node that lost its directory comes back under a new id",
                hello.node
            ));
        }
        let rules = self.node.store().read(|state, _| state.rules_version()).map_err(|error| error.to_string())?;
        if hello.rules_version < rules {
            return Err(format!(
                "the cluster is at rules {rules}, node {} knows up to {}: upgrade it",
                hello.node, hello.rules_version
            ));
        }
        // Any other node of this cluster is heard: it may be one that this node has not learned of yet.
        Ok(Welcome {
            cluster: self.identity.cluster,
            node: self.identity.node,
            instance: self.identity.instance,
            rules_version: self.node.store().known_rules(),
        })
    }

    async fn ask(&self, from: NodeId, question: NodeQuestion) -> NodeReply {
        match question {
            NodeQuestion::Forward { requests } => self.forward(from, &requests).await,
            NodeQuestion::ReadIndex => match self.node.own_read_index().await {
                Some(index) => NodeReply::ReadIndexAt { index },
                None => NodeReply::NotLeader { leader: self.node.leader() },
            },
            NodeQuestion::HashMarks => NodeReply::HashMarks(self.node.store().hash_marks()),
            NodeQuestion::Join { node, member, is_new } => {
                // It asks until it has a vote: what comes of it is told once, as a change of the members.
                tracing::debug!(node, from, address = member.peer_address, "a node asks to join");
                self.join(node, member, is_new).await
            }
            NodeQuestion::Status => NodeReply::Status(self.status()),
            NodeQuestion::Change(change) => {
                tracing::info!(from, ?change, "a change of the cluster is passed on");
                self.admin.answer(change).await
            }
            NodeQuestion::Report => NodeReply::Report(self.admin.report()),
            NodeQuestion::Disk => NodeReply::Disk(self.node.disk_space().reply()),
        }
    }

    fn raft(&self) -> Raft<OnTokio, Self::State> {
        self.node.raft().clone()
    }

    fn snapshot_root(&self) -> PathBuf {
        self.incoming.clone()
    }
}
