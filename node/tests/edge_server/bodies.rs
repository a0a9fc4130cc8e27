//! Bodies that are large, slow, or many.

use crate::world::{SHORT, World, short, start_with};
use node::edge::body::BodyLimits;
use node::edge::server::ServerLimits;
use std::sync::atomic::Ordering;
use std::time::Duration;
use test_support::{until, within};
use tokio::time::interval;

const MIB: usize = 1024 * 1024;

async fn start(bodies: BodyLimits) -> World {
    start_with(ServerLimits::default(), bodies, None).await
}

fn with_length(length: usize) -> String {
    format!("POST /length HTTP/1.1\r\nhost: tenure\r\ncontent-length: {length}\r\n\r\n")
}

const IN_CHUNKS: &str = "POST /length HTTP/1.1\r\nhost: tenure\r\ntransfer-encoding: chunked\r\n\r\n";

#[tokio::test]
async fn a_body_of_a_mebibyte_is_accepted_and_one_more_byte_is_not() {
    let world = start(BodyLimits::default()).await;
    let mut caller = world.connect().await;
    caller.say(with_length(MIB).as_bytes()).await.unwrap();
    caller.say(&vec![b'x'; MIB]).await.unwrap();
    assert_eq!(caller.answer().await, Some((200, MIB.to_string())));

    let mut caller = world.connect().await;
    caller.say(with_length(MIB + 1).as_bytes()).await.unwrap();
    let (status, problem) = caller.answer().await.expect("an answer before the body");
    assert_eq!(status, 413);
    assert!(problem.contains("\"code\":\"too_large\"") && problem.contains("\"took_effect\":\"no\""), "{problem}");
    world.end().await;
}

#[tokio::test]
async fn a_body_is_put_together_from_its_pieces() {
    let world = start(BodyLimits::default()).await;
    let mut caller = world.connect().await;
    caller.say(IN_CHUNKS.as_bytes()).await.unwrap();
    for piece in ["1\r\na\r\n", "2\r\nbc\r\n", "3\r\ndef\r\n"] {
        caller.say(piece.as_bytes()).await.unwrap();
    }
    caller.say(b"0\r\n\r\n").await.unwrap();
    assert_eq!(caller.answer().await, Some((200, "6".to_owned())));
    assert_eq!(caller.get("/ping").await.0, 200);
    world.end().await;
}

#[tokio::test]
async fn a_huge_body_is_refused_and_the_caller_learns_why() {
    let world = start(BodyLimits::default()).await;
    for head in [with_length(1 << 40), IN_CHUNKS.to_owned()] {
        let mut caller = world.connect().await;
        caller.say(head.as_bytes()).await.unwrap();
        let mut chunk = format!("{:x}\r\n", 64 * 1024).into_bytes();
        chunk.extend(vec![b'x'; 64 * 1024]);
        chunk.extend(b"\r\n");
        // A little more than the limit, like bytes that are on their way when the caller reads the response.
        for _ in 0..18 {
            if caller.say(&chunk).await.is_err() {
                break;
            }
        }
        assert_eq!(caller.answer().await.expect("an answer").0, 413);
        let flood = async { while caller.say(&chunk).await.is_ok() {} };
        within("it is cut off", flood).await;
    }
    world.connections(0).await;
    world.answers().await;
    world.end().await;
}

/// Many clients read the response only after they have sent everything, and give up when sending fails.
#[tokio::test]
async fn a_rejected_caller_may_keep_sending_for_a_moment() {
    let world = start(BodyLimits::default()).await;
    let story = async || {
        let mut caller = world.connect().await;
        caller.say(with_length(2 * MIB).as_bytes()).await.unwrap();
        assert_eq!(caller.answer().await.expect("an answer").0, 413);
        for _ in 0..10 {
            caller.say(&[b'x'; 10 * 1024]).await?;
        }
        std::io::Result::Ok(())
    };
    // On a very busy machine the time may be over too soon.
    let once = async { while story().await.is_err() {} };
    within("it may", once).await;
    world.end().await;
}

#[tokio::test]
async fn a_body_that_comes_byte_by_byte_is_too_slow() {
    let world = start(BodyLimits { within: SHORT, ..BodyLimits::default() }).await;
    for head in [with_length(MIB), IN_CHUNKS.to_owned()] {
        let mut caller = world.connect().await;
        caller.say(head.as_bytes()).await.unwrap();
        let mut pace = interval(Duration::from_millis(10));
        let drip = async {
            loop {
                pace.tick().await;
                if caller.say(b"1\r\nx\r\n").await.is_err() {
                    return;
                }
                if world.server.connections() == 0 {
                    return;
                }
            }
        };
        within("it is cut off", drip).await;
    }
    let mut silent = world.connect().await;
    silent.say(with_length(MIB).as_bytes()).await.unwrap();
    let (status, problem) = silent.answer().await.expect("an answer");
    assert_eq!(status, 408);
    assert!(problem.contains("\"code\":\"too_slow\""), "{problem}");
    world.answers().await;
    world.end().await;
}

#[tokio::test]
async fn all_bodies_together_are_bounded_and_room_comes_back() {
    let bodies = BodyLimits { all_bytes_max: 100, ..BodyLimits::default() };
    let world = start_with(short(), bodies, None).await;
    let mut holding = world.connect().await;
    holding.say(with_length(100).as_bytes()).await.unwrap();
    holding.say(&[b'x'; 80]).await.unwrap();
    until("the requests have arrived", async || world.seen.requests.load(Ordering::Relaxed) == 1).await;

    // The server needs a moment to read what was sent.
    let refused = async {
        loop {
            let mut caller = world.connect().await;
            caller.say(with_length(40).as_bytes()).await.unwrap();
            caller.say(&[b'x'; 40]).await.unwrap();
            let (status, body) = caller.answer().await.expect("an answer");
            if status == 503 {
                break body;
            }
        }
    };
    let problem = within("there is no room", refused).await;
    assert!(problem.contains("\"code\":\"overloaded\"") && problem.contains("\"retry_after_ms\":500"), "{problem}");

    holding.say(&[b'x'; 20]).await.unwrap();
    assert_eq!(holding.answer().await, Some((200, "100".to_owned())));
    let forty = async || {
        let mut caller = world.connect().await;
        caller.say(with_length(40).as_bytes()).await.unwrap();
        caller.say(&[b'x'; 40]).await.unwrap();
        caller.answer().await.expect("an answer").0
    };
    assert_eq!(forty().await, 200);

    // A body takes room until its call ends.
    let before = world.seen.requests.load(Ordering::Relaxed);
    let mut held = world.connect().await;
    held.say(with_length(80).replace("/length", "/hold").as_bytes()).await.unwrap();
    held.say(&[b'x'; 80]).await.unwrap();
    until("the requests have arrived", async || world.seen.requests.load(Ordering::Relaxed) > before).await;
    let refused = async { while forty().await != 503 {} };
    within("there is no room", refused).await;
    assert_eq!(forty().await, 503, "and it stays so");
    world.seen.answers.0.add_permits(1);
    assert_eq!(held.answer().await, Some((200, "done".to_owned())));
    assert_eq!(forty().await, 200);
    world.end().await;
}
