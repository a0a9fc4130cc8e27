//! The clock that measures leases: it continues while the machine sleeps, and it cannot be set.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A time since this machine started. It has no meaning on another machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Duration);

impl Moment {
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// The time from `self` until `later`; zero if `later` has passed.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        later.0.saturating_sub(self.0)
    }
}

/// A source of moments.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Moment + Send + Sync>);

impl Clock {
    /// A custom clock, for example one that a test controls.
    pub fn new(now: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    #[must_use]
    pub fn now(&self) -> Moment {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(since_boot)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock at {:?}", self.now())
    }
}

fn since_boot() -> Moment {
    use rustix::time::{ClockId, clock_gettime};
    // Other systems have no such clock: their monotonic clock counts sleep itself.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Moment(Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_only_moves_forward() {
        let clock = Clock::default();
        let first = clock.now();
        assert!(first > Moment::default());
        assert!(clock.now() >= first);
        assert_eq!(first.after(Duration::from_secs(1)).until(first), Duration::ZERO);
    }
}
