//! The wall clock, for display and for dates. No lease expires by it.

use lease::numbers::Wall;
use std::sync::Arc;
use std::time::SystemTime;

/// A source of wall time: the system's clock in a daemon, any other one in a test.
pub type WallClock = Arc<dyn Fn() -> Wall + Send + Sync>;

/// The time of the system's clock.
#[must_use]
pub fn wall_now() -> Wall {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Wall(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
