//! What this node does for the other nodes: accepts commands when it leads, reports its progress, lets nodes join.

use crate::admin::Admin;
use crate::net::throttle::Throttle;
use crate::peers::Refusal;
use crate::peers::admission::{self, AdmittedNodes};
use crate::peers::roster::Roster;
use crate::peers::service::{Peer, Service};
use crate::peers::tokio_node::TokioNode;
use crate::peers::wire::{DiskReply, JoinRequest, NodeQuestion, NodeReply, Purpose, StatusReply, Welcome};
use crate::replica::change::ChangeError;
use crate::replica::leadership::known_leader;
use crate::replica::no_outcome::NoOutcome;
use crate::replica::peer_calls::FORWARDED_WITHIN;
use crate::replica::propose::ANSWERS_BYTES_MAX;
use crate::replica::role::Role;
use crate::replica::wall::wall_now;
use lease::encoding::{decode, encode, encoded_len};
use lease::{Outcome, Request};
use openraft::Raft;
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::codec::records::{Blob, IdentityRecord};
use raft_store::state::Machine;
use raft_store::state::rocks::RocksDisk;
use raft_store::types::{NodeId, OnTokio};
use sabotage::{Broken, is_broken};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Bytes before the outcomes in their encoding.
const LENGTH_BYTES: usize = 16;
/// Bytes around the encoded outcomes in a frame.
const REPLY_BYTES: usize = 64;
const _: () = assert!(ANSWERS_BYTES_MAX + REPLY_BYTES <= Purpose::Calls.frame_bytes_max());
/// Short, because a joining node asks again.
const PROMOTE_WITHIN: Duration = Duration::from_secs(2);
const PASSED_ON_WITHIN: Duration = Duration::from_secs(5);

/// Answers the other nodes.
#[derive(Debug)]
pub struct NodeService {
    node: TokioNode,
    admin: Admin,
    roster: Roster,
    identity: IdentityRecord,
    /// The nodes that this node's configuration admits.
    admitted: AdmittedNodes,
    not_joined: Mutex<Throttle>,
    incoming: PathBuf,
}

impl NodeService {
    #[must_use]
    pub fn new(
        admin: Admin,
        roster: Roster,
        identity: IdentityRecord,
        admitted: AdmittedNodes,
        incoming: PathBuf,
    ) -> Self {
        Self { node: admin.node().clone(), admin, roster, identity, admitted, not_joined: Mutex::default(), incoming }
    }

    async fn forward(&self, from: NodeId, requests: &Blob) -> NodeReply {
        let requests: Vec<Request> = match decode(&requests.0) {
            Ok(requests) => requests,
            Err(error) => return NodeReply::Refused { why: format!("forwarded commands: {error}") },
        };
        // The request id leads to the request's trace in the log of the node that was called.
        for request in &requests {
            let (request_id, command) = (request.request_id.as_str(), request.command.name());
            tracing::debug!(from, request_id, command, "a command of another node's caller");
        }
        match self.node.proposer().submit_here(requests, FORWARDED_WITHIN).await {
            Ok(outcomes) => NodeReply::Forwarded { outcomes: Blob(encode_fitting(&outcomes).into()) },
            Err(NoOutcome::Unavailable(_)) => NodeReply::NotLeader { leader: self.node.leader() },
            Err(NoOutcome::LowOnDisk(why)) => NodeReply::LowOnDisk { why },
            Err(NoOutcome::TooLarge { .. }) => NodeReply::Refused { why: "more than is accepted at once".into() },
            Err(NoOutcome::Unknown(why) | NoOutcome::InDoubt(why)) => NodeReply::Unknown { why },
        }
    }

    /// Handles a join request; only the leader decides. A member that passes a request on is trusted about the
    /// certificate that it saw and about its own admissions.
    async fn join(&self, from: &Peer, mut asked: JoinRequest) -> NodeReply {
        if !from.is_member() {
            asked.certificate = from.shown.to_blob();
            asked.is_admitted = false;
        }
        asked.is_admitted |= admission::is_admitted(&self.admitted, &asked);
        if self.node.leader() != Some(self.node.id()) {
            return self.pass_on(NodeQuestion::JoinBy(asked)).await;
        }
        if let Err(why) = admission::check(&self.identity, &self.node.membership(), &asked, wall_now()) {
            let mut told = self.not_joined.lock().unwrap_or_else(PoisonError::into_inner);
            told.say(|times| tracing::warn!(times, "{why}"));
            return NodeReply::Refused { why };
        }
        let JoinRequest { node: id, member, is_new, wants_vote, rules_version, cluster, .. } = asked;
        if cluster.is_some_and(|cluster| cluster != self.identity.cluster) {
            return NodeReply::Refused { why: format!("the directory of node {id} belongs to another cluster") };
        }
        if let Err(why) = self.check_rules(id, rules_version) {
            return NodeReply::Refused { why };
        }
        let is_known = self.node.membership().get_node(&id).is_some();
        if !is_known && !is_new {
            return NodeReply::Refused { why: format!("node {id} was removed from the cluster") };
        }
        let mut joined = self.node.add_learner(id, member).await;
        // A new node creates its directory first, and asks again afterwards.
        if is_known && !is_new && wants_vote && joined.is_ok() {
            joined = match self.node.promote(id, PROMOTE_WITHIN).await {
                // It has not caught up yet: it asks again.
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

    fn check_rules(&self, node: NodeId, known: u32) -> Result<(), String> {
        let rules = self.node.store().read(|state, _| state.rules_version()).map_err(|error| error.to_string())?;
        if known < rules {
            return Err(format!("the cluster uses rules {rules}, node {node} knows rules up to {known}: upgrade it"));
        }
        Ok(())
    }

    /// Passes a question on to the leader, for a node that does not know it.
    async fn pass_on(&self, question: NodeQuestion) -> NodeReply {
        let known = known_leader(self.node.raft()).filter(|(leader, _)| *leader != self.node.id());
        let Some((leader, member)) = known else { return NodeReply::NotLeader { leader: None } };
        match self.node.calls().ask(leader, &member, question, PASSED_ON_WITHIN).await {
            Ok(reply) => reply,
            Err(error) if error.may_have_happened() => NodeReply::Unknown { why: error.to_string() },
            Err(_) => NodeReply::NotLeader { leader: Some(leader) },
        }
    }

    fn disk(&self) -> DiskReply {
        let disk = self.node.disk_space();
        DiskReply { free: disk.free(), floor: disk.floor(), is_low: disk.is_low() }
    }

    fn status(&self) -> StatusReply {
        let metrics = self.node.raft().metrics();
        let metrics = metrics.borrow_watched();
        StatusReply {
            role: Role::of(&metrics),
            term: metrics.current_term,
            leader: metrics.current_leader,
            applied: metrics.last_applied.map(Into::into),
            rules_version: self.node.store().known_rules(),
            members: metrics.membership_config.membership().into(),
        }
    }
}

/// Encodes as many outcomes, from the first on, as fit into a reply. All fit unless heartbeats name many cancelled
/// leases.
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
    tracing::warn!(bytes = all.len(), fit, of = outcomes.len(), "not all answers for another node fit into a reply");
    encode(&&outcomes[..fit])
}

impl Service for NodeService {
    type Types = OnTokio;
    type State = Machine<OnTokio, RocksDisk>;

    fn check(&self, peer: &Peer) -> Result<Welcome, Refusal> {
        let IdentityRecord { cluster, node, instance, .. } = self.identity;
        // A node that wants to join may connect; the leader decides about it.
        if !peer.is_member() {
            return Ok(Welcome { cluster: 0, node, instance: 0, rules_version: 0 });
        }
        self.roster.check(peer)?;
        self.check_rules(peer.node(), peer.hello.rules_version)?;
        Ok(Welcome { cluster, node, instance, rules_version: self.node.store().known_rules() })
    }

    async fn left(&self, peer: &Peer) {
        self.roster.left(peer).await;
    }

    async fn ask(&self, from: &Peer, question: NodeQuestion) -> NodeReply {
        match question {
            NodeQuestion::Forward { requests } => self.forward(from.node(), &requests).await,
            NodeQuestion::ReadIndex => match self.node.own_read_index().await {
                Some(index) => NodeReply::ReadIndexAt { index },
                None => NodeReply::NotLeader { leader: self.node.leader() },
            },
            NodeQuestion::HashMarks => NodeReply::HashMarks(self.node.store().hash_marks()),
            NodeQuestion::Join { node, member, is_new } => {
                let rules_version = from.hello.rules_version;
                let asked = JoinRequest {
                    node,
                    member,
                    is_new,
                    wants_vote: true,
                    rules_version,
                    cluster: from.hello.cluster,
                    secret: None,
                    certificate: None,
                    is_admitted: false,
                };
                self.join(from, asked).await
            }
            NodeQuestion::JoinBy(asked) => {
                // It asks until it has a vote; the log line about the members reports the result once.
                tracing::debug!(
                    asked.node,
                    from = from.node(),
                    address = asked.member.peer_address,
                    "a node asks to join"
                );
                self.join(from, asked).await
            }
            NodeQuestion::Members => NodeReply::Members(self.roster.members()),
            NodeQuestion::Status if from.is_member() || self.roster.is_for_a_member(from) => {
                NodeReply::Status(self.status())
            }
            NodeQuestion::Status => {
                NodeReply::Refused { why: "this certificate is not for the host of a member: use a member's".into() }
            }
            NodeQuestion::Change(change) => {
                tracing::info!(from = from.node(), ?change, "another node passed on a change of the cluster");
                self.admin.answer(change).await
            }
            NodeQuestion::Report => NodeReply::Report(self.admin.report()),
            NodeQuestion::Disk => NodeReply::Disk(self.disk()),
        }
    }

    fn raft(&self) -> Raft<OnTokio, Self::State> {
        self.node.raft().clone()
    }

    fn snapshot_root(&self) -> PathBuf {
        self.incoming.clone()
    }
}
