//! The age of a repeated request, which decides whether the cluster may have forgotten its first outcome.

use lease::Attempt;
use lease::numbers::Span;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// A request that was sent before and not answered. Its age is measured with a clock that also runs while the machine
/// is suspended, because the cluster forgets requests meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Repeat {
    /// Age at the time `seen`.
    age: Duration,
    seen: Duration,
}

impl Repeat {
    /// First sent this long ago.
    pub(crate) fn after(age: Duration) -> Self {
        Self { age, seen: since_boot() }
    }

    /// The kind of attempt, if it is made now.
    #[must_use]
    pub fn attempt(self) -> Attempt {
        let age = self.age.saturating_add(since_boot().saturating_sub(self.seen));
        Attempt::repeat_after(Span(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)))
    }
}

fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let now = clock_gettime(clock);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::call::REPEAT_TAKEN_WITHIN;
    use crate::peers::connection::{CONNECT_LIMIT, TAKEN_WITHIN};
    use crate::replica::peer_calls::FORWARDED_WITHIN;
    use lease::bounds::{REPEAT_WITHIN, REQUEST_MEMORY};

    #[test]
    fn the_age_of_a_repeat_grows_while_the_node_holds_it() {
        assert_eq!(Repeat::after(Duration::ZERO).attempt(), Attempt::Repeat);
        assert_eq!(Repeat::after(Duration::from_millis(REPEAT_WITHIN.0)).attempt(), Attempt::LateRepeat);
        assert_eq!(Repeat::after(Duration::MAX).attempt(), Attempt::LateRepeat);
        let now = since_boot();
        let waited = |span: Duration| Repeat { age: Duration::from_secs(90), seen: now.saturating_sub(span) };
        assert_eq!(waited(Duration::from_secs(5)).attempt(), Attempt::Repeat);
        assert_eq!(waited(Duration::from_secs(10)).attempt(), Attempt::LateRepeat);
    }

    /// An early repeat must be in the log before the answer to its first attempt is forgotten.
    #[test]
    fn an_early_repeat_reaches_the_log_before_its_request_is_forgotten() {
        let memory = Duration::from_millis(REQUEST_MEMORY.0).mul_f64(0.99);
        let on_nodes = REPEAT_TAKEN_WITHIN + CONNECT_LIMIT + TAKEN_WITHIN + FORWARDED_WITHIN;
        let late = Duration::from_millis(REPEAT_WITHIN.0) + on_nodes;
        let for_networks = memory.checked_sub(late).unwrap_or_default();
        assert!(for_networks >= Duration::from_secs(4), "{for_networks:?}");
    }
}
