//! A place between two ends of TCP connections, where a test decides what arrives.

use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// Accepts connections and carries each to another address. When it is dropped, all of them end.
#[derive(Debug)]
pub struct Relay {
    pub address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

impl Relay {
    /// `carry` gets both ends of each connection. A connection is closed if nobody listens at the other end.
    pub async fn to<F: Future<Output = ()> + Send + 'static>(
        target: SocketAddr,
        carry: impl Fn(TcpStream, TcpStream) -> F + Clone + Send + 'static,
    ) -> Self {
        Self::between("127.0.0.1:0".parse().unwrap(), target, carry).await
    }

    /// The same at a given address.
    pub async fn between<F: Future<Output = ()> + Send + 'static>(
        address: SocketAddr,
        target: SocketAddr,
        carry: impl Fn(TcpStream, TcpStream) -> F + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let carry = carry.clone();
                connections.spawn(async move {
                    if let Ok(far) = TcpStream::connect(target).await {
                        carry(near, far).await;
                    }
                });
            }
        });
        Self { address, _task: AbortOnDropHandle::new(task) }
    }
}

/// Carries everything in both directions.
pub async fn everything(mut near: TcpStream, mut far: TcpStream) {
    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
}
