//! The cluster's clock: only the leader has one, one per leadership, and it never reads the wall clock (unless that is
//! broken on purpose).
//!
//! It starts at the state's time and adds the time of the monotonic clock from then on. It is observed every 50 ms; one
//! observation adds at most 250 ms, so a leader that was stopped, starved or stuck does not charge the lost time to
//! holders that could not renew meanwhile. For the same reason the time does not advance while no quorum answers this
//! leader: Raft accepts no renewal then.

use crate::replica::wall::wall_now;
use lease::numbers::Time;
use openraft::Instant;
use raft_store::types::LeaderId;
use sabotage::{Broken, is_broken};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How often the clock is observed, even if nothing reads the time.
pub const OBSERVED_EVERY: Duration = Duration::from_millis(50);
/// The most that one observation adds.
pub const ADDED_AT_MOST: Duration = Duration::from_millis(250);

/// The clock of this node, while it leads.
pub struct Clock<I> {
    leadership: Mutex<Option<Leadership<I>>>,
    backed: Box<dyn Fn(I) -> Option<I> + Send + Sync>,
}

impl<I> fmt::Debug for Clock<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

#[derive(Debug)]
struct Leadership<I> {
    id: LeaderId,
    base: Time,
    counted: Duration,
    withheld: Duration,
    last_seen: I,
}

/// A time and its leadership: it must not enter the log of another leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub leader: LeaderId,
    pub at: Time,
}

impl<I: Instant> Clock<I> {
    /// `backed` returns the moment, at most its argument, up to which a quorum backs this leader: only time up to then
    /// counts. It returns `None` until a quorum has answered.
    pub fn new(backed: impl Fn(I) -> Option<I> + Send + Sync + 'static) -> Self {
        Self { leadership: Mutex::new(None), backed: Box::new(backed) }
    }

    /// Starts the clock of a leadership. `base` must be read from the state before `now` is taken, so that no time
    /// counts twice. Starting the same leadership again changes nothing.
    pub fn begin(&self, id: LeaderId, base: Time, now: I) {
        let mut leadership = self.lock();
        if leadership.as_ref().is_none_or(|current| current.id != id) {
            *leadership =
                Some(Leadership { id, base, counted: Duration::ZERO, withheld: Duration::ZERO, last_seen: now });
        }
    }

    /// Stops the clock: this node no longer leads.
    pub fn end(&self) {
        *self.lock() = None;
    }

    /// Adds the passed time and returns the current time; `None` on a node that does not lead.
    pub fn observe(&self, now: I) -> Option<Stamp> {
        let mut leadership = self.lock();
        let leadership = leadership.as_mut()?;
        if is_broken(Broken::WallClock) {
            return Some(Stamp { leader: leadership.id, at: Time(wall_now().0) });
        }
        let until = if is_broken(Broken::NoQuorumTime) { Some(now) } else { (self.backed)(now) };
        if let Some(until) = until {
            let passed = until.saturating_duration_since(leadership.last_seen);
            let added = passed.min(ADDED_AT_MOST);
            leadership.counted += added;
            leadership.withheld += passed - added;
            leadership.last_seen = leadership.last_seen.max(until);
        }
        let millis = u64::try_from(leadership.counted.as_millis()).unwrap_or(u64::MAX);
        Some(Stamp { leader: leadership.id, at: Time(leadership.base.0.saturating_add(millis)) })
    }

    /// The time that this leadership has not charged to holders.
    #[must_use]
    pub fn withheld(&self) -> Duration {
        self.lock().as_ref().map_or(Duration::ZERO, |leadership| leadership.withheld)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Leadership<I>>> {
        self.leadership.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft::vote::RaftLeaderId;
    use std::sync::Arc;

    fn leader(term: u64) -> LeaderId {
        LeaderId::new(term, 1)
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn time_continues_from_the_time_of_the_state() {
        let start = std::time::Instant::now();
        let clock = Clock::new(Some);
        assert_eq!(clock.observe(start), None, "a node that does not lead knows no time");
        clock.begin(leader(1), Time(5_000), start);
        assert_eq!(clock.observe(start), Some(Stamp { leader: leader(1), at: Time(5_000) }));
        assert_eq!(clock.observe(start + ms(50)).unwrap().at, Time(5_050));
        assert_eq!(clock.observe(start + ms(99)).unwrap().at, Time(5_099));
        clock.end();
        assert_eq!(clock.observe(start + ms(100)), None);
    }

    #[test]
    fn a_stall_is_not_charged_to_holders() {
        let start = std::time::Instant::now();
        let clock = Clock::new(Some);
        clock.begin(leader(1), Time(0), start);
        assert_eq!(clock.observe(start + ms(60_000)).unwrap().at, Time(250));
        assert_eq!(clock.withheld(), ms(59_750));
        assert_eq!(clock.observe(start + ms(60_040)).unwrap().at, Time(290));
    }

    #[test]
    fn time_without_a_quorum_is_not_charged_to_holders() {
        let start = std::time::Instant::now();
        let heard = Arc::new(Mutex::new(None));
        let backed = heard.clone();
        let clock = Clock::new(move |now: std::time::Instant| backed.lock().unwrap().map(|until| now.min(until)));
        clock.begin(leader(1), Time(0), start);
        assert_eq!(clock.observe(start + ms(50)).unwrap().at, Time(0), "no quorum has answered yet");
        *heard.lock().unwrap() = Some(start + ms(700));
        for observed in [100, 200, 300, 400, 500, 600, 700] {
            assert_eq!(clock.observe(start + ms(observed)).unwrap().at, Time(observed));
        }
        for observed in (750..40_000).step_by(50) {
            assert_eq!(clock.observe(start + ms(observed)).unwrap().at, Time(700), "nobody answers");
        }
        *heard.lock().unwrap() = Some(start + ms(60_000));
        assert_eq!(clock.observe(start + ms(40_000)).unwrap().at, Time(950));
        assert_eq!(clock.withheld(), ms(39_050));
        assert_eq!(clock.observe(start + ms(40_100)).unwrap().at, Time(1_050));
    }

    #[test]
    fn the_clock_never_moves_back_and_loses_no_fraction() {
        let start = std::time::Instant::now();
        let clock = Clock::new(Some);
        clock.begin(leader(1), Time(0), start);
        let later = start + ms(40);
        assert_eq!(clock.observe(later).unwrap().at, Time(40));
        assert_eq!(clock.observe(start).unwrap().at, Time(40), "an older reading adds nothing");
        assert_eq!(clock.observe(later).unwrap().at, Time(40), "and takes nothing back");
        let mut seen = later;
        for _ in 0..10 {
            seen += Duration::from_micros(100);
            clock.observe(seen);
        }
        assert_eq!(clock.observe(seen).unwrap().at, Time(41));
    }

    #[test]
    fn each_leadership_has_its_own_clock() {
        let start = std::time::Instant::now();
        let clock = Clock::new(Some);
        clock.begin(leader(1), Time(100), start);
        clock.begin(leader(1), Time(900), start + ms(10));
        assert_eq!(clock.observe(start + ms(20)).unwrap().at, Time(120), "the same one does not begin twice");
        clock.begin(leader(3), Time(200), start + ms(20));
        assert_eq!(clock.observe(start + ms(30)), Some(Stamp { leader: leader(3), at: Time(210) }));
    }
}
