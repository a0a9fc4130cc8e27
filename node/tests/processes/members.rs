//! Only members can act as members: what a certificate of the authority alone allows, which nodes may join, and which
//! are accepted after the membership has changed.

use lease::Outcome;
use lease::numbers::Wall;
use node::peers::Peers;
use node::peers::admission::join_secret;
use node::peers::tls::PeerTls;
use node::peers::wire::{Change, JoinRequest, NodeQuestion, NodeReply};
use node::peers::{NodeIdentity, PeerError};
use raft_store::codec::records::Blob;
use raft_store::types::{Member, NodeId};
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use test_support::authority::Authority;
use test_support::fleet;
use test_support::peer_client::STRANGER;
use test_support::until;
use test_support::world::World;

const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// An id that never was a member's.
const ROGUE: NodeId = 77;

/// With TLS between the nodes, each with a certificate of its own.
fn certified() -> World {
    let mut world = World::empty();
    world.authority = Some(Authority::new());
    world
}

/// A TLS cluster in which each node's configuration admits these nodes.
fn admitting(nodes: &[NodeId]) -> World {
    let mut world = certified();
    let words = nodes.iter().map(|node| format!("{node}={}", world.address(*node)));
    world.options = vec!["--admit".into(), words.collect::<Vec<_>>().join(",")];
    world
}

/// A certificate for another host, from the cluster's authority.
fn rogue(world: &World) -> PeerTls {
    world.authority.as_ref().unwrap().tls("worker-7.example.org")
}

/// A client that acts as this node, with this certificate.
fn speaks_as(world: &World, node: NodeId, instance: u64, tls: PeerTls) -> Peers {
    let cluster = Some(world.identity(1).cluster);
    Peers::new(NodeIdentity { cluster, node, instance, ..STRANGER }, Some(tls))
}

async fn asks(world: &World, peers: &Peers, at: NodeId, question: NodeQuestion) -> Result<NodeReply, PeerError> {
    peers.ask_address(&world.address(at), question, ANSWER_WITHIN).await
}

/// The reason of a refusal, which reveals nothing about the cluster.
fn refused(world: &World, reply: Result<NodeReply, PeerError>) -> String {
    let why = match reply {
        Err(PeerError::Refused { why }) | Ok(NodeReply::Refused { why }) => why,
        other => panic!("{other:?}"),
    };
    assert!(!why.contains(&format!("{:032x}", world.identity(1).cluster)), "{why}");
    assert!((1..=3).all(|node| !why.contains(&world.host(node))), "{why}");
    why
}

fn forged(id: &str) -> NodeQuestion {
    let request = fleet::request("root", "forged", fleet::create(id));
    NodeQuestion::Forward { requests: Blob(lease::encoding::encode(&vec![request]).into()) }
}

fn join(world: &World, node: NodeId, secret: Option<String>) -> NodeQuestion {
    NodeQuestion::JoinBy(JoinRequest {
        node,
        member: Member { peer_address: world.address(node), ..Member::default() },
        is_new: true,
        wants_vote: true,
        rules_version: STRANGER.rules_version,
        cluster: None,
        secret,
        certificate: None,
        is_admitted: true,
    })
}

fn wall(later: i64) -> Wall {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    Wall(u64::try_from(now).unwrap().saturating_add_signed(later))
}

/// Makes a change as this member, through any node that accepts it.
async fn change(world: &World, by: NodeId, change: Change) {
    let others = world.running().into_iter().filter(|node| *node != by);
    let client = world.client_of(&[by].into_iter().chain(others).collect::<Vec<_>>());
    until("the change is made", async || {
        let mut is_made = false;
        for node in world.running() {
            let asked = client.ask(node, NodeQuestion::Change(change.clone())).await;
            is_made |= matches!(asked, Ok(NodeReply::Changed { .. }));
        }
        is_made
    })
    .await;
}

async fn members(world: &World, at: NodeId) -> Vec<NodeId> {
    world.status(at).await.map(|status| status.members.members.into_keys().collect()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_certificate_for_another_host_is_rejected() {
    let mut world = admitting(&[2, 3]);
    world.start_three().await;
    let client = world.client();
    client.create("there").await;
    let tls = rogue(&world);
    for at in 1..=3 {
        // An id that nobody has, with all that the cluster knows of itself.
        let unknown = speaks_as(&world, ROGUE, 7, tls.clone());
        for question in [NodeQuestion::Status, NodeQuestion::Members, forged("forged"), NodeQuestion::Report] {
            refused(&world, asks(&world, &unknown, at, question).await);
        }
        // Every member's id, with its instance.
        for member in 1..=3 {
            let member = speaks_as(&world, member, world.identity(member).instance, tls.clone());
            refused(&world, asks(&world, &member, at, forged("forged")).await);
        }
        // A node that wants to join may ask for it, but learns nothing else.
        let stranger = Peers::new(STRANGER, Some(tls.clone()));
        refused(&world, asks(&world, &stranger, at, NodeQuestion::Status).await);
        refused(&world, asks(&world, &stranger, at, forged("forged")).await);
        let why = refused(&world, asks(&world, &stranger, at, join(&world, ROGUE, None)).await);
        assert!(why.contains("is not for the host of its --peer-address"), "{why}");
    }
    // With a member's own certificate and directory it is accepted.
    let second = speaks_as(&world, 2, world.identity(2).instance, world.tls(2).unwrap());
    assert!(matches!(asks(&world, &second, 1, NodeQuestion::Status).await, Ok(NodeReply::Status(_))));
    let other_directory = speaks_as(&world, 2, 5, world.tls(2).unwrap());
    refused(&world, asks(&world, &other_directory, 1, NodeQuestion::Status).await);

    assert!(matches!(client.carry_out("ada", fleet::create("forged")).await, Outcome::Created { created: true, .. }));
    assert_eq!(members(&world, 1).await, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unadmitted_node_gets_no_vote_and_does_not_affect_the_quorum() {
    let mut world = admitting(&[2, 3]);
    world.start_three().await;
    world.start(4);
    let status = world.ended(4).await;
    assert_eq!(status.code(), Some(1));
    let words = world.words(4);
    for word in ["the cluster rejected this node", "tenure cluster add --node 4", "--join-secret-file", "--admit 4="] {
        assert!(words.contains(word), "{word}: {words}");
    }
    assert_eq!(members(&world, 1).await, [1, 2, 3]);
    world.kill(3);
    world.client_of(&[1, 2]).create("after").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_joins_when_an_operator_added_it_or_with_a_valid_join_secret() {
    let mut world = certified();
    world.start(1);
    world.has_vote(1).await;
    let cluster = world.identity(1);

    // Added by an operator, under its id and for its address.
    let member = Member { peer_address: world.address(2), ..Member::default() };
    change(&world, 1, Change::Add { node: 2, member }).await;
    let tls = world.authority.as_ref().unwrap().tls(&world.host(3));
    let other_host = Peers::new(STRANGER, Some(tls));
    let why = refused_by_one(asks(&world, &other_host, 1, join(&world, 3, None)).await);
    assert!(why.contains("node 3") && why.contains("no operator admitted it"), "{why}");
    world.start(2);
    world.has_vote(2).await;

    // With a join secret, through a follower or through the leader.
    let expired = join_secret(&cluster, None, wall(-1));
    let of_another = join_secret(&cluster, Some(9), wall(60_000));
    for (secret, why) in
        [(expired, "has expired"), (of_another, "is for another node"), ("tenure_join_00".into(), "cut off")]
    {
        for at in [1, 2] {
            let said = refused_by_one(asks(&world, &other_host, at, join(&world, 3, Some(secret.clone()))).await);
            assert!(said.contains(why), "{said}");
        }
    }
    let file = world.folder().join("secret");
    fs::write(&file, join_secret(&cluster, Some(3), wall(600_000)) + "\n").unwrap();
    let seeds = format!("{},{}", world.address(2), world.address(1));
    let begin = ["--join", &seeds, "--join-secret-file", file.to_str().unwrap()].map(String::from);
    world.begins.insert(3, begin.to_vec());
    world.start(3);
    world.has_vote(3).await;
    world.in_step().await;
    assert_eq!(members(&world, 1).await, [1, 2, 3]);
}

fn refused_by_one(reply: Result<NodeReply, PeerError>) -> String {
    match reply {
        Ok(NodeReply::Refused { why }) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_node_is_refused_and_its_connections_are_closed() {
    let mut world = admitting(&[2, 3]);
    world.start_three().await;
    let client = world.client();
    let identity = world.identity(3);
    let third = speaks_as(&world, 3, identity.instance, world.tls(3).unwrap());
    let first = Member { peer_address: world.address(1), ..Member::default() };
    let ask = async |question| third.ask(1, &first, question, ANSWER_WITHIN).await;
    assert!(matches!(ask(NodeQuestion::Report).await, Ok(NodeReply::Report(_))));
    change(&world, 1, Change::Remove { node: 3 }).await;
    until("it is refused on its open connection, and on new ones", async || {
        matches!(ask(NodeQuestion::Report).await, Err(PeerError::Refused { .. }))
    })
    .await;
    let why = refused(&world, ask(forged("forged")).await);
    assert!(why.contains("is not known here as a member"), "{why}");
    assert!(world.words(1).contains("it is no longer a member"), "{}", world.words(1));
    client.create("forged").await;
}

/// The current leader joined while the node was away.
#[tokio::test(flavor = "multi_thread")]
async fn a_returning_node_accepts_members_that_joined_meanwhile() {
    let mut world = admitting(&[2, 3, 4, 5]);
    world.start_three().await;
    let client = world.client_of(&[1, 2]);
    client.create("before").await;
    world.kill(3);
    for node in [4, 5] {
        world.start(node);
        world.has_vote(node).await;
    }
    let led = Change::Transfer { to: Some(4) };
    change(&world, 4, led.clone()).await;
    change(&world, 4, Change::Remove { node: 1 }).await;
    world.kill(1);
    change(&world, 4, led).await;
    world.client_of(&[4, 5]).create("meanwhile").await;
    // Only with its own knowledge of the members.
    world.begins.insert(3, Vec::new());
    world.start(3);
    world.in_step().await;
    assert_eq!(members(&world, 3).await, [2, 3, 4, 5]);
    assert_eq!(world.leader().await, 4);
    assert!(
        world.words(3).contains("it is not a member as far as this node knows"),
        "it accepted an unknown node at once"
    );
}

/// No member that it knows is left: an operator gives it the address of a current one.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_known_members_are_all_gone_returns_with_join() {
    let mut world = admitting(&[2, 3, 4, 5]);
    world.start_three().await;
    world.kill(3);
    for node in [4, 5] {
        world.start(node);
        world.has_vote(node).await;
    }
    for node in [1, 2] {
        change(&world, 4, Change::Transfer { to: Some(4) }).await;
        change(&world, 4, Change::Remove { node }).await;
        world.kill(node);
    }
    world.client_of(&[4, 5]).create("meanwhile").await;
    world.begins.insert(3, vec!["--join".into(), world.address(5)]);
    world.start(3);
    world.in_step().await;
    assert_eq!(members(&world, 3).await, [3, 4, 5]);
}

/// The same directory at another host: its certificate is for both hosts, or an operator adds the new address first.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_moves_with_a_certificate_for_both_hosts_or_after_an_operator_adds_it() {
    let mut world = admitting(&[2, 3]);
    world.start_three().await;
    let address_of = async |world: &World, node| {
        world.status(1).await.and_then(|status| Some(status.members.members.get(&node)?.peer_address.clone()))
    };
    world.kill(2);
    let old = world.host(2);
    world.hosts.insert(2, 12);
    let both = world.authority.as_ref().unwrap().files_for(&[&old, &world.host(2)]);
    world.certificates.insert(2, both);
    world.start(2);
    until("it is known at its new address", async || address_of(&world, 2).await == Some(world.address(2))).await;
    world.in_step().await;

    world.kill(2);
    let before = world.address(2);
    world.hosts.insert(2, 22);
    world.certificates.remove(&2);
    world.start(2);
    until("it is told why not", async || world.words(2).contains("no operator admitted it")).await;
    assert_eq!(address_of(&world, 2).await, Some(before));
    let member = Member { peer_address: world.address(2), ..Member::default() };
    change(&world, 1, Change::Add { node: 2, member }).await;
    until("it is known at its new address", async || address_of(&world, 2).await == Some(world.address(2))).await;
    world.in_step().await;
}
