//! Many connections.

use crate::world::{Caller, connect, resident, short, start};
use node::edge::server::ServerLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;
use tokio::net::TcpStream;

const SILENT: usize = 5_000;
/// Memory of this process per silent connection, both ends.
const SILENT_BYTES_MAX: u64 = 16 * 1024;

#[tokio::test]
async fn five_thousand_silent_connections_cost_little_and_are_closed() {
    let files = getrlimit(Resource::Nofile);
    let enough = Rlimit { current: files.maximum, maximum: files.maximum };
    setrlimit(Resource::Nofile, enough).unwrap();
    let limits = ServerLimits { head_within: Duration::from_secs(5), address_connections_max: 20_000, ..short() };
    let world = start(limits).await;
    let before = resident();
    let mut silent: Vec<TcpStream> = Vec::with_capacity(SILENT);
    for n in 0..SILENT {
        silent.push(connect(world.address()).await);
        if n % 500 == 0 {
            world.answers().await;
        }
    }
    let cost = resident().saturating_sub(before) / u64::try_from(SILENT).unwrap();
    assert!(cost < SILENT_BYTES_MAX, "{cost} bytes each");
    for stream in silent {
        assert!(Caller::new(stream).closed().await.is_empty());
    }
    world.connections(0).await;
    world.answers().await;
    world.end().await;
}

#[tokio::test]
async fn an_excess_connection_replaces_the_oldest_one_without_a_credential() {
    let world = start(ServerLimits { connections_max: 3, ..ServerLimits::default() }).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut caller = world.connect().await;
        assert_eq!(caller.get("/ping").await.0, 200);
        open.push(caller);
    }
    for _ in 0..100 {
        let mut caller = world.connect().await;
        assert_eq!(caller.get("/ping").await.0, 200);
        let oldest = open.remove(0);
        oldest.closed().await;
        open.push(caller);
        for caller in &mut open {
            assert_eq!(caller.get("/ping").await.0, 200, "the others continue");
        }
    }
    drop(open);
    world.connections(0).await;
    world.end().await;
}

#[tokio::test]
async fn connections_of_one_address_are_limited() {
    let world = start(ServerLimits { address_connections_max: 2, ..ServerLimits::default() }).await;
    let mut first = world.connect().await;
    assert_eq!(first.get("/ping").await.0, 200);
    let mut second = world.connect().await;
    assert_eq!(second.get("/ping").await.0, 200);
    let mut third = world.connect().await;
    assert_eq!(third.get("/ping").await.0, 200);
    first.closed().await;
    assert_eq!(second.get("/ping").await.0, 200);
    drop((second, third));
    world.connections(0).await;
    world.end().await;
}

#[tokio::test]
async fn closed_connections_leave_nothing_behind() {
    let world = start(ServerLimits::default()).await;
    for n in 0..2_000 {
        let mut caller = world.connect().await;
        if n % 2 == 0 {
            caller.say(b"GET /wait HTTP/1.1\r\nhost: tenure\r\n\r\n").await.unwrap();
        }
    }
    world.connections(0).await;
    world.answers().await;
    world.end().await;
}
