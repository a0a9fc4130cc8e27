//! Questions: each reply reaches its asker, and a failure tells whether the question may have been processed.

use super::world::{Fault, Node, Way, identity, member};
use node::peers::PeerError;
use node::peers::Peers;
use node::peers::wire::{NodeQuestion, NodeReply, Purpose};
use raft_store::codec::records::Blob;
use std::sync::Arc;
use std::time::Duration;
use test_support::{LIMIT, within};
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

fn forward(bytes: Vec<u8>) -> NodeQuestion {
    NodeQuestion::Forward { requests: Blob(bytes.into()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_questions_share_a_connection_and_each_asker_gets_its_own_reply() {
    const ASKERS: u32 = 200;
    let node = Node::quiet(2, None).await;
    // None is answered before all have arrived: they are in flight together.
    *node.service.together.lock().unwrap() = Arc::new(Barrier::new(ASKERS as usize));
    let peers = Peers::new(identity(1), None);
    let mut askers = JoinSet::new();
    for number in 0..ASKERS {
        let (peers, there) = (peers.clone(), node.member());
        askers.spawn(async move {
            let mut bytes = number.to_le_bytes().to_vec();
            bytes.resize(4 + number as usize * 50, 7);
            let reply = peers.ask(2, &there, forward(bytes.clone()), LIMIT).await;
            bytes.reverse();
            assert_eq!(reply, Ok(NodeReply::Forwarded { outcomes: Blob(bytes.into()) }));
        });
    }
    while let Some(asker) = askers.join_next().await {
        asker.unwrap();
    }
    assert_eq!(node.connections(), 1);
}

#[tokio::test]
async fn a_question_to_an_unreachable_node_was_never_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = member(2, listener.local_addr().unwrap());
    drop(listener);
    let reply = Peers::new(identity(1), None).ask(2, &nowhere, NodeQuestion::Status, LIMIT).await;
    assert!(matches!(reply, Err(PeerError::Unreachable { .. })), "{reply:?}");
}

#[tokio::test]
async fn a_question_sent_on_a_lost_connection_may_have_happened() {
    let node = Node::quiet(2, None).await;
    let there = node.member();
    let peers = Peers::new(identity(1), None);
    let asking = tokio::spawn({
        let (peers, there) = (peers.clone(), there.clone());
        async move { peers.ask(2, &there, NodeQuestion::ReadIndex, LIMIT).await }
    });
    within("the question has come", node.service.stuck.notified()).await;
    within("the end of all connections", node.server.shutdown()).await;
    let lost = asking.await.unwrap();
    assert!(matches!(lost, Err(PeerError::Lost { .. })), "{lost:?}");
    assert!(lost.unwrap_err().may_have_happened());

    let after = peers.ask(2, &there, NodeQuestion::Status, LIMIT).await;
    assert!(matches!(after, Err(PeerError::Unreachable { .. })), "{after:?}");
}

#[tokio::test]
async fn a_lost_connection_is_made_again_for_the_next_question() {
    let node = Node::quiet(2, None).await;
    let way = Way::to(node.server.address()).await;
    let there = member(2, way.address);
    let peers = Peers::new(identity(1), None);
    way.set(Fault::CutBehind(2000));
    assert!(peers.ask(2, &there, forward(vec![1; 100]), LIMIT).await.is_ok());
    let lost = peers.ask(2, &there, forward(vec![1; 10_000]), LIMIT).await;
    assert!(matches!(lost, Err(PeerError::Lost { .. })), "{lost:?}");
    way.set(Fault::None);
    assert!(peers.ask(2, &there, forward(vec![1; 10_000]), LIMIT).await.is_ok());
    assert_eq!(node.connections(), 2);
}

#[tokio::test]
async fn a_timed_out_question_may_have_happened_and_delays_no_other() {
    let node = Node::quiet(2, None).await;
    let peers = Peers::new(identity(1), None);
    let limit = Duration::from_millis(300);
    let reply = peers.ask(2, &node.member(), NodeQuestion::ReadIndex, limit).await;
    assert_eq!(reply, Err(PeerError::TimedOut { limit }));
    assert!(peers.ask(2, &node.member(), NodeQuestion::Status, LIMIT).await.is_ok());
    assert_eq!(node.connections(), 1);
}

#[tokio::test]
async fn a_question_that_waits_too_long_for_a_connection_was_never_sent() {
    // It accepts connections but never sends a greeting.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = member(2, listener.local_addr().unwrap());
    let reply = Peers::new(identity(1), None).ask(2, &silent, NodeQuestion::Status, Duration::from_millis(50)).await;
    assert!(matches!(reply, Err(PeerError::Unreachable { .. })), "{reply:?}");
}

#[tokio::test]
async fn a_question_too_large_for_a_frame_is_not_sent_and_delays_no_other() {
    let node = Node::quiet(2, None).await;
    let peers = Peers::new(identity(1), None);
    let reply = peers.ask(2, &node.member(), forward(vec![0; Purpose::Calls.frame_bytes_max()]), LIMIT).await;
    assert!(matches!(reply, Err(PeerError::Refused { .. })), "{reply:?}");
    assert!(peers.ask(2, &node.member(), NodeQuestion::Status, LIMIT).await.is_ok());
    assert_eq!(node.connections(), 1);
}
