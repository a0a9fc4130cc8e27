//! A snapshot arrives unchanged despite faults during the transfer.

use super::store::content;
use super::world::{Fault, Node, Way, identity, member};
use node::peers::Peers;
use node::peers::network::{Factory, Network};
use openraft::Snapshot;
use openraft::errors::{ReplicationClosed, StreamingError};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::SnapshotResponse;
use raft_store::codec::records::{LogIdRecord, MembershipRecord, SnapshotMetaRecord, StoredMembershipRecord};
use raft_store::snapshot::{Incoming, SnapshotDir};
use raft_store::types::{LeaderId, Member, OnTokio, Vote};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::future::{Future, pending, ready};
use tempfile::TempDir;
use test_support::{LIMIT, until, within};

const MIB: usize = 1024 * 1024;

/// A snapshot of a few files, at the leader.
struct Taken {
    meta: SnapshotMetaRecord,
    snapshot: SnapshotDir,
    _root: TempDir,
}

impl Taken {
    fn new() -> Self {
        let bytes =
            |seed: usize, length: usize| (0..length).map(move |at| (at * 31 + at / 251 + seed).to_le_bytes()[0]);
        let files: Vec<(&str, Vec<u8>)> = vec![
            ("000004.sst", bytes(1, 3 * MIB + 17).collect()),
            ("000007.sst", bytes(2, 24 * MIB).collect()),
            ("CURRENT", bytes(3, 16).collect()),
            ("EMPTY", Vec::new()),
            ("MANIFEST-000005", bytes(4, 900).collect()),
        ];
        let last = LogIdRecord { term: 1, node: 1, index: 100 };
        let member = |id: u64| (id, Member { peer_address: format!("node-{id}:1"), ..Member::default() });
        let membership =
            MembershipRecord { voters: vec![BTreeSet::from([1, 2])], members: BTreeMap::from([member(1), member(2)]) };
        let meta = SnapshotMetaRecord {
            last: Some(last),
            membership: StoredMembershipRecord { log_id: Some(LogIdRecord { term: 1, node: 1, index: 0 }), membership },
        };
        let root = TempDir::new().unwrap();
        let sizes: Vec<_> = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.len() as u64)).collect();
        let mut incoming = Incoming::begin(root.path(), &meta, &sizes).unwrap();
        for (file, (_, bytes)) in files.iter().enumerate() {
            if !bytes.is_empty() {
                incoming.write(file, 0, bytes).unwrap();
            }
            assert!(incoming.seal(file, crc32c::crc32c(bytes)).unwrap());
        }
        Self { meta, snapshot: incoming.finish().unwrap(), _root: root }
    }

    fn bytes(&self) -> usize {
        content(&self.snapshot).values().map(Vec::len).sum()
    }

    async fn send(
        &self,
        network: &mut Network<OnTokio>,
        term: u64,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
    ) -> Result<SnapshotResponse<OnTokio>, StreamingError<OnTokio>> {
        let snapshot = Snapshot { meta: self.meta.clone().try_into().unwrap(), snapshot: self.snapshot.clone() };
        let sending = network.full_snapshot(vote(term), snapshot, cancel, RPCOption::new(LIMIT));
        within("the end of a transfer", sending).await
    }

    async fn arrives(&self, node: &Node, network: &mut Network<OnTokio>) {
        let response = self.send(network, 1, pending()).await.unwrap();
        assert_eq!(response.vote, vote(1));
        assert_eq!(node.state.installed(), [content(&self.snapshot)]);
    }
}

fn vote(term: u64) -> Vote {
    Vote { leader_id: LeaderId { term, node_id: 1 }, committed: true }
}

async fn client(member: &Member) -> Network<OnTokio> {
    Factory::new(Peers::new(identity(1), None)).new_snapshot_client(2, member).await
}

#[tokio::test]
async fn a_snapshot_arrives_as_it_was_sent() {
    let (taken, node) = (Taken::new(), Node::quiet(2, None).await);
    taken.arrives(&node, &mut client(&node.member()).await).await;
}

#[tokio::test]
async fn an_interrupted_transfer_resumes_where_it_stopped() {
    let (taken, node) = (Taken::new(), Node::quiet(2, None).await);
    let way = Way::to(node.server.address()).await;
    let mut network = client(&member(2, way.address)).await;
    let cut = 20 * MIB;
    way.set(Fault::CutBehind(cut));
    let lost = taken.send(&mut network, 1, pending()).await;
    assert!(matches!(lost, Err(StreamingError::Network(_))), "{lost:?}");
    assert_eq!(node.state.installed(), []);

    way.set(Fault::None);
    taken.arrives(&node, &mut network).await;
    // What had not been acknowledged when the connection was lost may be sent again: at most eight chunks.
    let rest = taken.bytes() - cut;
    assert!(way.passed() < rest + 9 * MIB, "{} bytes for a rest of {rest}", way.passed());
}

#[tokio::test]
async fn a_file_damaged_between_two_attempts_is_sent_again() {
    let (taken, node) = (Taken::new(), Node::quiet(2, None).await);
    let way = Way::to(node.server.address()).await;
    let mut network = client(&member(2, way.address)).await;
    way.set(Fault::CutBehind(20 * MIB));
    assert!(taken.send(&mut network, 1, pending()).await.is_err());

    // The first file is complete, the second is not.
    for name in ["000004.sst", "000007.sst"] {
        let folder = fs::read_dir(node.received()).unwrap().next().unwrap().unwrap().path();
        let mut bytes = fs::read(folder.join(name)).unwrap();
        assert!(bytes.len() > MIB, "{name} has {} bytes", bytes.len());
        bytes[MIB / 2] ^= 1;
        fs::write(folder.join(name), bytes).unwrap();
    }
    way.set(Fault::None);
    taken.arrives(&node, &mut network).await;
}

#[tokio::test]
async fn a_new_transfer_replaces_one_that_hangs() {
    let (taken, node) = (Taken::new(), Node::quiet(2, None).await);
    let way = Way::to(node.server.address()).await;
    way.set(Fault::SilentBehind(5 * MIB));
    let mut hanging = client(&member(2, way.address)).await;
    let mut fresh = client(&node.member()).await;
    let hangs = taken.send(&mut hanging, 1, pending());
    let arrives = async {
        until("much has arrived", async || way.passed() == 5 * MIB).await;
        taken.arrives(&node, &mut fresh).await;
    };
    let (lost, ()) = tokio::join!(hangs, arrives);
    assert!(lost.is_err(), "{lost:?}");
}

#[tokio::test]
async fn an_old_leader_gets_the_higher_vote_before_it_sends_a_file() {
    let (taken, node) = (Taken::new(), Node::quiet(2, None).await);
    let way = Way::to(node.server.address()).await;
    let mut network = client(&member(2, way.address)).await;
    taken.send(&mut network, 5, pending()).await.unwrap();
    assert_eq!(node.state.installed().len(), 1);
    way.set(Fault::None);
    let response = taken.send(&mut network, 3, pending()).await.unwrap();
    assert_eq!(response.vote, vote(5));
    assert!(way.passed() < MIB);
    assert_eq!(node.state.installed().len(), 1);
}

#[tokio::test]
async fn a_cancelled_transfer_ends_at_once() {
    let (taken, node) = (Taken::new(), Node::quiet(2, None).await);
    let way = Way::to(node.server.address()).await;
    way.set(Fault::SilentBehind(3 * MIB));
    let mut network = client(&member(2, way.address)).await;
    let closed = taken.send(&mut network, 1, ready(ReplicationClosed::new("enough"))).await;
    assert!(matches!(closed, Err(StreamingError::Closed(_))), "{closed:?}");

    let (cancel, cancelled) = tokio::sync::oneshot::channel::<()>();
    let sending = taken.send(&mut network, 1, async {
        let _ = cancelled.await;
        ReplicationClosed::new("enough")
    });
    let cancelling = async {
        until("much has arrived", async || way.passed() == 3 * MIB).await;
        cancel.send(()).unwrap();
    };
    let (closed, ()) = tokio::join!(sending, cancelling);
    assert!(matches!(closed, Err(StreamingError::Closed(_))), "{closed:?}");
    assert_eq!(node.state.installed(), []);
}

#[tokio::test]
async fn a_node_can_stop_during_a_snapshot_transfer() {
    let (taken, node) = (Taken::new(), Node::quiet(2, None).await);
    let way = Way::to(node.server.address()).await;
    way.set(Fault::SilentBehind(3 * MIB));
    let mut network = client(&member(2, way.address)).await;
    let stopping = async {
        until("much has arrived", async || way.passed() == 3 * MIB).await;
        within("the end of all connections", node.server.shutdown()).await;
    };
    let (lost, ()) = tokio::join!(taken.send(&mut network, 1, pending()), stopping);
    assert!(lost.is_err(), "{lost:?}");
}
