//! The clocks of the machines that callers run on: each machine has a clock that its callers use for leases. It may run
//! at another rate, as real ones do; and it may jump or stop, like that of a virtual machine that was stopped by its
//! host, or one that somebody sets.
//!
//! Its value at any moment is known afterwards, so a history has the run's own time and also what a holder believed by
//! its machine's clock.

use crate::history::Micros;
use crate::recorder::{RunClock, micros};
use client::{Clock, Moment};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

const MACHINES: usize = 8;
/// Machines have been up for a while: a clock that jumps back never shows a time before their start.
const UP_SINCE: i64 = 3_600 * 1_000_000;
/// In ppm. Together with the half percent by which nodes may drift it stays below the hundredth that holders leave.
pub const RATE_MOST: i64 = 4_500;
/// The rate of a stopped clock.
const STALLED: i64 = -1_000_000;

#[derive(Debug)]
pub struct Machines {
    machines: Vec<Arc<Machine>>,
}

/// One machine. Its clock is derived from the run's clock.
#[derive(Debug)]
pub struct Machine {
    clock: RunClock,
    /// In the order of time; the first is the machine's start.
    turns: RwLock<Vec<Turn>>,
    wrong_readings: AtomicU64,
}

/// From here on the clock runs at this rate.
#[derive(Clone, Copy, Debug)]
struct Turn {
    since: Micros,
    shown: i64,
    /// Faster by this many ppm.
    ppm: i64,
    /// The value differs from the one that the clock had reached: it jumped.
    is_jump: bool,
    /// The sum of its jumps.
    off_by: i64,
}

impl Turn {
    fn at(self, moment: Micros) -> i64 {
        let passed = moment.saturating_sub(self.since).cast_signed();
        self.shown + passed + passed * self.ppm / 1_000_000
    }
}

impl Machines {
    #[must_use]
    pub fn new(began: Instant) -> Self {
        let clock = RunClock::since(began);
        Self { machines: (0..MACHINES).map(|_| Arc::new(Machine::new(clock))).collect() }
    }

    #[must_use]
    pub fn all(&self) -> &[Arc<Machine>] {
        &self.machines
    }

    /// The machine of an actor: several actors share one.
    #[must_use]
    pub fn of(&self, actor: &str) -> Arc<Machine> {
        let number = actor.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        self.machines[number % self.machines.len()].clone()
    }

    /// Resets all clocks: none jumps, stops or runs at another rate any more.
    pub fn heal(&self) {
        for machine in &self.machines {
            machine.set_right();
        }
    }
}

impl Machine {
    fn new(clock: RunClock) -> Self {
        let start = Turn { since: 0, shown: UP_SINCE, ppm: 0, is_jump: false, off_by: 0 };
        Self { clock, turns: RwLock::new(vec![start]), wrong_readings: AtomicU64::new(0) }
    }

    /// The value of its clock at that moment, in microseconds since its start.
    #[must_use]
    pub fn shown_at(&self, moment: Micros) -> i64 {
        let turns = self.turns.read().unwrap_or_else(PoisonError::into_inner);
        let behind = turns.partition_point(|turn| turn.since <= moment);
        let shown = turns[behind.saturating_sub(1)].at(moment);
        if shown != UP_SINCE + moment.cast_signed() {
            self.wrong_readings.fetch_add(1, Ordering::Relaxed);
        }
        shown
    }

    #[must_use]
    pub fn shown_now(&self) -> i64 {
        self.shown_at(self.clock.now())
    }

    /// Whether it neither jumped nor ran at a rate beyond the allowance between these moments.
    #[must_use]
    pub fn was_steady(&self, from: Micros, to: Micros) -> bool {
        let turns = self.turns.read().unwrap_or_else(PoisonError::into_inner);
        let first = turns.partition_point(|turn| turn.since <= from).saturating_sub(1);
        let within = turns[first..].iter().take_while(|turn| turn.since <= to);
        within.enumerate().all(|(nth, turn)| turn.ppm.abs() <= RATE_MOST && (nth == 0 || !turn.is_jump))
    }

    /// The number of readings so far that differed from the run's time.
    #[must_use]
    pub fn wrong_readings(&self) -> u64 {
        self.wrong_readings.load(Ordering::Relaxed)
    }

    /// The clock for clients on this machine.
    #[must_use]
    pub fn of_client(self: &Arc<Self>) -> Clock {
        let machine = self.clone();
        Clock::new(move || Moment(Duration::from_micros(u64::try_from(machine.shown_now()).unwrap_or(0))))
    }

    /// Jumps forwards by this much, or back.
    pub fn jump(&self, by_ms: i64) {
        let by = by_ms * 1_000;
        self.turn(|_, now| Turn { shown: now.shown + by, is_jump: true, off_by: now.off_by + by, ..now });
    }

    /// Runs faster by this many ppm, or slower, from its current value.
    ///
    /// # Panics
    /// When that exceeds the allowance.
    pub fn run_at(&self, ppm: i64) {
        assert!(ppm.abs() <= RATE_MOST, "{ppm} ppm is more than a holder allows for");
        self.turn(|_, now| Turn { ppm, ..now });
    }

    /// Stops the clock.
    pub fn stall(&self) {
        self.turn(|_, now| Turn { ppm: STALLED, is_jump: true, ..now });
    }

    /// Runs at the normal rate. If the clock jumped or stopped, it jumps to the right value; what it gained by its rate
    /// stays.
    pub fn set_right(&self) {
        self.turn(|before, now| {
            let stood_still = if before.ppm == STALLED { (now.since - before.since).cast_signed() } else { 0 };
            let by = stood_still - now.off_by;
            Turn { shown: now.shown + by, ppm: 0, is_jump: by != 0, off_by: 0, ..now }
        });
    }

    /// `change` gets the last segment, and the segment that would continue it.
    fn turn(&self, change: impl FnOnce(Turn, Turn) -> Turn) {
        let mut turns = self.turns.write().unwrap_or_else(PoisonError::into_inner);
        let since = self.clock.now();
        let Some(last) = turns.last().copied() else { return };
        turns.push(change(last, Turn { since, shown: last.at(since), is_jump: false, ..last }));
    }
}

/// How long a holder relies on a lease of this duration: a hundredth less, as in the crate `client`.
#[must_use]
pub fn counted_on(lasts_ms: u64) -> i64 {
    (micros(Duration::from_millis(lasts_ms)) / 100 * 99).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Arc<Machine> {
        Machines::new(Instant::now()).of("ada")
    }

    fn turns(machine: &Machine) -> Vec<Turn> {
        machine.turns.read().unwrap().clone()
    }

    #[test]
    fn a_rate_is_never_a_jump_and_stays_within_what_holders_leave() {
        let machine = machine();
        machine.run_at(RATE_MOST);
        let faster = turns(&machine)[1];
        assert_eq!(machine.shown_at(faster.since), faster.shown);
        assert_eq!(machine.shown_at(faster.since + 10_000_000), faster.shown + 10_045_000);
        machine.run_at(-RATE_MOST);
        let slower = turns(&machine)[2];
        assert_eq!(slower.shown, faster.at(slower.since));
        assert!(machine.was_steady(0, Micros::MAX));
        // A lease that is counted by the slowest clock ends before one that the fastest node counts.
        let (lease_ms, node_most) = (2_000, 1_000_000 + 5_000);
        let counted = counted_on(lease_ms) * 1_000_000 / (1_000_000 - RATE_MOST);
        assert!(counted < i64::try_from(lease_ms).unwrap() * 1_000 * 1_000_000 / node_most);
    }

    #[test]
    fn jumps_and_stalls_of_a_clock_are_recorded() {
        let machine = machine();
        machine.jump(-5_000);
        let jumped = turns(&machine)[1];
        assert_eq!(jumped.shown, UP_SINCE + jumped.since.cast_signed() - 5_000_000);
        assert!(!machine.was_steady(jumped.since - 1, jumped.since) && machine.was_steady(jumped.since, Micros::MAX));
        machine.stall();
        let stalled = turns(&machine)[2];
        assert_eq!(machine.shown_at(stalled.since + 9_000_000), stalled.shown);
        assert!(!machine.was_steady(stalled.since, stalled.since));
        assert!(machine.wrong_readings() > 0);
        machine.set_right();
        let right = turns(&machine)[3];
        assert_eq!((right.shown, right.ppm), (UP_SINCE + right.since.cast_signed(), 0));
        assert!(machine.was_steady(right.since, Micros::MAX));
    }
}
