//! Whom this node hears: the members of its cluster, by what it knows of them.
//!
//! Its own log says who they are. A node that was away, or has just joined, may not know one that leads by now: it asks
//! those that it knows, over connections that it makes itself, and keeps their answer until its own log is as new. A
//! member by its own log is never refused for what others say. Decision 0023.

use crate::peers::Refusal;
use crate::peers::server::Peer;
use crate::peers::wire::{NodeQuestion, NodeReply};
use crate::service::TokioNode;
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

/// Between two rounds of questions, however many unknown nodes knock.
const ASK_EVERY: Duration = Duration::from_secs(1);
const ASK_WITHIN: Duration = Duration::from_secs(2);

/// Clones are the same one.
#[derive(Clone)]
pub struct Roster(Arc<Inner>);

struct Inner {
    node: TokioNode,
    /// Where the operator said that members are.
    seeds: Vec<String>,
    learned: Mutex<Learned>,
    /// Somebody unknown knocked.
    knocked: Notify,
}

/// What other members said, newer than what this node has.
#[derive(Debug, Default)]
struct Learned {
    /// None: as of this node's joining.
    at: Option<LogIdRecord>,
    members: BTreeMap<NodeId, Member>,
}

impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roster of {:?}", self.0.node)
    }
}

/// Why a peer is not known as a member: for this node's log only.
#[derive(Debug, PartialEq, Eq)]
enum Unknown {
    NoMember,
    OtherDirectory { found: u64, known: u64 },
    OtherHost { addresses: Vec<String> },
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMember => f.write_str("it is no member as far as this node knows"),
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
    /// `joined`: who the members were when this node joined, if it just did.
    #[must_use]
    pub fn new(node: TokioNode, seeds: Vec<String>, joined: Option<MembershipRecord>) -> Self {
        let learned = Learned { at: None, members: joined.map(|joined| joined.members).unwrap_or_default() };
        Self(Arc::new(Inner { node, seeds, learned: Mutex::new(learned), knocked: Notify::new() }))
    }

    /// Whether a peer is a member. One that this node does not know is refused, and asked for: a member tries again.
    ///
    /// # Errors
    /// When it is not, as far as this node knows.
    pub(crate) fn check(&self, peer: &Peer) -> Result<(), Refusal> {
        let Err(why) = self.find(peer) else { return Ok(()) };
        let node = peer.node();
        // Its removal is applied here: nobody has newer word of it.
        if !self.0.node.store().was_removed(node).unwrap_or(false) {
            self.0.knocked.notify_one();
        }
        Err(Refusal {
            told: format!("node {node} with this directory and this certificate is not known here as a member"),
            detail: Some(why.to_string()),
        })
    }

    /// Returns when a peer that is a member is one no more.
    pub(crate) async fn left(&self, peer: &Peer) {
        let mut members = self.0.node.raft().server_metrics();
        loop {
            if self.find(peer).is_err() {
                return;
            }
            if members.changed().await.is_err() {
                // Raft has stopped, and the server will.
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

    /// What this node has heard of a member: in its log, in what is committed of it, and from others if that is newer.
    ///
    /// What is committed counts as well: a later change may yet be taken back, and whom it removes could lead then.
    fn known(&self, id: NodeId) -> Vec<Member> {
        let (own, committed) = self.own_log();
        let learned = self.learned();
        let is_newer = match learned.at {
            // Until its log has come to where it joined.
            None => own.get_node(&self.0.node.id()).is_none(),
            at => at > own.log_id().map(Into::into),
        };
        let learned = learned.members.get(&id).filter(|_| is_newer);
        let mut known: Vec<_> =
            [own.get_node(&id), committed.get_node(&id), learned].into_iter().flatten().cloned().collect();
        known.dedup();
        known
    }

    /// The last members in its log, and the last that it knows to be committed.
    fn own_log(&self) -> (Arc<StoredMembership>, Arc<StoredMembership>) {
        let members = self.0.node.raft().server_metrics();
        let members = members.borrow_watched();
        (members.membership_config.clone(), members.committed_membership_config.clone())
    }

    /// Whether what a peer showed is for the host of some member, as far as this node knows.
    pub(crate) fn is_for_a_member(&self, peer: &Peer) -> bool {
        self.known_others().values().chain(self.own().as_ref()).any(|member| peer.shown.is_for(&member.peer_address))
    }

    fn own(&self) -> Option<Member> {
        self.known(self.0.node.id()).pop()
    }

    fn learned(&self) -> MutexGuard<'_, Learned> {
        self.0.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who the members are as far as this node's log says.
    pub(crate) fn members(&self) -> StoredMembershipRecord {
        (&*self.own_log().0).into()
    }

    /// What the cluster answered when this node asked to join, over a connection that this node made.
    pub(crate) fn joined(&self, members: MembershipRecord) {
        let mut learned = self.learned();
        if learned.at.is_none() {
            learned.members = members.members;
        }
    }

    /// Asks the members that are known whenever one that is not has knocked. One round at a time, and not too often.
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

    /// The newest answer of the last round that had any: also one before it may have been taken back.
    fn learn(&self, members: StoredMembershipRecord, is_first: bool) -> bool {
        let (at, own) = (members.log_id, self.own_log().0.log_id().map(Into::into));
        let mut learned = self.learned();
        let is_newer = at > own && (is_first || at > learned.at);
        if is_newer {
            let ids: Vec<_> = members.membership.members.keys().collect();
            tracing::debug!(?at, ?ids, "members that this node's log does not tell of yet");
            *learned = Learned { at, members: members.membership.members };
        }
        is_newer
    }
}

fn fits(peer: &Peer, member: Option<&Member>) -> bool {
    member.is_some_and(|member| member.instance == peer.hello.instance && peer.shown.is_for(&member.peer_address))
}
