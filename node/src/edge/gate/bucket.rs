//! A rate-limit bucket: how much may still be used at once. It fills as time passes.

use super::Class;
use std::time::Duration;

/// A byte bucket holds the bytes of this many seconds: one of the largest batches at the default rate.
const BYTES_BURST_SECS: f64 = 0.25;

#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    /// Per second.
    pub(super) rate: f64,
    /// Level of a full bucket.
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

    /// The level below which a class may not take, so that the classes before it have some left.
    #[allow(clippy::cast_precision_loss, reason = "a part of a hundred")]
    fn kept_from(self, class: Class) -> f64 {
        self.burst * (100 - class.part()) as f64 / 100.0
    }

    /// Cuts an amount to the bucket's size: a larger one would never be admitted.
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

    /// How long until this much can be taken. None: it can be taken now.
    pub(super) fn wait(&mut self, fill: Fill, class: Class, wanted: f64, now: Duration) -> Option<Duration> {
        self.fill(fill, now);
        let missing = fill.kept_from(class) + fill.cut(class, wanted) - self.level;
        (missing > 0.0).then(|| Duration::try_from_secs_f64(missing / fill.rate).unwrap_or(Duration::MAX))
    }

    /// Takes an amount, also more than the level: a level may go down to minus what flows in during a second.
    pub(super) fn take(&mut self, fill: Fill, wanted: f64) {
        self.level = (self.level - wanted).max(-fill.rate.max(fill.burst));
    }

    /// How long until the level is no longer negative. None: it is not negative.
    pub(super) fn overdrawn_for(&mut self, fill: Fill, now: Duration) -> Option<Duration> {
        self.fill(fill, now);
        (self.level < 0.0).then(|| Duration::try_from_secs_f64(-self.level / fill.rate).unwrap_or(Duration::MAX))
    }

    /// Takes what was already used, down to a level of minus `debt_max`.
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
