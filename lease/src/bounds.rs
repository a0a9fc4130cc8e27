//! Every bound of the store, each with its reason. The edge refuses politely what exceeds one; the core refuses it
//! again, so that a bound holds whoever wrote the entry.
//!
//! All of them steer `apply`, so they belong to [`RULES_VERSION`]: changing one is a new version of the rules.

use crate::numbers::{Span, Time};

/// The version of the rules this crate implements. A state that names a higher one must not be applied to.
pub const RULES_VERSION: u32 = 1;
/// The version that every state begins under, whatever build makes it: replicas of different builds apply one log.
pub const RULES_FIRST: u32 = 1;

/// Ids become parts of keys and paths: long enough for a URL-like id, short enough for a key.
pub const ITEM_ID_BYTES: usize = 128;
pub const SPACE_NAME_BYTES: usize = 64;
pub const QUEUE_NAME_BYTES: usize = 64;
/// An actor may be a DID or a subject with an issuer in front.
pub const ACTOR_ID_BYTES: usize = 256;
pub const SESSION_ID_BYTES: usize = 256;
/// A UUID with a prefix fits.
pub const REQUEST_ID_BYTES: usize = 64;
pub const LABEL_BYTES: usize = 64;
pub const PHASE_BYTES: usize = 64;
pub const TITLE_BYTES: usize = 512;
/// What a holder says it is doing, and to which part.
pub const NOTE_BYTES: usize = 1024;

pub const LABELS: usize = 32;
pub const PHASES: usize = 32;
/// Rights of one caller: enough for a token scoped to a few dozen queue prefixes.
pub const RIGHTS: usize = 64;
/// All parts of a body together: an item is a pointer to work, not the work.
pub const BODY_BYTES: usize = 64 * 1024;
/// Entries of one batch: what one log entry may hold without stalling others.
pub const BATCH: usize = 1_000;
pub const NEXT_COUNT: u32 = 100;
/// The longest wait line any policy may allow.
pub const LINE_MAX: u32 = 10_000;
pub const DEPENDENCIES: usize = 64;
/// Waking is spread over entries, but the list of whom to wake is kept in memory.
pub const DEPENDENTS: usize = 1_000;
/// Kinds of live items in a queue, for each mode and local owner: what callers choose as phase and needs. `next` looks
/// at each kind of the modes that its caller takes, four at most, whether or not it wants it.
pub const CLASSES: usize = 1_000;
/// Leases of one session in a space, over all queues: `renew_all` renews them in one step, at less than a microsecond
/// each.
pub const LEASES_PER_SESSION: u32 = 10_000;
/// Places of one actor in a space, in all lines and with all of its sessions. A place is kept for as long as it is
/// polled, and takes about as much memory as a lease.
pub const PLACES_PER_ACTOR: u32 = 10_000;
/// Tenants. Each is kept in memory for good, and hears of a restore in one entry.
pub const SPACES: usize = 10_000;
/// A queue springs into being on first use and stays in memory with its policy: a name with a date or an item's id in
/// it would make ever more.
pub const QUEUES_PER_SPACE: u64 = 10_000;
/// A worker that forgets its session at each start registers anew, and the one before leaves after a day.
pub const WORKERS_PER_SPACE: u64 = 100_000;
/// `next` walks up the parents of each candidate.
pub const ANCESTORS: usize = 32;
/// Kept per item, the oldest overwritten.
pub const ACTIVITIES: u32 = 1_000;
pub const PRIORITY_MAX: u8 = 9;
pub const PRIORITY_DEFAULT: u8 = 5;

/// Steps of due work (deadlines, woken dependents, settled lines, waiters sent away) that one entry may carry, so that
/// 10,000 leases that lapse at once delay nobody. Only the line of the last item may go beyond: it is answered whole.
pub const STEPS_PER_ENTRY: u32 = 1_000;
/// Candidates that one `next` may examine beyond its indexes before it answers with a cursor.
pub const EXAMINED_PER_NEXT: u32 = 1_000;

/// A place in a line lives this long past its last poll: one lost poll of 20 s is forgiven.
pub const PLACE_LIFE: Span = Span::secs(30);
/// A holder that was shown `cancel_requested` has this long to wind down.
pub const CANCEL_GRACE: Span = Span::secs(30);
/// How long a request id is remembered, in cluster time.
pub const REQUEST_MEMORY: Span = Span::secs(120);
/// A request that is repeated within this time of its first attempt, as its sender counts it, finds the answer of that
/// attempt. [`REQUEST_MEMORY`] is 20 s longer: clocks may differ by 1 %, which leaves 18 s for a repeat to wait on its
/// way from the sender into the log.
pub const REPEAT_WITHIN: Span = Span::secs(100);
/// How many are remembered at most; the oldest go first. A new request of an actor who has a sixty-fourth of it or more
/// is refused in the last quarter.
pub const REQUESTS_MAX: u64 = 4_000_000;
/// An answer of so many bytes counts as one remembered request, so that long answers do not fill the memory.
pub const BYTES_PER_WEIGHT: u64 = 256;
/// A worker that is to be believed alive for longer than this without a word is no worker.
pub const WORKER_ALIVE_MAX: Span = Span::secs(24 * 3600);
/// A worker past its deadline is quiet; this much later it is gone.
pub const WORKER_GONE_AFTER: Span = Span::secs(600);
/// And this much later it leaves the registry.
pub const WORKER_FORGOTTEN_AFTER: Span = Span::secs(24 * 3600);
/// A queue that is empty and on which nobody has set anything goes away after this long.
pub const QUEUE_KEPT_FOR: Span = Span::secs(24 * 3600);
/// No entry carries a later time: deadlines can still be reckoned from it.
pub const TIME_MAX: Time = Time(u64::MAX / 2);
/// Asked-for durations above this are a mistake of units, not a wish.
pub const SPAN_MAX: Span = Span::secs(10 * 366 * 24 * 3600);
/// What a space may hold if no operator says otherwise: live items, which take about 640 bytes of memory each, and
/// bytes of their bodies, which are on disk.
pub const ITEMS_DEFAULT: u64 = 1_000_000;
pub const BODY_BYTES_DEFAULT: u64 = 8 * 1024 * 1024 * 1024;
/// Leases of one actor in a queue, if no operator says otherwise.
pub const MAX_LEASES_DEFAULT: u32 = 10_000;
/// Of the live items, the bytes of bodies and the places in a line that actors share, what one may have however small
/// the bound is that an operator has set: see `share.rs`.
pub const ITEMS_AT_LEAST: u64 = 100;
pub const BODY_BYTES_AT_LEAST: u64 = 1024 * 1024;
pub const PLACES_AT_LEAST: u64 = 8;
/// Offered to callers who wait for something that has no deadline of its own.
pub const RETRY_HINT: Span = Span::secs(1);

/// An entry whose wall clock is this much earlier than that of an entry before it shows that the earlier one was wrong:
/// leaders' clocks do not differ by so much.
pub const WALL_SET_BACK: Span = Span::secs(3600);

/// JSON readers keep integers exact below this.
pub const TOKEN_LIMIT: u64 = 1 << 53;
/// A restored epoch's counter starts at (seconds since 2026-01-01) × 2^20: a million grants a second fit between.
pub const EPOCH_SHIFT: u32 = 20;
/// 2026-01-01T00:00:00Z in milliseconds of wall time.
pub const EPOCH_ORIGIN_MS: u64 = 1_767_225_600_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// They are part of the rules: who changes one makes a new version.
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
