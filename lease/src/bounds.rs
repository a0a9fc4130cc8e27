//! All limits of the store, each with its reason. The edge refuses what exceeds a limit with a helpful error. The core
//! refuses it again, so that a limit holds whichever node wrote the entry.
//!
//! All of them affect `apply`, so they belong to [`RULES_VERSION`]: a change of one makes a new version of the rules.

use crate::numbers::{Span, Time};

/// The version of the rules that this crate implements. It must not apply entries to a state with a higher version.
pub const RULES_VERSION: u32 = 1;
/// The version with which every state begins, whatever build creates it, because replicas of different builds apply the
/// same log.
pub const RULES_FIRST: u32 = 1;

/// Ids become parts of keys and paths: long enough for a URL-like id, short enough for a key.
pub const ITEM_ID_BYTES: usize = 128;
pub const SPACE_NAME_BYTES: usize = 64;
pub const QUEUE_NAME_BYTES: usize = 64;
/// An actor may be a DID, or a subject with its issuer as a prefix.
pub const ACTOR_ID_BYTES: usize = 256;
pub const SESSION_ID_BYTES: usize = 256;
/// A UUID with a prefix fits.
pub const REQUEST_ID_BYTES: usize = 64;
pub const LABEL_BYTES: usize = 64;
pub const PHASE_BYTES: usize = 64;
pub const TITLE_BYTES: usize = 512;
/// What a holder says it is doing, and to which part of the item.
pub const NOTE_BYTES: usize = 1024;

pub const LABELS: usize = 32;
pub const PHASES: usize = 32;
/// Rights of one caller: enough for an API key with rights to a few dozen queue prefixes.
pub const RIGHTS: usize = 64;
/// All parts of a body together: an item is a pointer to work, not the work itself.
pub const BODY_BYTES: usize = 64 * 1024;
/// Entries of one batch: what one log entry may contain without delaying others.
pub const BATCH: usize = 1_000;
pub const NEXT_COUNT: u32 = 100;
/// The longest wait line any policy may allow.
pub const LINE_MAX: u32 = 10_000;
pub const DEPENDENCIES: usize = 64;
/// Waking dependents is spread over several entries, but the list of them is kept in memory.
pub const DEPENDENTS: usize = 1_000;
/// Combinations of phase and needs of the live items in a queue, for each mode and local owner. `next` looks at each
/// combination in the modes that its caller takes, four modes at most, whether or not the caller wants it.
pub const CLASSES: usize = 1_000;
/// Leases of one session in a space, over all queues: `renew_all` renews them in one step, at less than a microsecond
/// each.
pub const LEASES_PER_SESSION: u32 = 10_000;
/// Places of one actor in a space, in all lines and with all of its sessions. A place is kept for as long as it is
/// polled, and takes about as much memory as a lease.
pub const PLACES_PER_ACTOR: u32 = 10_000;
/// Tenants. Each space is kept in memory forever, and a restore writes an event to every space in one entry.
pub const SPACES: usize = 10_000;
/// A queue is created on first use and stays in memory with its policy. Queue names that contain a date or an item's id
/// would create more and more queues.
pub const QUEUES_PER_SPACE: u64 = 10_000;
/// A worker with a new session at each start registers again each time; its previous registration leaves after a day.
pub const WORKERS_PER_SPACE: u64 = 100_000;
/// `next` walks up the parents of each candidate.
pub const ANCESTORS: usize = 32;
/// Activities kept per item; a new one overwrites the oldest.
pub const ACTIVITIES: u32 = 1_000;
pub const PRIORITY_MAX: u8 = 9;
pub const PRIORITY_DEFAULT: u8 = 5;

/// Steps of due work (deadlines, woken dependents, settled lines, rejected waiters) that one entry may perform, so that
/// 10,000 leases that expire at once delay nobody. Only the line of the last item may exceed it: a line is always
/// answered completely.
pub const STEPS_PER_ENTRY: u32 = 1_000;
/// Candidates that one `next` may examine beyond its indexes before it answers with a cursor.
pub const EXAMINED_PER_NEXT: u32 = 1_000;

/// A place in a line is kept this long after its last poll, so one lost poll of 20 s does no harm.
pub const PLACE_LIFE: Span = Span::secs(30);
/// How long a holder that was shown `cancel_requested` may take to stop its work.
pub const CANCEL_GRACE: Span = Span::secs(30);
/// How long a request id is remembered, in cluster time.
pub const REQUEST_MEMORY: Span = Span::secs(120);
/// A request that is repeated within this time of its first attempt, by the sender's clock, finds the answer of that
/// attempt. [`REQUEST_MEMORY`] is 20 s longer: clocks may differ by 1 %, which leaves 18 s for a repeat to get from the
/// sender into the log.
pub const REPEAT_WITHIN: Span = Span::secs(100);
/// The largest number of remembered requests; the oldest are dropped first. When three quarters are used, a new request
/// of an actor that has a sixty-fourth of the total or more is refused.
pub const REQUESTS_MAX: u64 = 4_000_000;
/// This many bytes of an answer count as one remembered request, so that long answers do not fill the memory.
pub const BYTES_PER_WEIGHT: u64 = 256;
/// The longest `alive_for` that a worker may register.
pub const WORKER_ALIVE_MAX: Span = Span::secs(24 * 3600);
/// A worker is quiet after its deadline, and gone this much later.
pub const WORKER_GONE_AFTER: Span = Span::secs(600);
/// A gone worker leaves the registry this much later.
pub const WORKER_FORGOTTEN_AFTER: Span = Span::secs(24 * 3600);
/// A queue that is empty and has no settings of its own is removed after this long.
pub const QUEUE_KEPT_FOR: Span = Span::secs(24 * 3600);
/// No entry carries a later time, so that deadlines can still be computed from it.
pub const TIME_MAX: Time = Time(u64::MAX / 2);
/// A longer requested duration is probably in the wrong unit.
pub const SPAN_MAX: Span = Span::secs(10 * 366 * 24 * 3600);
/// The default limits of a space: live items, which take about 640 bytes of memory each, and bytes of their bodies,
/// which are on disk.
pub const ITEMS_DEFAULT: u64 = 1_000_000;
pub const BODY_BYTES_DEFAULT: u64 = 8 * 1024 * 1024 * 1024;
/// The default limit of leases of one actor in a queue.
pub const MAX_LEASES_DEFAULT: u32 = 10_000;
/// Actors share the limits of live items, of bytes of bodies and of places in a line. One actor may always have this
/// much, however small the limit that an operator has set: see `share.rs`.
pub const ITEMS_AT_LEAST: u64 = 100;
pub const BODY_BYTES_AT_LEAST: u64 = 1024 * 1024;
pub const PLACES_AT_LEAST: u64 = 8;
/// The `retry_after` for callers that wait for something without a deadline.
pub const RETRY_HINT: Span = Span::secs(1);

/// An entry whose wall clock is this much earlier than that of an entry before it shows that the earlier one was wrong,
/// because leaders' clocks do not differ by this much.
pub const WALL_SET_BACK: Span = Span::secs(3600);

/// JSON readers keep integers exact below this.
pub const TOKEN_LIMIT: u64 = 1 << 53;
/// A restored epoch's token counter starts at (seconds since 2026-01-01) × 2^20, which leaves room for a million grants
/// a second.
pub const EPOCH_SHIFT: u32 = 20;
/// 2026-01-01T00:00:00Z in milliseconds of wall time.
pub const EPOCH_ORIGIN_MS: u64 = 1_767_225_600_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits are part of the rules: a change of one makes a new version.
    #[test]
    fn bounds_in_time_are_what_the_rules_say() {
        let spans = [PLACE_LIFE, CANCEL_GRACE, REQUEST_MEMORY, REPEAT_WITHIN, WORKER_GONE_AFTER, RETRY_HINT];
        assert_eq!(spans.map(|span| span.0), [30_000, 30_000, 120_000, 100_000, 600_000, 1_000]);
        assert_eq!((WORKER_FORGOTTEN_AFTER, QUEUE_KEPT_FOR), (Span(86_400_000), Span(86_400_000)));
        assert_eq!((SPAN_MAX, WALL_SET_BACK), (Span(316_224_000_000), Span(3_600_000)));
        assert_eq!((ITEMS_DEFAULT, BODY_BYTES_DEFAULT, MAX_LEASES_DEFAULT), (1_000_000, 8_589_934_592, 10_000));
        assert_eq!((BODY_BYTES, TOKEN_LIMIT), (65_536, 9_007_199_254_740_992));
    }
}
