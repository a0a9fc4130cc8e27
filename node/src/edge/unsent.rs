//! Room for responses that are ready and not sent yet. A caller decides how fast it reads its responses, so the unsent
//! bytes are limited per connection, per actor and in total.
//!
//! A request without room waits for some, and is rejected before any work is done if none becomes free in time.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long to wait for room. A caller that reads frees room within milliseconds.
const WAIT: Duration = Duration::from_secs(2);

/// Limits for the bytes of unsent responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsentLimits {
    /// For all connections together. Default 256 MiB.
    pub all_max: usize,
    /// For one actor. Default 32 MiB.
    pub actor_max: usize,
    /// For one connection. Default 8 MiB.
    pub connection_max: usize,
}

impl Default for UnsentLimits {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self { all_max: 256 * MIB, actor_max: 32 * MIB, connection_max: 8 * MIB }
    }
}

/// The room for unsent responses. Clones share it.
#[derive(Clone)]
pub(crate) struct Unsent(Arc<Inner>);

struct Inner {
    limits: UnsentLimits,
    used: Mutex<Used>,
    freed: Notify,
}

#[derive(Default)]
struct Used {
    all: usize,
    /// Only actors with unsent bytes: no more entries than responses.
    by_actor: BTreeMap<Arc<str>, usize>,
}

/// The unsent bytes of one connection, in the extensions of every request.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnsentOfConnection(Arc<AtomicUsize>);

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    All,
    Actor,
    Connection,
}

impl fmt::Debug for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.bytes(), self.0.limits.all_max)
    }
}

impl Unsent {
    pub(crate) fn new(limits: UnsentLimits) -> Self {
        Self(Arc::new(Inner { limits, used: Mutex::default(), freed: Notify::new() }))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().all
    }

    /// Takes room for the response to a read, which is expected to have this many bytes.
    pub(crate) async fn view(
        &self,
        actor: &str,
        connection: Option<&UnsentOfConnection>,
        expected: usize,
    ) -> Result<Owed, Full> {
        self.room(|| self.0.take(actor, connection, expected)).await
    }

    /// Takes room for the response to a command. Only its own connection can make it wait, because the response is
    /// short and other callers may depend on the command.
    pub(crate) async fn command(&self, actor: &str, connection: Option<&UnsentOfConnection>) -> Result<Owed, Full> {
        self.room(|| {
            self.0.check_connection(connection, 0)?;
            Ok(self.0.owe(&mut self.0.lock(), actor, connection, 0))
        })
        .await
    }

    async fn room(&self, take: impl Fn() -> Result<Taken, Full>) -> Result<Owed, Full> {
        let by = Instant::now() + WAIT;
        loop {
            let mut freed = pin!(self.0.freed.notified());
            // From here on no notification is missed.
            freed.as_mut().enable();
            match take() {
                Ok(taken) => return Ok(Owed(Arc::new(Held { room: self.0.clone(), taken: Mutex::new(taken) }))),
                Err(full) => timeout_at(by, freed).await.map_err(|_| full)?,
            }
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_connection(&self, connection: Option<&UnsentOfConnection>, bytes: usize) -> Result<(), Full> {
        let used = connection.map_or(0, |connection| connection.0.load(Ordering::Relaxed));
        if is_over(used, bytes, self.limits.connection_max) { Err(Full::Connection) } else { Ok(()) }
    }

    fn take(&self, actor: &str, connection: Option<&UnsentOfConnection>, bytes: usize) -> Result<Taken, Full> {
        let mut used = self.lock();
        self.check_connection(connection, bytes)?;
        let own = used.by_actor.get(actor).copied().unwrap_or(0);
        if is_over(own, bytes, self.limits.actor_max) {
            return Err(Full::Actor);
        }
        if is_over(used.all, bytes, self.limits.all_max) {
            return Err(Full::All);
        }
        Ok(self.owe(&mut used, actor, connection, bytes))
    }

    fn owe(&self, used: &mut Used, actor: &str, connection: Option<&UnsentOfConnection>, bytes: usize) -> Taken {
        let mut taken = Taken { actor: actor.into(), connection: connection.cloned(), bytes: 0 };
        taken.resize(used, bytes);
        taken
    }
}

/// Whether the limit is reached. An empty room accepts one response of any length.
fn is_over(used: usize, bytes: usize, max: usize) -> bool {
    used >= max || (used > 0 && used + bytes > max)
}

struct Taken {
    actor: Arc<str>,
    connection: Option<UnsentOfConnection>,
    bytes: usize,
}

impl Taken {
    fn resize(&mut self, used: &mut Used, bytes: usize) {
        used.all = used.all - self.bytes + bytes;
        let own = used.by_actor.get(&self.actor).copied().unwrap_or(0) - self.bytes + bytes;
        if own == 0 {
            used.by_actor.remove(&self.actor);
        } else {
            used.by_actor.insert(self.actor.clone(), own);
        }
        if let Some(connection) = &self.connection {
            connection.0.fetch_add(bytes, Ordering::Relaxed);
            connection.0.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

/// The room of one response, until the last clone is dropped. Each unsent piece of the response has a clone.
#[derive(Clone, Debug)]
pub(crate) struct Owed(Arc<Held>);

struct Held {
    room: Arc<Inner>,
    taken: Mutex<Taken>,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

impl Owed {
    /// Sets the real length of the response.
    pub(crate) fn is(&self, bytes: usize) {
        self.0.resize(bytes);
    }
}

impl Held {
    fn resize(&self, bytes: usize) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_less = bytes < taken.bytes;
        if bytes != taken.bytes {
            taken.resize(&mut self.room.lock(), bytes);
        }
        drop(taken);
        if is_less {
            self.room.freed.notify_waiters();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> Unsent {
        Unsent::new(UnsentLimits { all_max: 100, actor_max: 50, connection_max: 30 })
    }

    #[tokio::test]
    async fn a_caller_that_reads_nothing_gets_no_room_and_others_do() {
        let room = room();
        let connection = UnsentOfConnection::default();
        let first = room.view("ada", Some(&connection), 20).await.unwrap();
        assert_eq!(room.view("ada", Some(&connection), 20).await.unwrap_err(), Full::Connection);
        let other = room.view("ada", None, 25).await.unwrap();
        assert_eq!(room.view("ada", None, 10).await.unwrap_err(), Full::Actor);
        let bobs = room.view("bob", None, 40).await.unwrap();
        assert_eq!(room.view("cy", None, 20).await.unwrap_err(), Full::All);
        room.command("cy", None).await.unwrap();
        drop((first, other, bobs));
        assert_eq!((room.bytes(), connection.0.load(Ordering::Relaxed)), (0, 0));
        assert!(room.0.lock().by_actor.is_empty(), "an actor without unsent bytes is forgotten");
    }

    #[tokio::test]
    async fn a_waiting_request_gets_room_when_a_response_is_shorter_than_expected() {
        let room = room();
        let long = room.view("ada", None, 50).await.unwrap();
        let waits = tokio::spawn({
            let room = room.clone();
            async move { room.view("ada", None, 30).await.map(|_| ()) }
        });
        tokio::task::yield_now().await;
        long.is(10);
        assert_eq!(waits.await.unwrap(), Ok(()));
        let piece = long.clone();
        drop(long);
        assert_eq!(room.bytes(), 10, "one piece is not sent yet");
        drop(piece);
        assert_eq!(room.bytes(), 0);
    }

    #[tokio::test]
    async fn an_empty_room_accepts_a_response_longer_than_its_limit() {
        let room = room();
        let long = room.view("ada", None, 1_000).await.unwrap();
        assert_eq!(room.view("bob", None, 1).await.unwrap_err(), Full::All);
        drop(long);
        assert!(room.view("bob", None, 1).await.is_ok());
    }
}
