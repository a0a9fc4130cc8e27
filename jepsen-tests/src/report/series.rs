//! Divides the run into equal parts of time, with the number of operations by outcome and the latency of successful
//! ones.

use crate::history::{Asked, History, Micros, Outcome};

/// The maximum number of parts.
const PARTS: u64 = 360;

/// How an operation ended.
pub const OUTCOMES: [&str; 4] = ["ok", "refused", "unavailable", "unknown"];

#[derive(Debug, Default)]
pub struct Series {
    /// The time of the last operation, fault or leader change.
    pub end: Micros,
    /// The length of a part.
    pub part: Micros,
    /// Operations that ended in each part, by outcome.
    pub counts: Vec<[u64; 4]>,
    /// The p50 and p99 latency in milliseconds of the operations that succeeded in each part; `None` if none succeeded.
    pub latency: Vec<Option<[f64; 2]>>,
    pub totals: [u64; 4],
}

impl Series {
    #[must_use]
    pub fn new(history: &History) -> Self {
        let ended = |op: &crate::history::Operation| op.completed.unwrap_or(op.invoked);
        let end = history.operations.iter().map(ended).max().unwrap_or(0);
        let end = end.max(history.leaders.iter().map(|leader| leader.at).max().unwrap_or(0));
        let end = end.max(history.faults.iter().filter_map(|fault| fault.ended).max().unwrap_or(0)).max(1_000_000);
        let part = (end / PARTS).max(1_000_000).next_multiple_of(1_000_000);
        let parts = usize::try_from(end / part).unwrap_or(0) + 1;
        let mut series = Self { end, part, counts: vec![[0; 4]; parts], latency: vec![None; parts], totals: [0; 4] };
        let mut took: Vec<Vec<u32>> = vec![Vec::new(); parts];
        for op in &history.operations {
            let at = usize::try_from(ended(op) / part).unwrap_or(0).min(parts - 1);
            let outcome = match op.outcome {
                Outcome::Ok(_) => 0,
                Outcome::Refused { .. } => 1,
                Outcome::Unavailable => 2,
                Outcome::Unknown => 3,
            };
            series.counts[at][outcome] += 1;
            series.totals[outcome] += 1;
            // A claim that waits is answered when its turn comes, and the guarded resource is not a node.
            let is_asked =
                !matches!(op.asked, Asked::Claim { waits: true, .. } | Asked::Write { .. } | Asked::Change { .. });
            if let (0, true, Some(completed)) = (outcome, is_asked, op.completed) {
                took[at].push(u32::try_from(completed.saturating_sub(op.invoked)).unwrap_or(u32::MAX));
            }
        }
        for (latency, took) in series.latency.iter_mut().zip(&mut took) {
            took.sort_unstable();
            let last = took.len().saturating_sub(1);
            let millis = |percent: usize| took.get(last * percent / 100).map(|micros| f64::from(*micros) / 1_000.0);
            *latency = millis(50).zip(millis(99)).map(|(half, most)| [half, most]);
        }
        series
    }

    #[must_use]
    pub fn all(&self) -> u64 {
        self.totals.iter().sum()
    }
}
