//! Lock-free histograms with fixed buckets. How metrics show them is decided elsewhere.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bounds in nanoseconds, from the sync of a fast disk to longer than any caller waits.
pub const LATENCY_NANOS: &[u64] = &[
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
    10_000_000_000,
];
/// Bounds for numbers of items that were handled together.
pub const SIZES: &[u64] = &[1, 4, 16, 64, 256, 1_024];

#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One counter for each bound, and one for values above all bounds.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// The counted values. Not an atomic snapshot: a value that is counted meanwhile may be in the counts but not in the
/// sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Increasing. A bucket counts values above the bound before it and up to its own bound.
    pub bounds: &'static [u64],
    /// One more than there are bounds.
    pub counts: Vec<u64>,
    pub sum: u64,
}

impl Histogram {
    /// `bounds` must be increasing.
    #[must_use]
    pub fn new(bounds: &'static [u64]) -> Self {
        Self { bounds, counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }

    pub fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Counts a duration in nanoseconds.
    pub fn observe_time(&self, took: Duration) {
        self.observe(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    #[must_use]
    pub fn read(&self) -> Counted {
        Counted {
            bounds: self.bounds,
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_counted_in_the_first_bucket_that_holds_it() {
        let sizes = Histogram::new(&[1, 4, 16]);
        for value in [0, 1, 2, 4, 5, 16, 17, 1_000] {
            sizes.observe(value);
        }
        assert_eq!(sizes.read(), Counted { bounds: &[1, 4, 16], counts: vec![2, 2, 2, 2], sum: 1_045 });
    }

    #[test]
    fn bounds_increase_and_a_time_is_counted_in_nanoseconds() {
        assert!(LATENCY_NANOS.is_sorted_by(|one, next| one < next) && SIZES.is_sorted_by(|one, next| one < next));
        let latency = Histogram::new(LATENCY_NANOS);
        latency.observe_time(Duration::from_millis(3));
        let read = latency.read();
        assert_eq!((read.counts[3], read.counts.iter().sum::<u64>(), read.sum), (1, 1, 3_000_000));
    }
}
