//! HTTP/2, frame by frame.

use crate::world::{Caller, SHORT, World, short, start};
use node::edge::server::ServerLimits;
use std::sync::atomic::Ordering;
use std::time::Instant;
use test_support::{LIMIT, until, within};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A GET, with entries of the static table and one literal for the path.
fn head(path: &str, fields: usize) -> Vec<u8> {
    let mut head = vec![0x82, 0x86, 0x41, 6];
    head.extend(b"tenure");
    head.extend([0x04, u8::try_from(path.len()).unwrap()]);
    head.extend(path.bytes());
    for n in 0..fields {
        let name = format!("x-{n:04}");
        head.extend([0x00, 6]);
        head.extend(name.bytes());
        head.extend([1, b'y']);
    }
    head
}

fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &head(path, 0))
}

pub(crate) async fn begin<S: AsyncRead + AsyncWrite + Unpin>(caller: &mut Caller<S>) {
    caller.say(PREFACE).await.unwrap();
    caller.say(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
}

/// Kind, stream and payload.
async fn next<S: AsyncRead + AsyncWrite + Unpin>(caller: &mut Caller<S>) -> Option<(u8, u32, Vec<u8>)> {
    let head = caller.take(9).await?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    let payload = caller.take(usize::try_from(length).unwrap()).await?;
    Some((head[3], stream, payload))
}

pub(crate) async fn ping<S: AsyncRead + AsyncWrite + Unpin>(caller: &mut Caller<S>, stream: u32) -> Vec<u8> {
    caller.say(&get(stream, "/ping")).await.unwrap();
    loop {
        match next(caller).await.expect("an answer") {
            (DATA, of, payload) if of == stream => return payload,
            (GOAWAY, ..) => panic!("it is over"),
            _ => {}
        }
    }
}

async fn connect(world: &World) -> Caller<TcpStream> {
    let mut caller = world.connect().await;
    begin(&mut caller).await;
    caller
}

/// Reads until the server has ended the connection, with or without GOAWAY.
async fn is_ended(caller: &mut Caller<TcpStream>) {
    while let Some((kind, ..)) = next(caller).await {
        if kind == GOAWAY {
            return;
        }
    }
}

#[tokio::test]
async fn http2_is_served_without_tls_too() {
    let world = start(ServerLimits::default()).await;
    let mut caller = connect(&world).await;
    for stream in [1, 3, 5] {
        assert_eq!(ping(&mut caller, stream).await, b"pong");
    }
    world.end().await;
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let world = start(short()).await;
    let mut caller = connect(&world).await;
    assert_eq!(ping(&mut caller, 1).await, b"pong");
    is_ended(&mut caller).await;
    caller.closed().await;
    world.connections(0).await;
    world.end().await;
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let world = start(short()).await;
    let half = &PREFACE[..PREFACE.len() / 2];
    let mut caller = world.connect().await;
    caller.say(half).await.unwrap();
    caller.closed().await;

    let mut caller = connect(&world).await;
    let pings = async { while caller.say(&frame(PING, 0, 0, &[0; 8])).await.is_ok() {} };
    within("pings are no requests", pings).await;
    world.connections(0).await;
    world.answers().await;
    world.end().await;
}

#[tokio::test]
async fn streams_that_are_opened_and_reset_at_once_end_the_connection() {
    let world = start(ServerLimits::default()).await;
    let mut caller = connect(&world).await;
    let flood = async {
        let mut stream = 1;
        loop {
            let mut pair = get(stream, "/wait");
            pair.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
            let mut batch = Vec::new();
            for _ in 0..100 {
                batch.extend_from_slice(&pair);
                stream += 2;
                pair = get(stream, "/wait");
                pair.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
            }
            if caller.say(&batch).await.is_err() {
                return stream;
            }
        }
    };
    within("it is cut off", flood).await;
    world.connections(0).await;
    world.answers().await;
    world.end().await;
}

#[tokio::test]
async fn a_caller_has_no_more_streams_than_allowed() {
    let world = start(ServerLimits { streams_max: 8, ..ServerLimits::default() }).await;
    let mut caller = connect(&world).await;
    for n in 0..100 {
        if caller.say(&get(2 * n + 1, "/wait")).await.is_err() {
            break;
        }
    }
    let refused = async {
        let mut refused = 0;
        while refused < 92 {
            match next(&mut caller).await {
                Some((RST_STREAM, ..)) => refused += 1,
                Some((GOAWAY, ..)) | None => break,
                Some(_) => {}
            }
        }
    };
    within("the others are refused", refused).await;
    assert!(world.seen.requests.load(Ordering::Relaxed) <= 8);
    world.answers().await;
    drop(caller);
    world.end().await;
}

#[tokio::test]
async fn a_head_with_too_many_fields_does_not_reach_a_handler() {
    let world = start(ServerLimits::default()).await;
    for fields in [101, 2_000] {
        let mut caller = connect(&world).await;
        let head = head("/ping", fields);
        let mut parts = head.chunks(16 * 1024);
        let flags = END_STREAM | if parts.len() == 1 { END_HEADERS } else { 0 };
        caller.say(&frame(HEADERS, flags, 1, parts.next().unwrap())).await.unwrap();
        let last = parts.len();
        for (n, part) in parts.enumerate() {
            let flags = if n + 1 == last { END_HEADERS } else { 0 };
            caller.say(&frame(CONTINUATION, flags, 1, part)).await.unwrap();
        }
        loop {
            match next(&mut caller).await {
                Some((HEADERS | RST_STREAM, 1, _) | (GOAWAY, ..)) | None => break,
                Some((kind, ..)) => assert_ne!(kind, DATA, "no pong for {fields} fields"),
            }
        }
    }
    assert_eq!(world.seen.requests.load(Ordering::Relaxed), 0);
    world.answers().await;
    world.end().await;
}

#[tokio::test]
async fn a_head_without_end_ends_the_connection() {
    let world = start(ServerLimits::default()).await;
    let mut caller = connect(&world).await;
    caller.say(&frame(HEADERS, END_STREAM, 1, &head("/ping", 0))).await.unwrap();
    let part = frame(CONTINUATION, 0, 1, &head("/ping", 1_000)[2..]);
    let flood = async { while caller.say(&part).await.is_ok() {} };
    within("it is cut off", flood).await;
    world.connections(0).await;
    world.answers().await;
    world.end().await;
}

#[tokio::test]
async fn a_caller_with_a_closed_window_is_cut_off() {
    let world = start(ServerLimits { idle_within: 10 * LIMIT, ..short() }).await;
    let mut caller = world.connect().await;
    caller.say(PREFACE).await.unwrap();
    // An initial window of zero bytes.
    caller.say(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])).await.unwrap();
    for stream in [1, 3, 5] {
        caller.say(&get(stream, "/ping")).await.unwrap();
    }
    while let Some((kind, ..)) = next(&mut caller).await {
        assert_ne!(kind, DATA);
        assert_ne!(kind, PING, "this caller answers none, which would end it as well");
    }
    world.connections(0).await;
    world.answers().await;
    world.end().await;
}

#[tokio::test]
async fn a_stream_reader_that_stops_reading_is_cut_off() {
    let world = start(ServerLimits { idle_within: 2 * SHORT, ..short() }).await;
    let mut caller = world.connect().await;
    caller.say(PREFACE).await.unwrap();
    // An initial window of a hundred bytes, which is never extended.
    caller.say(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 100])).await.unwrap();
    caller.say(&get(1, "/much")).await.unwrap();
    let mut taken = 0;
    while let Some((kind, _, data)) = next(&mut caller).await {
        taken += if kind == DATA { data.len() } else { 0 };
        assert_ne!(kind, PING, "this caller answers none, which would end it as well");
    }
    assert_eq!(taken, 100);
    world.connections(0).await;
    // A reader that reads everything stays connected, however long nothing happens.
    let mut listening = world.connect().await;
    listening.say(PREFACE).await.unwrap();
    listening.say(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    listening.say(&get(1, "/stream")).await.unwrap();
    while let Some((kind, ..)) = next(&mut listening).await {
        if kind == DATA {
            break;
        }
    }
    let heard = Instant::now();
    until("the limit for idle connections has passed", async || heard.elapsed() > 4 * SHORT).await;
    assert_eq!(world.server.connections(), 1);
    drop(listening);
    world.answers().await;
    world.end().await;
}

#[tokio::test]
async fn garbage_after_the_preface_ends_the_connection() {
    let world = start(short()).await;
    let mut caller = world.connect().await;
    caller.say(PREFACE).await.unwrap();
    let noise: Vec<u8> = (0..64 * 1024_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let _ = caller.say(&noise).await;
    caller.closed().await;
    world.connections(0).await;
    world.answers().await;
    world.end().await;
}
