//! One direction between two ends: its trouble, what happens to the next packet, and the counts of earlier ones.

use super::Port;
use crate::dice::Dice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The extra delay of a packet that others should overtake.
const OVERTAKEN_BY: Duration = Duration::from_millis(8);

/// The trouble of a link; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// The number of faults that cut it: it works again when all of them are over.
    pub cuts: u32,
    pub delay: Duration,
    /// A random extra delay up to this, for each packet.
    pub jitter: Duration,
    /// In percent of the packets.
    pub loss: u8,
    pub duplicate: u8,
    pub reorder: u8,
}

impl Trouble {
    pub const CUT: Self = Self { cuts: 1, ..Self::NONE };
    pub const NONE: Self =
        Self { cuts: 0, delay: Duration::ZERO, jitter: Duration::ZERO, loss: 0, duplicate: 0, reorder: 0 };
}

impl Trouble {
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cuts > 0
    }
}

/// Counts of the packets of a link, or of the pieces of a stream with the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub forwarded: u64,
    pub dropped: u64,
    pub delayed: u64,
    pub duplicated: u64,
    pub reordered: u64,
}

impl Counts {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            forwarded: self.forwarded + other.forwarded,
            dropped: self.dropped + other.dropped,
            delayed: self.delayed + other.delayed,
            duplicated: self.duplicated + other.duplicated,
            reordered: self.reordered + other.reordered,
        }
    }

    /// The counts since an earlier moment.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            forwarded: self.forwarded - before.forwarded,
            dropped: self.dropped - before.dropped,
            delayed: self.delayed - before.delayed,
            duplicated: self.duplicated - before.duplicated,
            reordered: self.reordered - before.reordered,
        }
    }
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Now,
    Drop,
    /// Deliver it after this delay, and perhaps a second time.
    Later {
        after: Duration,
        twice: bool,
    },
}

#[derive(Debug)]
struct Link {
    /// Checked first, so that a link without trouble costs nothing.
    has_trouble: AtomicBool,
    wrong: Mutex<(Trouble, Dice)>,
    forwarded: AtomicU64,
    dropped: AtomicU64,
    delayed: AtomicU64,
    duplicated: AtomicU64,
    reordered: AtomicU64,
}

/// Every link of a wire.
#[derive(Debug)]
pub struct Links {
    ports: u32,
    links: Vec<Link>,
}

impl Links {
    pub(super) fn new(ports: u32, seed: u64) -> Self {
        let link = |nth: u32| Link {
            has_trouble: AtomicBool::new(false),
            wrong: Mutex::new((Trouble::NONE, Dice::of(seed, &format!("link {nth}")))),
            forwarded: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            delayed: AtomicU64::new(0),
            duplicated: AtomicU64::new(0),
            reordered: AtomicU64::new(0),
        };
        Self { ports, links: (0..ports * ports).map(link).collect() }
    }

    fn link(&self, from: Port, to: Port) -> &Link {
        &self.links[(from * self.ports + to) as usize]
    }

    pub(super) fn set(&self, from: Port, to: Port, trouble: Trouble) {
        self.change(from, to, |now| *now = Trouble { cuts: now.cuts.max(trouble.cuts), ..trouble });
    }

    pub(super) fn cut(&self, from: Port, to: Port) {
        self.change(from, to, |trouble| trouble.cuts += 1);
    }

    pub(super) fn mend(&self, from: Port, to: Port) {
        self.change(from, to, |trouble| trouble.cuts = trouble.cuts.saturating_sub(1));
    }

    fn change(&self, from: Port, to: Port, change: impl FnOnce(&mut Trouble)) {
        let link = self.link(from, to);
        let mut wrong = link.wrong();
        change(&mut wrong.0);
        link.has_trouble.store(wrong.0 != Trouble::NONE, Ordering::Release);
    }

    pub(super) fn heal(&self) {
        for link in &self.links {
            link.wrong().0 = Trouble::NONE;
            link.has_trouble.store(false, Ordering::Release);
        }
    }

    pub(super) fn trouble(&self, from: Port, to: Port) -> Trouble {
        self.link(from, to).wrong().0
    }

    pub(super) fn counts(&self, from: Port, to: Port) -> Counts {
        let link = self.link(from, to);
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            forwarded: read(&link.forwarded),
            dropped: read(&link.dropped),
            delayed: read(&link.delayed),
            duplicated: read(&link.duplicated),
            reordered: read(&link.reordered),
        }
    }

    /// Also counts the packet.
    pub(super) fn verdict(&self, from: Port, to: Port) -> Verdict {
        let link = self.link(from, to);
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        if !link.has_trouble.load(Ordering::Acquire) {
            count(&link.forwarded);
            return Verdict::Now;
        }
        let mut wrong = link.wrong();
        let (trouble, dice) = &mut *wrong;
        if trouble.is_cut() || dice.chance(u64::from(trouble.loss)) {
            count(&link.dropped);
            return Verdict::Drop;
        }
        count(&link.forwarded);
        let jitter = u64::try_from(trouble.jitter.as_micros()).unwrap_or(0);
        let mut after = trouble.delay + Duration::from_micros(if jitter > 0 { dice.below(jitter) } else { 0 });
        if !after.is_zero() {
            count(&link.delayed);
        }
        if dice.chance(u64::from(trouble.reorder)) {
            count(&link.reordered);
            after += OVERTAKEN_BY;
        }
        let twice = dice.chance(u64::from(trouble.duplicate));
        if twice {
            count(&link.duplicated);
        }
        if after.is_zero() && !twice { Verdict::Now } else { Verdict::Later { after, twice } }
    }

    /// A delayed packet found no room in the queue.
    pub(super) fn overflowed(&self, from: Port, to: Port) {
        self.link(from, to).dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl Link {
    fn wrong(&self) -> MutexGuard<'_, (Trouble, Dice)> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_link_delivers_everything_and_a_cut_link_blocks_only_its_direction() {
        let links = Links::new(3, 1);
        links.set(1, 2, Trouble::CUT);
        assert_eq!((links.verdict(1, 2), links.verdict(2, 1)), (Verdict::Drop, Verdict::Now));
        assert_eq!((links.counts(1, 2).dropped, links.counts(2, 1).forwarded), (1, 1));
        links.heal();
        assert_eq!(links.verdict(1, 2), Verdict::Now);
    }

    #[test]
    fn the_share_of_lost_packets_matches_the_setting() {
        let links = Links::new(2, 7);
        links.set(0, 1, Trouble { loss: 20, ..Trouble::NONE });
        for _ in 0..1_000 {
            links.verdict(0, 1);
        }
        let counts = links.counts(0, 1);
        assert!((150..250).contains(&counts.dropped), "{counts:?}");
        assert_eq!(counts.dropped + counts.forwarded, 1_000);
    }

    #[test]
    fn a_delayed_packet_has_the_given_delay_and_may_come_twice() {
        let links = Links::new(2, 7);
        let delay = Duration::from_millis(30);
        links.set(0, 1, Trouble { delay, jitter: Duration::from_millis(10), duplicate: 100, ..Trouble::NONE });
        for _ in 0..100 {
            let Verdict::Later { after, twice } = links.verdict(0, 1) else { panic!("not late") };
            assert!(twice && after >= delay && after < Duration::from_millis(40), "{after:?}");
        }
    }
}
