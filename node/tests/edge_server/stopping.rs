//! The end of a server.

use crate::http2::{begin, ping};
use crate::world::start;
use node::edge::server::ServerLimits;
use std::sync::atomic::Ordering;
use std::time::Duration;
use test_support::{LIMIT, until, within};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_stopping_server_answers_requests_and_ends_streams() {
    let world = start(ServerLimits::default()).await;
    let address = world.address();
    let mut idle = world.connect().await;
    assert_eq!(idle.get("/ping").await.0, 200);
    let mut idle_http2 = world.connect().await;
    begin(&mut idle_http2).await;
    ping(&mut idle_http2, 1).await;
    let mut stream = world.connect().await;
    stream.say(b"GET /stream HTTP/1.1\r\nhost: tenure\r\n\r\n").await.unwrap();
    stream.hears("hello").await;
    let mut waiting = world.connect().await;
    waiting.say(b"GET /wait HTTP/1.1\r\nhost: tenure\r\n\r\n").await.unwrap();
    until("the requests have arrived", async || world.seen.requests.load(Ordering::Relaxed) == 4).await;

    let seen = world.seen.clone();
    let shutdown = tokio::spawn(world.server.shutdown(LIMIT));
    stream.hears("bye").await;
    stream.closed().await;
    idle.closed().await;
    idle_http2.closed().await;
    assert!(TcpStream::connect(address).await.is_err(), "no new connections are accepted");
    assert!(!shutdown.is_finished(), "one is still waiting");

    seen.answers.0.add_permits(1);
    assert_eq!(waiting.answer().await, Some((200, "done".to_owned())));
    waiting.closed().await;
    within("it ends", shutdown).await.unwrap();
}

#[tokio::test]
async fn requests_not_finished_in_time_are_cut_off() {
    let world = start(ServerLimits::default()).await;
    let mut waiting = world.connect().await;
    waiting.say(b"GET /wait HTTP/1.1\r\nhost: tenure\r\n\r\n").await.unwrap();
    let mut streams = world.connect().await;
    begin(&mut streams).await;
    ping(&mut streams, 1).await;
    until("the requests have arrived", async || world.seen.requests.load(Ordering::Relaxed) == 2).await;
    within("it ends", world.server.shutdown(Duration::from_millis(100))).await;
    assert!(waiting.closed().await.is_empty());
}

#[tokio::test]
async fn dropping_a_server_closes_all_connections() {
    let world = start(ServerLimits::default()).await;
    let address = world.address();
    let mut waiting = world.connect().await;
    waiting.say(b"GET /wait HTTP/1.1\r\nhost: tenure\r\n\r\n").await.unwrap();
    until("the requests have arrived", async || world.seen.requests.load(Ordering::Relaxed) == 1).await;
    drop(world.server);
    assert!(waiting.closed().await.is_empty());
    let gone = async { while TcpStream::connect(address).await.is_ok() {} };
    within("nobody listens", gone).await;
}
