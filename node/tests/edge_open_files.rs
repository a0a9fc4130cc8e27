//! A process that has reached its limit of open files. The only test in its binary, because the limit is per process.

use axum::Router;
use axum::routing::get;
use node::edge::server::{EdgeServer, ServerLimits};
use node::observe::metrics::Metrics;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use test_support::{LIMIT, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

#[tokio::test]
async fn a_server_out_of_sockets_recovers_when_sockets_are_free() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/ping", get(|| async { "pong" }));
    let server = EdgeServer::start(listener, None, router, ServerLimits::default(), Metrics::new()).unwrap();
    let mut before = TcpStream::connect(address).await.unwrap();
    ping(&mut before).await;

    let sockets: Vec<TcpSocket> = (0..3).map(|_| TcpSocket::new_v4().unwrap()).collect();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: limit.maximum }).unwrap();
    let mut held = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        held.push(file);
    }
    let mut waiting = Vec::new();
    for socket in sockets {
        waiting.push(socket.connect(address).await.unwrap());
    }
    for _ in 0..100 {
        ping(&mut before).await;
    }
    assert_eq!(server.connections(), 1, "nobody could be accepted");

    drop(held);
    for mut stream in waiting {
        ping(&mut stream).await;
    }
    server.shutdown(LIMIT).await;
}

async fn ping(stream: &mut TcpStream) {
    let ask = async {
        stream.write_all(b"GET /ping HTTP/1.1\r\nhost: tenure\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"pong") {
            let read = stream.read_buf(&mut answer).await.unwrap();
            assert!(read > 0, "the end");
        }
    };
    within("an answer", ask).await;
}
