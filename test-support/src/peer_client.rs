//! A client that asks nodes over the wire, like another node, and retries.

use crate::fleet;
use crate::within;
use lease::bounds::RULES_VERSION;
use lease::numbers::{Span, Token};
use lease::refusal::Refusal;
use lease::{Attempt, Command, Outcome, Request};
use node::peers::Peers;
use node::peers::tls::PeerTls;
use node::peers::wire::{NodeQuestion, NodeReply, StatusReply};
use node::peers::{NodeIdentity, PeerError};
use raft_store::codec::records::{Blob, IdentityRecord};
use raft_store::types::{Group, Member, NodeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// A node that is paused answers nothing: then another one is asked.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

static REQUESTS: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Debug)]
pub struct Client {
    peers: Peers,
    nodes: Arc<Vec<(NodeId, Member)>>,
    /// The source of the last answer: an index into `nodes`.
    turn: Arc<AtomicUsize>,
    counts: Arc<Counts>,
}

/// The result of a question.
#[derive(Debug, Default)]
pub struct Counts {
    pub answered: AtomicU64,
    pub not_taken: AtomicU64,
    pub unknown: AtomicU64,
}

impl Client {
    /// Without certificates any process that knows a member's instance can act as that member.
    pub fn new(member: &IdentityRecord, tls: Option<PeerTls>, nodes: Vec<(NodeId, Member)>) -> Self {
        let IdentityRecord { cluster, node, instance, .. } = *member;
        let peers = Peers::new(NodeIdentity { cluster: Some(cluster), node, instance, ..STRANGER }, tls);
        Self { peers, nodes: Arc::new(nodes), turn: Arc::default(), counts: Arc::default() }
    }

    /// Without knowing the cluster.
    pub async fn status_at(address: &str, tls: Option<PeerTls>) -> Option<StatusReply> {
        let stranger = Peers::new(STRANGER, tls);
        match stranger.ask_address(address, NodeQuestion::Status, ANSWER_WITHIN).await {
            Ok(NodeReply::Status(status)) => Some(status),
            _ => None,
        }
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub async fn ask(&self, node: NodeId, question: NodeQuestion) -> Result<NodeReply, PeerError> {
        let (_, member) = self.nodes.iter().find(|(id, _)| *id == node).unwrap();
        self.peers.ask(node, member, question, ANSWER_WITHIN).await
    }

    /// One attempt with one node.
    pub async fn submit(&self, node: NodeId, request: &Request) -> Submitted {
        let requests = Blob(lease::encoding::encode(&vec![request.clone()]).into());
        let submitted = match self.ask(node, NodeQuestion::Forward { requests }).await {
            Ok(NodeReply::Forwarded { outcomes }) => {
                let mut outcomes: Vec<Outcome> = lease::encoding::decode(&outcomes.0).unwrap();
                assert_eq!(outcomes.len(), 1);
                Submitted::Answered(outcomes.remove(0))
            }
            Ok(NodeReply::NotLeader { leader }) => Submitted::NotTaken(leader),
            Ok(NodeReply::LowOnDisk { .. }) => Submitted::LowOnDisk,
            Ok(NodeReply::Unknown { .. }) => Submitted::Unknown,
            Ok(other) => panic!("node {node} answers {other:?}"),
            Err(error) if error.may_have_happened() => Submitted::Unknown,
            Err(_) => Submitted::NotTaken(None),
        };
        let count = match &submitted {
            Submitted::Answered(_) => &self.counts.answered,
            Submitted::NotTaken(_) | Submitted::LowOnDisk => &self.counts.not_taken,
            Submitted::Unknown => &self.counts.unknown,
        };
        count.fetch_add(1, Ordering::Relaxed);
        submitted
    }

    /// Asks the leader, and repeats under the same request id while the result is unknown.
    pub async fn finish(&self, mut request: Request) -> Outcome {
        let asking = async {
            loop {
                let turn = self.turn.load(Ordering::Relaxed);
                let asked = self.nodes[turn].0;
                let next = match self.submit(asked, &request).await {
                    Submitted::Answered(outcome) => return outcome,
                    // There may be room after a while.
                    Submitted::LowOnDisk => Some(asked),
                    Submitted::NotTaken(leader) => leader.filter(|leader| *leader != asked),
                    Submitted::Unknown => {
                        request.attempt = Attempt::Repeat;
                        None
                    }
                };
                let named = next.and_then(|next| self.nodes.iter().position(|(id, _)| *id == next));
                self.turn.store(named.unwrap_or((turn + 1) % self.nodes.len()), Ordering::Relaxed);
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        within("an answer", asking).await
    }

    pub async fn carry_out(&self, actor: &str, command: Command) -> Outcome {
        self.finish(request(actor, command)).await
    }

    pub async fn create(&self, id: &str) {
        let outcome = self.carry_out("ada", fleet::create(id)).await;
        assert!(matches!(outcome, Outcome::Created { created: true, .. }), "{id}: {outcome:?}");
    }

    /// Checks that the item exists: it cannot be created again.
    pub async fn has(&self, id: &str) -> bool {
        match self.carry_out("ada", fleet::create(id)).await {
            Outcome::Created { created, .. } => !created,
            // With other content than ours.
            Outcome::Refused(Refusal::AlreadyExists) => true,
            other => panic!("{id}: {other:?}"),
        }
    }

    pub async fn claim(&self, actor: &str, id: &str, lease_for: Span) -> Token {
        let outcome = self.carry_out(actor, fleet::claim(id, lease_for)).await;
        outcome.grant().unwrap_or_else(|| panic!("{id}: {outcome:?}")).token
    }
}

#[derive(Debug)]
pub enum Submitted {
    Answered(Outcome),
    /// It has not happened; maybe this node leads.
    NotTaken(Option<NodeId>),
    /// It has not happened, because disk space is low.
    LowOnDisk,
    Unknown,
}

/// A node id that is not a member of any cluster here.
pub const STRANGER: NodeIdentity =
    NodeIdentity { group: Group(0), cluster: None, node: 1_000, instance: 1, rules_version: RULES_VERSION };

pub fn request(actor: &str, command: Command) -> Request {
    let number = REQUESTS.fetch_add(1, Ordering::Relaxed);
    fleet::request(actor, &format!("request-{number}"), command)
}
