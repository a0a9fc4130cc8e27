//! The wire without namespaces: a TCP proxy in front of every node. It identifies the sender by the source address of
//! the connection, which the shim sets.
//!
//! A stream has no packets to lose: lost data arrives late, as if TCP had sent it again; data for a cut link is held
//! until the link works again.

use super::link::{Links, Verdict};
use super::{CALLERS, EDGE_PORT, PEER_PORT, Port, SEATS};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

/// Above the host numbers of the nodes themselves.
pub(super) const SHOWN_FROM: u8 = 100;
/// The minimum time before TCP retransmits.
const SENT_AGAIN_AFTER: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Proxies {
    network: [u8; 3],
    tasks: Vec<JoinHandle<()>>,
}

impl Proxies {
    pub(super) async fn open(network: [u8; 3], links: Arc<Links>) -> io::Result<Self> {
        let mut proxies = Self { network, tasks: Vec::new() };
        for seat in 1..=SEATS {
            for port in [EDGE_PORT, PEER_PORT] {
                let listener = TcpListener::bind((proxies.shown_host(seat), port)).await?;
                let target = SocketAddr::from((proxies.own_host(seat), port));
                proxies.tasks.push(tokio::spawn(accept(listener, network, seat, target, links.clone())));
            }
        }
        Ok(proxies)
    }

    pub(super) fn own_host(&self, seat: Port) -> Ipv4Addr {
        self.host(u8::try_from(seat).unwrap_or(u8::MAX))
    }

    pub(super) fn shown_host(&self, seat: Port) -> Ipv4Addr {
        self.host(SHOWN_FROM + u8::try_from(seat).unwrap_or(0))
    }

    fn host(&self, last: u8) -> Ipv4Addr {
        let [a, b, c] = self.network;
        Ipv4Addr::new(a, b, c, last)
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn accept(listener: TcpListener, network: [u8; 3], seat: Port, target: SocketAddr, links: Arc<Links>) {
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = streams.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    streams.spawn(join(stream, who(network, from.ip()), seat, target, links.clone()));
                }
                // Probably out of file descriptors: others must end first.
                Err(_) => sleep(LOOK_EVERY).await,
            },
        }
    }
}

fn who(network: [u8; 3], from: IpAddr) -> Port {
    match from {
        IpAddr::V4(from) if from.octets()[..3] == network && (1..=SEATS).contains(&u32::from(from.octets()[3])) => {
            u32::from(from.octets()[3])
        }
        _ => CALLERS,
    }
}

async fn join(stream: TcpStream, from: Port, to: Port, target: SocketAddr, links: Arc<Links>) {
    while links.trouble(from, to).is_cut() || links.trouble(to, from).is_cut() {
        // A cut link lets no handshake pass.
        links.verdict(from, to);
        sleep(LOOK_EVERY).await;
    }
    let Ok(onward) = TcpStream::connect(target).await else { return };
    let _ = (stream.set_nodelay(true), onward.set_nodelay(true));
    let (in_read, in_write) = stream.into_split();
    let (out_read, out_write) = onward.into_split();
    // When one direction has ended, the other has no use here.
    tokio::select! {
        () = copy(in_read, out_write, from, to, &links) => {}
        () = copy(out_read, in_write, to, from, &links) => {}
    }
}

async fn copy(mut read: OwnedReadHalf, mut write: OwnedWriteHalf, from: Port, to: Port, links: &Links) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = read.read(&mut buffer).await {
        match links.verdict(from, to) {
            Verdict::Now => {}
            Verdict::Later { after, .. } => sleep(after).await,
            Verdict::Drop => {
                sleep(SENT_AGAIN_AFTER).await;
                while links.trouble(from, to).is_cut() {
                    sleep(LOOK_EVERY).await;
                }
            }
        }
        if write.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
