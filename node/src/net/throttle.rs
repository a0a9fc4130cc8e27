//! Limits repeated log lines: logs at intervals, with the number of occurrences.

use std::time::{Duration, Instant};

/// Time between two lines about the same thing.
const EVERY: Duration = Duration::from_secs(10);

/// One kind of line in the log.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    times: u64,
    last: Option<Instant>,
}

impl Throttle {
    /// Calls `say` with the number of occurrences since the last line, if the next line is due.
    pub(crate) fn say(&mut self, say: impl FnOnce(u64)) {
        self.say_at(Instant::now(), say);
    }

    fn say_at(&mut self, now: Instant, say: impl FnOnce(u64)) {
        self.times += 1;
        if self.last.is_none_or(|last| now.duration_since(last) >= EVERY) {
            say(self.times);
            self.times = 0;
            self.last = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_at_most_every_ten_seconds_and_counts_the_rest() {
        let mut throttle = Throttle::default();
        let mut said = Vec::new();
        let begin = Instant::now();
        for second in 0..25 {
            throttle.say_at(begin + Duration::from_secs(second), |times| said.push(times));
        }
        assert_eq!(said, [1, 10, 10]);
    }
}
