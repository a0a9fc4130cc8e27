//! Room for answers that were made and not yet sent. A caller decides how fast it takes its answers, so what waits for it is
//! bounded: of one connection, of one actor, and of all together.
//!
//! Who asks while there is no room waits for some, and is sent away when none comes free in time: before any work is done.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// A caller that reads frees room within milliseconds.
const WAIT: Duration = Duration::from_secs(2);

/// Bytes of answers that wait to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsentLimits {
    /// Of all connections. Default 256 MiB.
    pub all_max: usize,
    /// Of one actor. Default 32 MiB.
    pub actor_max: usize,
    /// Of one connection. Default 8 MiB.
    pub connection_max: usize,
}

impl Default for UnsentLimits {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self { all_max: 256 * MIB, actor_max: 32 * MIB, connection_max: 8 * MIB }
    }
}

/// Clones are the same room.
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
    /// Only those who have any: no more entries than answers.
    by_actor: BTreeMap<Arc<str>, usize>,
}

/// What one connection has not sent.
pub(crate) type OfOneConnection = Arc<AtomicUsize>;

/// Whose room is full.
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

    /// Room for the answer to a view, which is expected to have so many bytes.
    pub(crate) async fn view(
        &self,
        actor: &str,
        connection: Option<&OfOneConnection>,
        expected: usize,
    ) -> Result<Owed, Full> {
        self.room(|| self.0.take(actor, connection, expected)).await
    }

    /// For a command: only its own connection can keep it waiting, since its answer is short and others may depend on it.
    pub(crate) async fn command(&self, actor: &str, connection: Option<&OfOneConnection>) -> Result<Owed, Full> {
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
            // From here on nothing that comes free is missed.
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

    fn check_connection(&self, connection: Option<&OfOneConnection>, bytes: usize) -> Result<(), Full> {
        let used = connection.map_or(0, |connection| connection.load(Ordering::Relaxed));
        if is_over(used, bytes, self.limits.connection_max) { Err(Full::Connection) } else { Ok(()) }
    }

    fn take(&self, actor: &str, connection: Option<&OfOneConnection>, bytes: usize) -> Result<Taken, Full> {
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

    fn owe(&self, used: &mut Used, actor: &str, connection: Option<&OfOneConnection>, bytes: usize) -> Taken {
        let mut taken = Taken { actor: actor.into(), connection: connection.cloned(), bytes: 0 };
        taken.resize(used, bytes);
        taken
    }
}

/// One answer is always taken where there is none, however long it is.
fn is_over(used: usize, bytes: usize, max: usize) -> bool {
    used >= max || (used > 0 && used + bytes > max)
}

struct Taken {
    actor: Arc<str>,
    connection: Option<OfOneConnection>,
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
            connection.fetch_add(bytes, Ordering::Relaxed);
            connection.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

/// What one answer takes, until the last clone is dropped: each piece of the answer that is not sent has one.
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
    /// The answer is there, and has so many bytes.
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
    async fn who_takes_no_answers_waits_in_vain_and_others_do_not() {
        let room = room();
        let connection = OfOneConnection::default();
        let first = room.view("ada", Some(&connection), 20).await.unwrap();
        assert_eq!(room.view("ada", Some(&connection), 20).await.unwrap_err(), Full::Connection);
        let other = room.view("ada", None, 25).await.unwrap();
        assert_eq!(room.view("ada", None, 10).await.unwrap_err(), Full::Actor);
        let bobs = room.view("bob", None, 40).await.unwrap();
        assert_eq!(room.view("cy", None, 20).await.unwrap_err(), Full::All);
        room.command("cy", None).await.unwrap();
        drop((first, other, bobs));
        assert_eq!((room.bytes(), connection.load(Ordering::Relaxed)), (0, 0));
        assert!(room.0.lock().by_actor.is_empty(), "who has nothing there is forgotten");
    }

    #[tokio::test]
    async fn who_waits_goes_on_when_an_answer_is_taken_or_shorter_than_expected() {
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
        assert_eq!(room.bytes(), 10, "a piece of it is not sent");
        drop(piece);
        assert_eq!(room.bytes(), 0);
    }

    #[tokio::test]
    async fn an_answer_that_is_longer_than_all_room_is_taken_when_there_is_no_other() {
        let room = room();
        let long = room.view("ada", None, 1_000).await.unwrap();
        assert_eq!(room.view("bob", None, 1).await.unwrap_err(), Full::All);
        drop(long);
        assert!(room.view("bob", None, 1).await.is_ok());
    }
}
