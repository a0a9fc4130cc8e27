//! Detects when callers that use little of this node (light callers) wait longer than usual, and throttles heavy
//! callers meanwhile.
//!
//! The rates of an actor are ceilings, far above what a busy node can do for several actors at once. While light
//! callers wait, all ceilings are lowered together, by half or more in each window, until light callers are answered as
//! usual. The ceilings always stay above what most actors use: if all actors use the node alike, nothing changes.

use super::bucket::{Bucket, Fill};
use super::{Shed, shed};
use std::mem::replace;
use std::time::Duration;

/// The latency of light callers is judged after `WINDOW` if at least `WINDOW_CALLS_MIN` were answered, otherwise after
/// `WINDOW_LONG`.
const WINDOW: Duration = Duration::from_millis(250);
const WINDOW_CALLS_MIN: u32 = 8;
const WINDOW_LONG: Duration = Duration::from_secs(1);
/// Light callers count as waiting when their mean latency is above this many times the latency of the best recent
/// window ...
const SLOW_TIMES: u32 = 2;
/// ... and above this: a node that answers them this fast is not busy.
const SLOW_MIN: Duration = Duration::from_millis(5);
/// The best window is taken from this epoch and the one before.
const EPOCH: Duration = Duration::from_secs(300);
/// Factors for the ceilings after a window in which light callers waited, by how much longer than acceptable, and after
/// one in which they did not wait.
const CUT: f64 = 0.5;
const CUT_MOST: f64 = 1.0 / 16.0;
const GROWTH: f64 = 1.015;
/// The growth near the share at which light callers last began to wait: from a quarter of it to twice as much.
const GROWTH_NEAR: f64 = 1.002;
/// Minimum of the share.
const SHARE_MIN: f64 = 1.0 / 256.0;
/// How often the use of actors is evaluated.
const USE_WINDOW: Duration = Duration::from_secs(1);
/// Maximum number of actors that are evaluated.
const ACTIVE_MAX: usize = 1_024;
/// An actor is light up to this many times the use of the lower quartile of all actors ...
const LIGHT_TIMES: f64 = 4.0;
/// ... and in any case up to this many commands per second.
const LIGHT_MIN: f64 = 20.0;

pub(super) struct Pressure {
    /// The part of the ceilings that actors may use.
    share: f64,
    /// When the share was last cut. Calls that began before wait for the load of before.
    cut_at: Option<Duration>,
    /// Light callers waited in the last window.
    was_slow: bool,
    /// The share at which light callers last began to wait.
    too_much: f64,
    /// The ceiling of an actor, in commands.
    ceiling: Fill,
    waits: Waits,
    /// Number of the current use window.
    window: u64,
    window_began: Duration,
    active: Vec<u64>,
    /// Commands per second up to which an actor is light.
    light_max: f64,
}

/// The use of one actor in this window and the one before, in commands per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    window: u64,
    now: f64,
    before: f64,
}

impl Used {
    fn most(self, window: u64) -> f64 {
        match window - self.window {
            0 => self.now.max(self.before),
            1 => self.now,
            _ => 0.0,
        }
    }
}

impl Pressure {
    pub(super) fn new(ceiling: Fill, now: Duration) -> Self {
        Self {
            share: 1.0,
            cut_at: None,
            was_slow: false,
            too_much: f64::INFINITY,
            ceiling,
            waits: Waits::new(now),
            window: 1,
            window_began: now,
            active: Vec::new(),
            light_max: f64::INFINITY,
        }
    }

    /// Whether any actor may be throttled.
    pub(super) fn is_on(&self) -> bool {
        self.share < 1.0
    }

    pub(super) fn thousandths(&self) -> u64 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1,000")]
        let share = (self.share * 1_000.0) as u64;
        share
    }

    /// The rejection of an actor that has overdrawn its share. None: it may continue.
    pub(super) fn holds_back(&self, effort: &mut Bucket, now: Duration) -> Option<Shed> {
        if !self.is_on() {
            return None;
        }
        let wait = effort.overdrawn_for(self.ceiling.times(self.share), now)?;
        Some(shed("actor_share", true, wait))
    }

    /// Whether the latency of this actor's calls counts as that of a light caller.
    pub(super) fn is_light(&self, used: Used) -> bool {
        used.most(self.window) <= self.light_max
    }

    /// Charges an actor for the equivalent of this many commands.
    pub(super) fn note_use(&mut self, actor: u64, used: &mut Used, effort: &mut Bucket, commands: f64, now: Duration) {
        if used.window != self.window {
            let before = if self.window - used.window == 1 { used.now } else { 0.0 };
            *used = Used { window: self.window, now: 0.0, before };
            if self.active.len() < ACTIVE_MAX {
                self.active.push(actor);
            }
        }
        used.now += commands;
        // The debt is limited by the ceiling, not by the share of it, so that a burst is paid for.
        effort.owe(commands, self.ceiling.times(self.share), self.ceiling.burst, now);
    }

    /// Notes the latency of a light caller.
    pub(super) fn note_answer(&mut self, began: Duration, now: Duration) {
        if self.cut_at.is_none_or(|cut_at| began >= cut_at) {
            self.waits.note(now.saturating_sub(began));
        }
    }

    /// Adjusts the share. `used` returns the use of an actor, if it is still tracked.
    pub(super) fn adapt(&mut self, now: Duration, used: impl Fn(u64) -> Option<Used>) {
        if now.saturating_sub(self.window_began) >= USE_WINDOW {
            self.look_at_use(now, used);
        }
        let Some(verdict) = self.waits.judge(now) else { return };
        let floor = SHARE_MIN.max((self.light_max / self.ceiling.rate).min(1.0));
        let factor = match verdict {
            Verdict::NoAnswers => self.growth(),
            Verdict::Fine => {
                self.was_slow = false;
                self.growth()
            }
            Verdict::Slow(times) => {
                self.cut_at = Some(now);
                if replace(&mut self.was_slow, true) {
                    (CUT / times).max(CUT_MOST)
                } else {
                    // It may be a single stall.
                    self.too_much = self.share;
                    CUT
                }
            }
        };
        self.share = (self.share * factor).clamp(floor, 1.0);
    }

    fn growth(&self) -> f64 {
        let is_near = self.share > self.too_much / 4.0 && self.share < self.too_much * 2.0;
        if is_near { GROWTH_NEAR } else { GROWTH }
    }

    fn look_at_use(&mut self, now: Duration, used: impl Fn(u64) -> Option<Used>) {
        let seconds = now.saturating_sub(self.window_began).as_secs_f64();
        let mut all: Vec<f64> = self.active.drain(..).filter_map(used).map(|used| used.now / seconds).collect();
        if !all.is_empty() {
            let nth = all.len() / 4;
            let (_, quarter, _) = all.select_nth_unstable_by(nth, f64::total_cmp);
            self.light_max = (*quarter * LIGHT_TIMES).max(LIGHT_MIN);
        }
        self.window += 1;
        self.window_began = now;
    }
}

/// How light callers were answered in a window.
enum Verdict {
    NoAnswers,
    Fine,
    /// They waited this many times as long as acceptable.
    Slow(f64),
}

/// The latency of light callers, now and at best.
struct Waits {
    began: Duration,
    calls: u32,
    took: Duration,
    best: [Duration; 2],
    epoch_began: Duration,
}

impl Waits {
    fn new(now: Duration) -> Self {
        Self { began: now, calls: 0, took: Duration::ZERO, best: [Duration::MAX; 2], epoch_began: now }
    }

    fn note(&mut self, took: Duration) {
        self.calls = self.calls.saturating_add(1);
        self.took = self.took.saturating_add(took);
    }

    /// At the end of a window: whether light callers waited.
    fn judge(&mut self, now: Duration) -> Option<Verdict> {
        let passed = now.saturating_sub(self.began);
        if passed < WINDOW || (self.calls < WINDOW_CALLS_MIN && passed < WINDOW_LONG) {
            return None;
        }
        let mean = (self.calls > 0).then(|| self.took / self.calls);
        (self.began, self.calls, self.took) = (now, 0, Duration::ZERO);
        let Some(mean) = mean else { return Some(Verdict::NoAnswers) };
        if now.saturating_sub(self.epoch_began) >= EPOCH {
            self.best = [self.best[1], Duration::MAX];
            self.epoch_began = now;
        }
        let best = self.best[0].min(self.best[1]);
        self.best[1] = self.best[1].min(mean);
        let acceptable = SLOW_MIN.max(best.saturating_mul(SLOW_TIMES));
        if mean <= acceptable {
            return Some(Verdict::Fine);
        }
        Some(Verdict::Slow(mean.as_secs_f64() / acceptable.as_secs_f64()))
    }
}
