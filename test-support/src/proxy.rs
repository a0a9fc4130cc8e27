//! A proxy between a client and a node that simulates network failures.

use crate::relay::Relay;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Passes,
    /// The request never arrives, and the connection is closed.
    IsDropped,
    /// The request arrives; its answer is lost and the connection is closed.
    LosesItsAnswer,
    /// The request arrives, and no answer ever comes.
    IsNotAnswered,
    /// The request never arrives, and the connection stays open.
    Vanishes,
}

/// Logged for each request: its first line and its fate.
pub type Seen = (String, Fate);
type Decide = Arc<dyn Fn(&str) -> Fate + Send + Sync>;

#[derive(Debug)]
pub struct Proxy {
    pub address: SocketAddr,
    pub seen: Mutex<mpsc::UnboundedReceiver<Seen>>,
    _relay: Relay,
}

impl Proxy {
    /// `decide` gets the first line of each request.
    pub async fn start(to: SocketAddr, decide: impl Fn(&str) -> Fate + Send + Sync + 'static) -> Self {
        let (tell, seen) = mpsc::unbounded_channel();
        let decide: Decide = Arc::new(decide);
        let relay = Relay::to(to, move |near, far| carry(near, far, decide.clone(), tell.clone())).await;
        Self { address: relay.address, seen: Mutex::new(seen), _relay: relay }
    }

    /// The requests since the last call.
    pub fn requests(&self) -> Vec<Seen> {
        let mut seen = self.seen.lock().unwrap();
        std::iter::from_fn(|| seen.try_recv().ok()).collect()
    }
}

async fn carry(near: TcpStream, far: TcpStream, decide: Decide, tell: mpsc::UnboundedSender<Seen>) {
    let (mut from_near, to_near) = near.into_split();
    let (from_far, mut to_far) = far.into_split();
    let fate = Arc::new(Mutex::new(Fate::Passes));
    let back = tokio::spawn(back(from_far, to_near, fate.clone()));
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from_near.read(&mut bytes).await {
        // The client sends one request at a time, its head in one piece.
        let text = String::from_utf8_lossy(&bytes[..read]);
        let first = text.lines().next().unwrap_or_default().to_owned();
        if first.ends_with("HTTP/1.1") {
            *fate.lock().unwrap() = decide(&first);
            let _ = tell.send((first, *fate.lock().unwrap()));
        }
        if *fate.lock().unwrap() == Fate::Vanishes {
            std::future::pending::<()>().await;
        }
        if *fate.lock().unwrap() == Fate::IsDropped || to_far.write_all(&bytes[..read]).await.is_err() {
            break;
        }
    }
    let fate = *fate.lock().unwrap();
    if fate != Fate::LosesItsAnswer && fate != Fate::IsNotAnswered {
        back.abort();
    }
}

async fn back(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, fate: Arc<Mutex<Fate>>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        let fate = *fate.lock().unwrap();
        match fate {
            Fate::LosesItsAnswer | Fate::IsDropped => return,
            Fate::IsNotAnswered | Fate::Vanishes => std::future::pending().await,
            Fate::Passes => {
                if to.write_all(&bytes[..read]).await.is_err() {
                    return;
                }
            }
        }
    }
}
