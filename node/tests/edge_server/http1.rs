//! HTTP/1.1: slow, large and malformed heads.

use crate::world::{SHORT, short, start};
use node::edge::server::ServerLimits;
use std::sync::atomic::Ordering;
use std::time::Duration;
use test_support::{LIMIT, until, within};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, interval};

#[tokio::test]
async fn a_handler_gets_the_address_of_the_caller() {
    let world = start(ServerLimits::default()).await;
    let mut caller = world.connect().await;
    let own = caller.stream.local_addr().unwrap();
    assert_eq!(caller.get("/who").await, (200, format!("{own} true true false")));
    world.end().await;
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_is_closed_when_it_is_idle() {
    let world = start(short()).await;
    let mut caller = world.connect().await;
    for _ in 0..100 {
        assert_eq!(caller.get("/ping").await.0, 200);
    }
    assert!(caller.closed().await.is_empty());
    world.connections(0).await;
    world.end().await;
}

#[tokio::test]
async fn idle_is_longer_than_the_time_for_a_head() {
    let limits = ServerLimits { head_within: SHORT, idle_within: LIMIT, ..short() };
    let world = start(limits).await;
    let mut silent = world.connect().await;
    assert_eq!(silent.get("/ping").await.0, 200);
    // A later connection that never sends a request is closed before the idle one.
    assert!(world.connect().await.closed().await.is_empty());
    assert!(world.connect().await.closed().await.is_empty());
    assert_eq!(silent.get("/ping").await.0, 200);
    drop(silent);
    world.end().await;
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_is_cut_off() {
    let world = start(ServerLimits { idle_within: 10 * LIMIT, ..short() }).await;
    for is_first in [true, false] {
        let mut slow = world.connect().await;
        if !is_first {
            assert_eq!(slow.get("/ping").await.0, 200);
        }
        let began = Instant::now();
        let head = "GET /ping HTTP/1.1\r\nhost: tenure\r\n".bytes().chain("x: y\r\n".bytes().cycle());
        let mut pace = interval(Duration::from_millis(10));
        for byte in head {
            pace.tick().await;
            assert!(began.elapsed() < LIMIT, "the connection stays open");
            if slow.say(&[byte]).await.is_err() {
                break;
            }
            if is_first {
                world.answers().await;
            }
        }
        slow.closed().await;
    }
    world.connections(0).await;
    world.end().await;
}

#[tokio::test]
async fn a_hundred_fields_are_taken_and_one_more_is_too_many() {
    let world = start(ServerLimits::default()).await;
    let request = |fields: usize| {
        let fields: String = (1..fields).map(|n| format!("x-{n}: y\r\n")).collect();
        format!("GET /ping HTTP/1.1\r\nhost: tenure\r\n{fields}\r\n")
    };
    for (fields, status) in [(100, 200), (101, 431), (2_000, 431)] {
        let mut caller = world.connect().await;
        caller.say(request(fields).as_bytes()).await.unwrap();
        assert_eq!(caller.answer().await.expect("an answer").0, status, "{fields} fields");
    }
    world.answers().await;
    world.end().await;
}

#[tokio::test]
async fn a_head_of_more_bytes_than_allowed_is_refused() {
    let world = start(ServerLimits::default()).await;
    let request = |bytes: usize| format!("GET /ping HTTP/1.1\r\nhost: tenure\r\nx: {}\r\n\r\n", "y".repeat(bytes));
    for (bytes, status) in [(30 * 1024, 200), (33 * 1024, 431), (200 * 1024, 431)] {
        let mut caller = world.connect().await;
        // It may be rejected before all of it was sent.
        let _ = caller.say(request(bytes).as_bytes()).await;
        assert_eq!(caller.answer().await.expect("an answer").0, status, "{bytes} bytes");
        if status != 200 {
            caller.closed().await;
        }
    }
    world.answers().await;
    world.end().await;
}

#[tokio::test]
async fn a_head_without_end_costs_the_caller_its_connection() {
    let world = start(ServerLimits::default()).await;
    let mut caller = world.connect().await;
    caller.say(b"GET /ping HTTP/1.1\r\nx: ").await.unwrap();
    let flood = async { while caller.say(&[b'y'; 16 * 1024]).await.is_ok() {} };
    within("it is cut off", flood).await;
    world.connections(0).await;
    world.answers().await;
    world.end().await;
}

#[tokio::test]
async fn garbage_gets_a_4xx_or_nothing() {
    let world = start(short()).await;
    let noise: Vec<u8> = (0..64 * 1024_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let garbage: [&[u8]; 9] = [
        b"\r\n\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /ping HTTP/1.1\r\nhost tenure\r\n\r\n",
        b"POST /length HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /length HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /length HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        &noise,
    ];
    for bytes in garbage {
        let mut caller = world.connect().await;
        let _ = caller.say(bytes).await;
        let answer = caller.closed().await;
        let is_4xx = answer.starts_with(b"HTTP/1.1 4") || answer.starts_with(b"HTTP/1.0 4");
        assert!(answer.is_empty() || is_4xx, "{:?}", String::from_utf8_lossy(&answer));
    }
    world.answers().await;
    world.end().await;
}

#[tokio::test]
async fn a_caller_who_never_reads_is_cut_off() {
    let world = start(short()).await;
    let mut caller = world.connect().await;
    caller.say(b"GET /much HTTP/1.1\r\nhost: tenure\r\n\r\n").await.unwrap();
    until("the requests have arrived", async || world.seen.requests.load(Ordering::Relaxed) == 1).await;
    world.connections(0).await;
    world.answers().await;
    world.end().await;
}

#[tokio::test]
async fn a_caller_who_only_hangs_up_halfway_leaves_no_connection() {
    let world = start(short()).await;
    for said in ["", "GET /pi", "POST /length HTTP/1.1\r\ncontent-length: 10\r\n\r\nhalf"] {
        let mut caller = world.connect().await;
        caller.say(said.as_bytes()).await.unwrap();
        caller.stream.shutdown().await.unwrap();
        caller.closed().await;
    }
    world.connections(0).await;
    world.answers().await;
    world.end().await;
}
