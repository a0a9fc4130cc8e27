//! Room for bodies: a total, a limit per owner, and a part that is reserved for small bodies.

use super::BodyLimits;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Percent of the room that large bodies may fill.
const LARGE_PART: usize = 75;

pub(super) struct Room {
    max: usize,
    owner_max: usize,
    small_max: usize,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    all: usize,
    /// Only owners with bytes: no more entries than bodies.
    by_owner: BTreeMap<Arc<str>, usize>,
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    OfAll,
    OfOwner,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.lock();
        write!(f, "{} of {} bytes, of {} owners", used.all, self.max, used.by_owner.len())
    }
}

impl Room {
    pub(super) fn new(limits: &BodyLimits) -> Self {
        let (max, owner_max, small_max) = (limits.all_bytes_max, limits.owner_bytes_max, limits.small_bytes_max);
        Self { max, owner_max, small_max, used: Mutex::default() }
    }

    /// Adds one body. Nothing has arrived yet; its head announces `claimed` bytes.
    pub(super) fn enter(self: Arc<Self>, owner: Option<&str>, claimed: usize) -> Taken {
        Taken { room: self, owner: owner.map(Arc::from), claimed, bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The room of one body, given back on drop.
#[derive(Debug)]
pub struct Taken {
    room: Arc<Room>,
    owner: Option<Arc<str>>,
    claimed: usize,
    bytes: usize,
}

impl Taken {
    /// # Errors
    /// When there is no room for this many more bytes.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let is_small = (self.bytes + bytes).max(self.claimed) <= self.room.small_max;
        let all_max = if is_small { self.room.max } else { self.room.max.saturating_mul(LARGE_PART) / 100 };
        let mut used = self.room.lock();
        let own = self.owner.as_ref().and_then(|owner| used.by_owner.get(owner)).copied().unwrap_or(0);
        if self.owner.is_some() && own + bytes > self.room.owner_max {
            return Err(Full::OfOwner);
        }
        if used.all + bytes > all_max {
            return Err(Full::OfAll);
        }
        used.all += bytes;
        if let Some(owner) = &self.owner {
            used.by_owner.insert(owner.clone(), own + bytes);
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut used = self.room.lock();
        used.all -= self.bytes;
        let Some(owner) = self.owner.take() else { return };
        if let Some(own) = used.by_owner.get_mut(&owner) {
            *own -= self.bytes;
            if *own == 0 {
                used.by_owner.remove(&owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> Arc<Room> {
        let limits =
            BodyLimits { all_bytes_max: 100, owner_bytes_max: 50, small_bytes_max: 10, ..BodyLimits::default() };
        Arc::new(Room::new(&limits))
    }

    fn body(room: &Arc<Room>, owner: &str, bytes: usize) -> Result<Taken, Full> {
        let mut taken = room.clone().enter(Some(owner), bytes);
        taken.grow(bytes).map(|()| taken)
    }

    #[test]
    fn owners_and_large_bodies_cannot_fill_the_whole_room() {
        let room = room();
        let adas = body(&room, "ada", 45).unwrap();
        assert_eq!(body(&room, "ada", 6).unwrap_err(), Full::OfOwner);
        let bobs = body(&room, "bob", 30).unwrap();
        assert_eq!(body(&room, "cy", 11).unwrap_err(), Full::OfAll, "large bodies leave a quarter");
        let small: Vec<_> = ["cy", "dora"].map(|owner| body(&room, owner, 10).unwrap()).into();
        assert_eq!(body(&room, "eve", 6).unwrap_err(), Full::OfAll);
        drop(bobs);
        assert!(body(&room, "bob", 10).is_ok());
        drop((adas, small));
        let used = room.lock();
        assert_eq!((used.all, used.by_owner.len()), (0, 0), "an owner without bodies is forgotten");
    }

    #[test]
    fn a_body_announced_as_large_counts_as_large_from_its_first_byte() {
        let room = room();
        let _large = [body(&room, "ada", 45).unwrap(), body(&room, "bob", 30).unwrap()];
        let mut slow = room.clone().enter(Some("cy"), 40);
        assert_eq!(slow.grow(1), Err(Full::OfAll));
        let mut unsaid = room.clone().enter(None, 0);
        assert_eq!((unsaid.grow(10), unsaid.grow(1)), (Ok(()), Err(Full::OfAll)));
    }
}
