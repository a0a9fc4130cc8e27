//! Limits that callers see. The limits of names, texts and lists are in [`lease::bounds`].

use std::time::Duration;

/// The longest time for which one call waits: `poll_ms` of a claim, `wait_ms` of `next` and of a read.
pub const POLL_MAX: Duration = Duration::from_secs(20);
/// The largest number of items that one `next` grants.
pub const COUNT_MAX: u32 = lease::bounds::NEXT_COUNT;
/// Default number of entries on a page.
pub const PAGE: usize = 100;
/// Maximum number of entries on a page.
pub const PAGE_MAX: usize = 1_000;
/// An event stream sends something at least this often.
pub const HEARTBEAT: Duration = Duration::from_secs(15);
