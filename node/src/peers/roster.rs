//! Which peers this node accepts: the members of its cluster, as far as it knows them.
//!
//! The node's own log lists the members. A node that was away or has just joined may not know the current leader: it
//! asks the members that it knows, over connections that it opens itself, and keeps their answer until its own log is
//! as new. A member by its own log is never refused because of other nodes' answers. Decision 0023.

use crate::peers::Refusal;
use crate::peers::service::Peer;
use crate::peers::tokio_node::TokioNode;
use crate::peers::wire::{NodeQuestion, NodeReply};
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::codec::records::{LogIdRecord, MembershipRecord, StoredMembershipRecord};
use raft_store::types::{Member, NodeId, StoredMembership};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;

/// Pause between two rounds of questions, however many unknown nodes connect.
const ASK_EVERY: Duration = Duration::from_secs(1);
const ASK_WITHIN: Duration = Duration::from_secs(2);

/// The known members. Clones share them.
#[derive(Clone)]
pub struct Roster(Arc<Inner>);

struct Inner {
    node: TokioNode,
    /// Addresses of members, from the operator.
    seeds: Vec<String>,
    learned: Mutex<Learned>,
    /// Notified when an unknown node connects.
    knocked: Notify,
}

/// The members that other nodes reported, newer than this node's log.
#[derive(Debug, Default)]
struct Learned {
    /// None: the members at the time this node joined.
    at: Option<LogIdRecord>,
    members: BTreeMap<NodeId, Member>,
}

impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roster of {:?}", self.0.node)
    }
}

/// Why a peer is not known as a member. Only for this node's log output.
#[derive(Debug, PartialEq, Eq)]
enum Unknown {
    NoMember,
    OtherDirectory { found: u64, known: u64 },
    OtherHost { addresses: Vec<String> },
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMember => f.write_str("it is not a member as far as this node knows"),
            Self::OtherDirectory { found, known } => {
                write!(f, "it is a member with another directory: instance {known:016x}, not {found:016x}")
            }
            Self::OtherHost { addresses } => {
                write!(f, "its certificate is not for the host of its address: {}", addresses.join(", "))
            }
        }
    }
}

impl Roster {
    /// `joined`: the members when this node joined, if it just did.
    #[must_use]
    pub fn new(node: TokioNode, seeds: Vec<String>, joined: Option<MembershipRecord>) -> Self {
        let learned = Learned { at: None, members: joined.map(|joined| joined.members).unwrap_or_default() };
        Self(Arc::new(Inner { node, seeds, learned: Mutex::new(learned), knocked: Notify::new() }))
    }

    /// Whether a peer is a member. An unknown peer is refused, and this node asks the others about it: a member
    /// retries.
    ///
    /// # Errors
    /// When the peer is not a member as far as this node knows.
    pub(crate) fn check(&self, peer: &Peer) -> Result<(), Refusal> {
        let Err(why) = self.find(peer) else { return Ok(()) };
        let node = peer.node();
        // If its removal is applied here, no other node knows anything newer about it.
        if !self.0.node.store().was_removed(node).unwrap_or(false) {
            self.0.knocked.notify_one();
        }
        Err(Refusal {
            told: format!("node {node} with this directory and this certificate is not known here as a member"),
            detail: Some(why.to_string()),
        })
    }

    /// Returns when a peer is no longer a member.
    pub(crate) async fn left(&self, peer: &Peer) {
        let mut members = self.0.node.raft().server_metrics();
        loop {
            if self.find(peer).is_err() {
                return;
            }
            if members.changed().await.is_err() {
                // Raft has stopped, and the server stops next.
                return std::future::pending().await;
            }
        }
    }

    fn find(&self, peer: &Peer) -> Result<(), Unknown> {
        let known = self.known(peer.node());
        if known.iter().any(|member| fits(peer, Some(member))) {
            return Ok(());
        }
        let found = peer.hello.instance;
        match known.iter().find(|member| member.instance != found) {
            _ if known.is_empty() => Err(Unknown::NoMember),
            Some(other) => Err(Unknown::OtherDirectory { found, known: other.instance }),
            None => {
                Err(Unknown::OtherHost { addresses: known.into_iter().map(|member| member.peer_address).collect() })
            }
        }
    }

    /// What this node knows of a member: from its log, from the committed part of its log, and from others if that is
    /// newer.
    ///
    /// The committed part counts as well: a later change may still be reverted, and a member that it removes could then
    /// lead.
    fn known(&self, id: NodeId) -> Vec<Member> {
        let (own, committed) = self.own_log();
        let learned = self.learned();
        let is_newer = match learned.at {
            // Newer until the log reaches the entry with which this node joined.
            None => own.get_node(&self.0.node.id()).is_none(),
            at => at > own.log_id().map(Into::into),
        };
        let learned = learned.members.get(&id).filter(|_| is_newer);
        let mut known: Vec<_> =
            [own.get_node(&id), committed.get_node(&id), learned].into_iter().flatten().cloned().collect();
        known.dedup();
        known
    }

    /// The last membership in this node's log, and the last one known to be committed.
    fn own_log(&self) -> (Arc<StoredMembership>, Arc<StoredMembership>) {
        let members = self.0.node.raft().server_metrics();
        let members = members.borrow_watched();
        (members.membership_config.clone(), members.committed_membership_config.clone())
    }

    /// Whether a peer's certificate is for the host of some known member.
    pub(crate) fn is_for_a_member(&self, peer: &Peer) -> bool {
        self.known_others().values().chain(self.own().as_ref()).any(|member| peer.shown.is_for(&member.peer_address))
    }

    fn own(&self) -> Option<Member> {
        self.known(self.0.node.id()).pop()
    }

    fn learned(&self) -> MutexGuard<'_, Learned> {
        self.0.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The members according to this node's log.
    pub(crate) fn members(&self) -> StoredMembershipRecord {
        (&*self.own_log().0).into()
    }

    /// Stores the members from the answer to this node's join request, over a connection that this node opened.
    pub(crate) fn joined(&self, members: MembershipRecord) {
        let mut learned = self.learned();
        if learned.at.is_none() {
            learned.members = members.members;
        }
    }

    /// Asks the known members whenever an unknown node has connected. One round at a time, with a pause.
    pub(crate) async fn keep_up(self) {
        loop {
            self.0.knocked.notified().await;
            self.ask_members().await;
            sleep(ASK_EVERY).await;
        }
    }

    fn known_others(&self) -> BTreeMap<NodeId, Member> {
        let mut known = self.learned().members.clone();
        known.extend(self.members().membership.members);
        known.remove(&self.0.node.id());
        known
    }

    async fn ask_members(&self) {
        let known = self.known_others();
        let peers = self.0.node.calls();
        let of_members = known.iter().map(|(id, member)| -> BoxFuture<'_, _> {
            peers.ask(*id, member, NodeQuestion::Members, ASK_WITHIN).boxed()
        });
        let elsewhere = |seed: &&String| !known.values().any(|member| member.peer_address == **seed);
        let of_seeds = self
            .0
            .seeds
            .iter()
            .filter(elsewhere)
            .map(|seed| -> BoxFuture<'_, _> { peers.ask_address(seed, NodeQuestion::Members, ASK_WITHIN).boxed() });
        let mut answers: FuturesUnordered<_> = of_members.chain(of_seeds).collect();
        let mut is_first = true;
        while let Some(answer) = answers.next().await {
            if let Ok(NodeReply::Members(members)) = answer {
                is_first &= !self.learn(members, is_first);
            }
        }
    }

    /// Keeps the newest answer of the last round with answers. An answer of an earlier round may be from a reverted
    /// change, so the first answer of a round replaces it.
    fn learn(&self, members: StoredMembershipRecord, is_first: bool) -> bool {
        let (at, own) = (members.log_id, self.own_log().0.log_id().map(Into::into));
        let mut learned = self.learned();
        let is_newer = at > own && (is_first || at > learned.at);
        if is_newer {
            let ids: Vec<_> = members.membership.members.keys().collect();
            tracing::debug!(?at, ?ids, "learned of members that are not in this node's log yet");
            *learned = Learned { at, members: members.membership.members };
        }
        is_newer
    }
}

fn fits(peer: &Peer, member: Option<&Member>) -> bool {
    member.is_some_and(|member| member.instance == peer.hello.instance && peer.shown.is_for(&member.peer_address))
}
