//! The place of a node: a thread in its own network namespace. Processes that it starts are in that namespace, too, and
//! end with it; calls from there reach the node whatever happens to the wire.

use super::{Port, raise_loopback};
use nix::sched::{CloneFlags, unshare};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::pin::Pin;
use std::sync::mpsc as blocking;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

type Job = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// The place gets its own namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Isolated;

pub struct Place {
    port: Port,
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Tells the thread when its end would otherwise leave a reader of packets waiting.
    poke: Mutex<Option<Ipv4Addr>>,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.port)
    }
}

impl Place {
    pub(super) const ISOLATED: Isolated = Isolated;

    pub(super) fn open(port: Port, isolated: Option<Isolated>) -> io::Result<Self> {
        let (jobs, mut queue) = mpsc::channel::<Job>(64);
        let (tell, told) = blocking::sync_channel(1);
        let begin = move || -> io::Result<tokio::runtime::Runtime> {
            if isolated.is_some() {
                unshare(CloneFlags::CLONE_NEWNET).map_err(io::Error::from)?;
                raise_loopback()?;
            }
            tokio::runtime::Builder::new_current_thread().enable_all().build()
        };
        let live = move || {
            let runtime = match begin() {
                Ok(runtime) => runtime,
                Err(error) => return drop(tell.send(Err(error))),
            };
            let _ = tell.send(Ok(()));
            LocalSet::new().block_on(&runtime, async {
                while let Some(job) = queue.recv().await {
                    tokio::task::spawn_local(job());
                }
            });
        };
        let thread = Builder::new().name(format!("place {port}")).spawn(live)?;
        told.recv().map_err(io::Error::other)??;
        Ok(Self { port, jobs: Some(jobs), thread: Some(thread), poke: Mutex::new(None) })
    }

    /// When the place is dropped, a packet is sent from this address, so that the reader of its device notices.
    pub(super) fn poking(self, from: Ipv4Addr) -> Self {
        *self.poke.lock().unwrap_or_else(PoisonError::into_inner) = Some(from);
        self
    }

    /// Runs a future there.
    ///
    /// # Errors
    /// When the place no longer exists.
    pub async fn run<T, W>(&self, what: impl FnOnce() -> W + Send + 'static) -> io::Result<T>
    where
        T: Send + 'static,
        W: Future<Output = T> + 'static,
    {
        let (tell, told) = oneshot::channel();
        let job: Job = Box::new(move || {
            Box::pin(async move {
                // The caller may no longer wait.
                let _ = tell.send(what().await);
            })
        });
        let gone = || io::Error::other("the namespace no longer exists");
        self.jobs.as_ref().ok_or_else(gone)?.send(job).await.map_err(|_| gone())?;
        told.await.map_err(|_| gone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let (Some(from), Some(jobs)) =
            (self.poke.get_mut().unwrap_or_else(PoisonError::into_inner).take(), &self.jobs)
        {
            let poke = move || {
                let [a, b, c, _] = from.octets();
                let sent = UdpSocket::bind((from, 0))
                    .and_then(|socket| socket.send_to(&[0], (Ipv4Addr::new(a, b, c, 254), 9)));
                // If this fails, a thread is left, and nothing else.
                drop(sent);
            };
            // Stops at once: queued work is dropped when the queue is closed.
            let _ = jobs.try_send(Box::new(move || {
                poke();
                Box::pin(async {})
            }));
        }
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
