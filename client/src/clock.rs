//! The clock that leases are counted on: it goes on while the machine sleeps, and nobody sets it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A moment of this machine since it was started. Means nothing on another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Duration);

impl Moment {
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// How long from `self` until `later`; zero when that has passed.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        later.0.saturating_sub(self.0)
    }
}

/// Where moments come from.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Moment + Send + Sync>);

impl Clock {
    /// A clock of one's own, say one that a test moves.
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
    // Where the monotonic clock counts sleep itself, there is no other.
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
    fn the_clock_goes_on_and_never_back() {
        let clock = Clock::default();
        let first = clock.now();
        assert!(first > Moment::default());
        assert!(clock.now() >= first);
        assert_eq!(first.after(Duration::from_secs(1)).until(first), Duration::ZERO);
    }
}
