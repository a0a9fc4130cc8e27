//! I27. A follower forwards a call to the leader once. If the answers to many calls do not fit into one frame, none of
//! them is lost and forwarded again. Checked while no fault is active and the leader stays.

use super::facts::Facts;
use super::slack::Slack;
use super::verdict::{Verdict, seconds};
use crate::history::Micros;

const CALM_AFTER: Micros = 5_000_000;
/// The percentage of calls that may be forwarded a second time.
const TWICE: u64 = 20;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let slack = Slack::new(facts.history);
    for burst in &facts.history.bursts {
        let from = burst.began.saturating_sub(CALM_AFTER);
        if !slack.is_calm(from, burst.ended) || slack.changes_within(from, burst.ended) > 0 {
            continue;
        }
        verdict.fact();
        if burst.forwarded * 100 > burst.calls * (100 + TWICE) {
            let what = format!(
                "{} calls that were made at once at {} were forwarded to the leader {} times, until {}",
                burst.calls,
                seconds(burst.began),
                burst.forwarded,
                seconds(burst.ended),
            );
            verdict.violate(burst.ended, what, &[]);
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of};

    #[test]
    fn calls_that_are_forwarded_once_are_accepted() {
        let story = "burst 10s..11s calls=24 forwarded=25\nfault pause 20s..21s\nburst 22s..23s calls=24 forwarded=99";
        assert_eq!(facts_of("I27", story), 1);
    }

    #[test]
    fn calls_that_are_forwarded_repeatedly_are_found() {
        broken(&["I27"], "burst 10s..11s calls=24 forwarded=72");
    }
}
