//! Which peers are admitted, and how others are rejected.

use super::world::{CLUSTER, Node, identity, instance, member};
use expect_test::{Expect, expect};
use node::peers::Peers;
use node::peers::frame::{FrameReader, FrameWriter};
use node::peers::tls::PeerTls;
use node::peers::wire::{CallFrame, Greeting, Hello, NodeQuestion, NodeReply, PROTOCOL, Purpose, Question};
use node::peers::{NodeIdentity, PeerError};
use raft_store::codec::records::Blob;
use raft_store::codec::{HEADER_BYTES, encode};
use raft_store::types::{Group, Member, NodeId};
use std::sync::Arc;
use test_support::authority::{Authority, Files};
use test_support::{LIMIT, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::version::{TLS12, TLS13};

/// Asks node 2 under this identity, and compares the answer.
async fn check(node: &Node, who: NodeIdentity, target: NodeId, member: &Member, expected: Expect) {
    let reply = Peers::new(who, None).ask(target, member, NodeQuestion::Status, LIMIT).await;
    let shown = match reply {
        Ok(reply) => format!("{reply:?}"),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&shown);
    node.serves(None).await;
}

#[tokio::test]
async fn only_members_of_the_same_cluster_talk_to_each_other() {
    let node = Node::quiet(2, None).await;
    let there = node.member();
    check(&node, identity(1), 2, &there, expect![[r#"Unknown { why: "hello, node 1" }"#]]).await;

    let other_cluster = NodeIdentity { cluster: Some(0xBAD), ..identity(1) };
    check(&node, other_cluster, 2, &there, expect!["refused: this node belongs to another cluster"]).await;

    let other_group = NodeIdentity { group: Group(7), ..identity(1) };
    check(&node, other_group, 2, &there, expect!["refused: group 7, this is group 0"]).await;

    let other_directory = NodeIdentity { instance: 5, ..identity(1) };
    check(&node, other_directory, 2, &there, expect!["refused: node 1 has another instance"]).await;

    let twin = NodeIdentity { instance: 5, ..identity(2) };
    check(&node, twin, 2, &there, expect!["refused: node 2 has another instance"]).await;
}

#[tokio::test]
async fn a_connection_to_an_unexpected_node_is_refused() {
    let node = Node::quiet(2, None).await;
    let three = member(3, node.server.address());
    check(&node, identity(1), 3, &three, expect!["refused: node 3 is expected, this is node 2"]).await;

    let wiped = Member { instance: instance(2) + 1, ..node.member() };
    check(
        &node,
        identity(1),
        2,
        &wiped,
        expect!["refused: node 2 is instance 00000000000003ea, not 00000000000003eb: another directory"],
    )
    .await;

    let unknown_instance = Member { instance: 0, ..node.member() };
    check(&node, identity(1), 2, &unknown_instance, expect![[r#"Unknown { why: "hello, node 1" }"#]]).await;

    let liar = Node::quiet(4, None).await;
    *liar.service.claims.lock().unwrap() = 0xBAD;
    let reply = Peers::new(identity(1), None).ask(4, &liar.member(), NodeQuestion::Status, LIMIT).await;
    assert!(matches!(reply, Err(PeerError::Refused { why }) if why.contains("belongs to cluster")));
}

#[tokio::test]
async fn a_node_without_a_cluster_may_ask_to_join_and_nothing_else() {
    let node = Node::quiet(2, None).await;
    let newcomer = Peers::new(NodeIdentity { cluster: None, ..identity(9) }, None);
    let address = node.server.address().to_string();
    let join = NodeQuestion::Join { node: 9, member: member(9, node.server.address()), is_new: true };
    let joined = newcomer.ask_address(&address, join, LIMIT).await;
    assert!(matches!(joined, Ok(NodeReply::Joined { cluster: CLUSTER, .. })), "{joined:?}");

    let forward = NodeQuestion::Forward { requests: Blob(Arc::from(&b"x"[..])) };
    let why = "a node that has not joined may only ask to join".to_owned();
    assert_eq!(newcomer.ask_address(&address, forward, LIMIT).await, Err(PeerError::Refused { why }));

    let hello = Hello { cluster: None, ..hello(Purpose::Raft) };
    assert!(matches!(greeting(&node, &hello).await, Some(Greeting::Refused { .. })));
}

fn hello(purpose: Purpose) -> Hello {
    Hello {
        protocol: PROTOCOL,
        group: Group(0),
        cluster: Some(CLUSTER),
        node: 1,
        instance: instance(1),
        rules_version: 1,
        expects: Some(2),
        purpose,
    }
}

async fn greeting(node: &Node, hello: &Hello) -> Option<Greeting> {
    let stream = TcpStream::connect(node.server.address()).await.unwrap();
    let (read, write) = stream.into_split();
    FrameWriter::new(write, 4096).send(hello).await.unwrap();
    within("a greeting", FrameReader::new(read, 4096).next()).await.unwrap()
}

#[tokio::test]
async fn another_protocol_version_is_refused_with_a_message() {
    let node = Node::quiet(2, None).await;
    let newer = Hello { protocol: PROTOCOL + 1, ..hello(Purpose::Calls) };
    let why = "protocol 2, this node speaks 1".to_owned();
    assert_eq!(greeting(&node, &newer).await, Some(Greeting::Refused { why }));
}

/// Sends these bytes, first or after a welcome, and waits until the connection is closed.
async fn closes_on(node: &Node, greeted: Option<Purpose>, bytes: &[u8]) {
    let mut stream = TcpStream::connect(node.server.address()).await.unwrap();
    if let Some(purpose) = greeted {
        let (read, write) = stream.split();
        FrameWriter::new(write, 4096).send(&hello(purpose)).await.unwrap();
        let greeting = within("a welcome", FrameReader::new(read, 4096).next()).await.unwrap();
        assert!(matches!(greeting, Some(Greeting::Welcome(_))), "{greeting:?}");
    }
    stream.write_all(bytes).await.unwrap();
    let mut rest = Vec::new();
    // Both kinds of end are fine: unread bytes at the close cause a reset.
    let _ = within("the connection's end", stream.read_to_end(&mut rest)).await;
    assert_eq!(rest, b"", "nobody answers rubbish");
    node.serves(None).await;
}

#[tokio::test]
async fn an_invalid_frame_closes_only_its_connection() {
    let node = Node::quiet(2, None).await;
    closes_on(&node, None, b"GET / HTTP/1.1\r\nhost: somewhere\r\n\r\n").await;
    for purpose in Purpose::ALL {
        closes_on(&node, Some(purpose), b"GET / HTTP/1.1\r\nhost: somewhere\r\n\r\n").await;
        // A valid frame in the wrong place.
        closes_on(&node, Some(purpose), &encode(&hello(purpose)).unwrap()).await;
    }
    let mut damaged = encode(&CallFrame { sequence: 1, question: Question::Node(NodeQuestion::Status) }).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    closes_on(&node, Some(Purpose::Calls), &damaged).await;
}

#[tokio::test]
async fn a_too_large_frame_length_closes_its_connection() {
    let node = Node::quiet(2, None).await;
    for (purpose, question) in [(None, 0), (Some(Purpose::Calls), 4), (Some(Purpose::Heartbeat), 2)] {
        let max = purpose.map_or(4096, Purpose::frame_bytes_max);
        let mut header = encode(&hello(Purpose::Calls)).unwrap()[..HEADER_BYTES].to_vec();
        header[4] = 100 + question;
        header[6..10].copy_from_slice(&u32::try_from(max + 1).unwrap().to_le_bytes());
        closes_on(&node, purpose, &header).await;
    }
}

#[tokio::test]
async fn peers_with_certificates_of_one_authority_talk_to_each_other() {
    let authority = Authority::new();
    let node = Node::quiet(2, Some(authority.tls("127.0.0.1"))).await;
    node.serves(Some(authority.tls("127.0.0.1"))).await;
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_rejected_on_both_sides() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let node = Node::quiet(2, Some(ours.tls("127.0.0.1"))).await;

    // The peer does not trust the node.
    refuses(&node, Some(theirs.tls("127.0.0.1")), "invalid peer certificate").await;
    // The peer trusts the node, but the node does not trust the peer.
    refuses(&node, Some(theirs.tls_that_trusts(&ours, "127.0.0.1")), "alert").await;
    // The peer does not use TLS.
    refuses(&node, None, "").await;
    node.serves(Some(ours.tls("127.0.0.1"))).await;
    assert_eq!(node.connections(), 1, "nobody else has come as far as a hello");
}

async fn refuses(node: &Node, tls: Option<PeerTls>, why: &str) {
    match Peers::new(identity(1), tls).ask(2, &node.member(), NodeQuestion::Status, LIMIT).await {
        Err(PeerError::Unreachable { why: found }) => assert!(found.contains(why), "{found}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_peer_without_a_certificate_is_rejected() {
    let authority = Authority::new();
    let node = Node::quiet(2, Some(authority.tls("127.0.0.1"))).await;
    let config = authority.client_config(&[&TLS13, &TLS12]);
    let stream = TcpStream::connect(node.server.address()).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let (read, write) = tokio::io::split(stream);
    // In TLS 1.3 one side finishes the handshake before the other has checked it.
    let _ = FrameWriter::new(write, 4096).send(&hello(Purpose::Calls)).await;
    let greeting = within("the connection's end", FrameReader::new(read, 4096).next::<Greeting>()).await;
    assert!(greeting.is_err(), "{greeting:?}");
    assert_eq!(node.connections(), 0);
    node.serves(Some(authority.tls("127.0.0.1"))).await;
}

#[tokio::test]
async fn a_certificate_for_another_host_is_rejected() {
    let authority = Authority::new();
    let node = Node::quiet(2, Some(authority.tls("node-2.example"))).await;
    refuses(&node, Some(authority.tls("127.0.0.1")), "not valid for name").await;
}

#[tokio::test]
async fn certificates_are_replaced_without_a_restart() {
    let (old, new) = (Authority::new(), Authority::new());
    let node_files = old.files("127.0.0.1");
    let server_tls = node_files.tls();
    let node = Node::quiet(2, Some(server_tls.clone())).await;
    let client_files = old.files("127.0.0.1");
    let client_tls = client_files.tls();
    let standing = Peers::new(identity(1), Some(client_tls.clone()));
    let there = node.member();
    let ask = || standing.ask(2, &there, NodeQuestion::Status, LIMIT);
    assert!(ask().await.is_ok());
    assert_eq!(server_tls.reload(), Ok(false), "nothing has changed");

    node_files.replace_key();
    assert!(server_tls.reload().is_err(), "a key that is not the certificate's");
    node.serves(Some(client_tls.clone())).await;

    node_files.replace_by(&new, "127.0.0.1");
    assert_eq!(server_tls.reload(), Ok(true));
    assert!(ask().await.is_ok(), "a connection that stands goes on");
    refuses(&node, Some(client_tls.clone()), "invalid peer certificate").await;

    client_files.replace_by(&new, "127.0.0.1");
    assert_eq!(client_tls.reload(), Ok(true));
    node.serves(Some(client_tls)).await;
}

#[tokio::test]
async fn a_revoked_certificate_is_rejected_on_both_sides() {
    let authority = Authority::new();
    let (good, bad) = (authority.files("127.0.0.1"), authority.files("127.0.0.1"));
    let revoked = bad.tls();
    let good = good.with_list(&authority, &[&bad], 2_090);
    let list = good.revoked().unwrap();
    let careful = good.tls();
    let node = Node::quiet(2, Some(careful.clone())).await;
    node.serves(Some(careful.clone())).await;
    refuses(&node, Some(revoked.clone()), "alert").await;
    let revoked_node = Node::quiet(3, Some(revoked.clone())).await;
    match Peers::new(identity(1), Some(careful.clone()))
        .ask(3, &revoked_node.member(), NodeQuestion::Status, LIMIT)
        .await
    {
        Err(PeerError::Unreachable { why }) => assert!(why.contains("Revoked"), "{why}"),
        other => panic!("{other:?}"),
    }

    // A replaced list is used without a restart; an invalid one changes nothing.
    std::fs::write(&list, "rubbish").unwrap();
    let wrong = careful.reload().unwrap_err().to_string();
    assert!(wrong.contains("contains no revocation list"), "{wrong}");
    refuses(&node, Some(revoked.clone()), "alert").await;
    authority.revoke(&[], 2_090, &list);
    assert_eq!(careful.reload(), Ok(true));
    node.serves(Some(revoked.clone())).await;
    authority.revoke(&[&bad], 2_090, &list);
    assert_eq!(careful.reload(), Ok(true));
    refuses(&node, Some(revoked), "alert").await;
    node.serves(Some(careful)).await;
}

#[test]
fn an_invalid_revocation_list_is_rejected_when_read() {
    let (authority, other) = (Authority::new(), Authority::new());
    let refusal = |files: Files| PeerTls::from_files(files.paths()).unwrap_err().to_string();
    let own = || authority.files("127.0.0.1");
    let expired = refusal(own().with_list(&authority, &[], 2_021));
    assert!(expired.contains("revoked.pem: contains an expired list"), "{expired}");
    let of_another = refusal(own().with_list(&other, &[], 2_090));
    assert!(of_another.contains("contains no list of the authority"), "{of_another}");
    let missing = own().with_list(&authority, &[], 2_090);
    std::fs::remove_file(missing.revoked().unwrap()).unwrap();
    assert!(refusal(missing).contains("revoked.pem"));
}

/// A removed member loses its open connections.
#[tokio::test]
async fn connections_of_a_removed_member_are_closed() {
    let node = Node::quiet(2, None).await;
    for purpose in Purpose::ALL {
        let mut stream = TcpStream::connect(node.server.address()).await.unwrap();
        let (read, write) = stream.split();
        FrameWriter::new(write, 4096).send(&hello(purpose)).await.unwrap();
        let greeting = within("a welcome", FrameReader::new(read, 4096).next()).await.unwrap();
        assert!(matches!(greeting, Some(Greeting::Welcome(_))), "{greeting:?}");
        node.service.gone.send_modify(|gone| {
            gone.insert(1);
        });
        let mut rest = Vec::new();
        within("the connection's end", stream.read_to_end(&mut rest)).await.unwrap();
        node.service.gone.send_replace(Default::default());
    }
    node.serves(None).await;
}
