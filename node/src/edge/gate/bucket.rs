//! How much may still be asked at once. It fills up as time passes.

use super::Class;
use std::time::Duration;

/// A bucket of bytes holds what may be written in this many seconds.
const BYTES_BURST_SECS: f64 = 4.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    /// A second.
    pub(super) rate: f64,
    /// When it is full.
    pub(super) burst: f64,
}

impl Fill {
    #[allow(clippy::cast_precision_loss, reason = "a rate of bytes is far below 2^52")]
    pub(super) fn of_bytes(rate: u64) -> Self {
        let rate = rate.max(1) as f64;
        Self { rate, burst: rate * BYTES_BURST_SECS }
    }

    pub(super) fn times(self, share: f64) -> Self {
        Self { rate: self.rate * share, burst: self.burst * share }
    }

    /// A class takes no more than leaves the ones before it their part.
    #[allow(clippy::cast_precision_loss, reason = "a part of a hundred")]
    fn kept_from(self, class: Class) -> f64 {
        self.burst * (100 - class.part()) as f64 / 100.0
    }

    /// Else what is larger than the whole bucket would never be let in.
    fn cut(self, class: Class, wanted: f64) -> f64 {
        wanted.min(self.burst - self.kept_from(class))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Bucket {
    level: f64,
    filled_at: Duration,
}

impl Bucket {
    pub(super) fn full(fill: Fill, now: Duration) -> Self {
        Self { level: fill.burst, filled_at: now }
    }

    /// How long until so much could be taken; none: it can be now.
    pub(super) fn wait(&mut self, fill: Fill, class: Class, wanted: f64, now: Duration) -> Option<Duration> {
        self.fill(fill, now);
        let missing = fill.kept_from(class) + fill.cut(class, wanted) - self.level;
        (missing > 0.0).then(|| Duration::try_from_secs_f64(missing / fill.rate).unwrap_or(Duration::MAX))
    }

    /// Also more than there is, down to as much below nothing as it holds.
    pub(super) fn take(&mut self, fill: Fill, class: Class, wanted: f64) {
        self.level = (self.level - fill.cut(class, wanted)).max(-fill.burst);
    }

    /// How long until it is no longer overdrawn; none: it is not.
    pub(super) fn overdrawn_for(&mut self, fill: Fill, now: Duration) -> Option<Duration> {
        self.fill(fill, now);
        (self.level < 0.0).then(|| Duration::try_from_secs_f64(-self.level / fill.rate).unwrap_or(Duration::MAX))
    }

    /// Takes what was used already, down to as much below nothing as `debt_max`.
    pub(super) fn owe(&mut self, used: f64, fill: Fill, debt_max: f64, now: Duration) {
        self.fill(fill, now);
        self.level = (self.level - used).max(-debt_max);
    }

    fn fill(&mut self, fill: Fill, now: Duration) {
        let passed = now.saturating_sub(self.filled_at).as_secs_f64();
        self.level = fill.burst.min(self.level + fill.rate * passed);
        self.filled_at = now;
    }
}
