//! Takes snapshots and purges the log by bytes and by entries: decision 0022. Openraft itself only counts entries, and
//! is configured not to purge.
//!
//! After each snapshot a node keeps as many of the newest entries as its limits allow. A leader keeps more for a member
//! that lacks some, up to a limit; beyond it that member gets a snapshot. While disk space is low, less is kept.

use crate::observe::scrape::bytes_in;
use crate::peers::tokio_node::TokioNode;
use crate::replica::disk_space::DiskSpace;
use crate::replica::node::RaftSettings;
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::log::LogMonitor;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// For a member that lacks entries, a leader keeps this many times as much.
const KEPT_FOR_OTHERS: u64 = 4;
/// A purge must gain at least the kept bytes divided by this, except after a snapshot: each purge leaves a tombstone
/// that slows down reads.
const PURGE_PARTS: u64 = 8;
/// The files of the log may take twice the size of its entries, plus this.
const SLACK_BYTES: u64 = 256 * 1024 * 1024;
const SLACK_BYTES_LOW: u64 = 8 * 1024 * 1024;
/// Time between two rewrites of the log's files.
const RECLAIM_EVERY: Duration = Duration::from_secs(10);
/// While disk space is low, snapshots are taken after the usual bytes divided by this, and at least this often: an old
/// snapshot holds files that the state has rewritten.
const SNAPSHOT_PARTS_LOW: u64 = 16;
const SNAPSHOT_EVERY_LOW: Duration = Duration::from_secs(60);

/// The current indexes; 0 for one that does not exist yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LogIndexes {
    snapshot: u64,
    applied: u64,
    purged: u64,
    /// The last entry that every member has; only a leader knows it.
    behind: Option<u64>,
}

impl LogIndexes {
    fn of(node: &TokioNode) -> Self {
        let metrics = node.raft().metrics();
        let metrics = metrics.borrow_watched();
        let matched =
            metrics.replication.iter().flatten().map(|(_, matched)| matched.as_ref().map_or(0, |id| id.index));
        Self {
            snapshot: metrics.snapshot.map_or(0, |id| id.index),
            applied: metrics.last_applied.map_or(0, |id| id.index),
            purged: metrics.purged.map_or(0, |id| id.index),
            behind: matched.min(),
        }
    }
}

/// Runs until the node stops.
pub(crate) async fn run(node: TokioNode, log: LogMonitor, settings: RaftSettings, folder: PathBuf) {
    let disk: DiskSpace = node.disk_space().clone();
    let (mut purged_at, mut reclaimed, mut taken) = (0, Instant::now(), Instant::now());
    loop {
        sleep(LOOK_EVERY).await;
        let (seen, is_low) = (LogIndexes::of(&node), disk.is_low());
        let snapshot_after =
            if is_low { settings.snapshot_bytes / SNAPSHOT_PARTS_LOW } else { settings.snapshot_bytes };
        let since = log.bytes_of(seen.snapshot + 1..seen.applied + 1);
        let is_old = is_low && since > 0 && taken.elapsed() > SNAPSHOT_EVERY_LOW;
        if since > snapshot_after || is_old {
            taken = Instant::now();
            if node.raft().trigger().snapshot().await.is_err() {
                return;
            }
        }
        let Purge { upto, at_least } = Purge::of(&seen, &settings, is_low, |bytes| log.first_kept(bytes));
        let gain = log.bytes_of(seen.purged..upto.saturating_add(1));
        let is_due = is_low || seen.snapshot > purged_at || gain > settings.bytes_kept / PURGE_PARTS;
        if upto > seen.purged && gain > 0 && is_due {
            // Openraft does not purge entries that it is sending to a member. A slow member must not prevent the purge.
            node.calls().cut_off_upto(at_least);
            if node.raft().trigger().purge_log(upto).await.is_err() {
                return;
            }
        }
        purged_at = seen.snapshot;
        if reclaimed.elapsed() > RECLAIM_EVERY {
            reclaimed = Instant::now();
            let (log, folder) = (log.clone(), folder.clone());
            let reclaiming = move || {
                let (held, used) = (log.bytes_of(0..u64::MAX), bytes_in(&folder));
                let allowed = if is_low { held + SLACK_BYTES_LOW } else { held * 2 + SLACK_BYTES };
                if used > allowed { log.reclaim() } else { Ok(()) }
            };
            if let Ok(Err(error)) = tokio::task::spawn_blocking(reclaiming).await {
                tracing::warn!(%error, "could not reclaim the space of purged entries; retrying later");
            }
        }
    }
}

/// The last entries to purge.
struct Purge {
    upto: u64,
    /// Purged even if a member lacks them.
    at_least: u64,
}

impl Purge {
    /// `first_kept` returns the first entry to keep for a number of kept bytes.
    fn of(seen: &LogIndexes, settings: &RaftSettings, is_low: bool, first_kept: impl Fn(u64) -> u64) -> Self {
        let kept = settings.bytes_kept;
        let (wanted, most) = if is_low { (0, kept) } else { (kept, kept.saturating_mul(KEPT_FOR_OTHERS)) };
        let last_gone = |bytes: u64| first_kept(bytes).saturating_sub(1).min(seen.snapshot);
        let at_least = last_gone(most);
        let by_bytes = at_least.max(last_gone(wanted).min(seen.behind.unwrap_or(u64::MAX)));
        let by_entries = seen.snapshot.saturating_sub(settings.entries_kept);
        Self { upto: by_bytes.max(by_entries), at_least }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries 1 to 1,000 of ten bytes each, with a snapshot at 900.
    fn upto(bytes_kept: u64, entries_kept: u64, behind: Option<u64>, is_low: bool) -> u64 {
        let settings = RaftSettings { bytes_kept, entries_kept, ..RaftSettings::default() };
        let seen = LogIndexes { snapshot: 900, applied: 1_000, purged: 0, behind };
        Purge::of(&seen, &settings, is_low, |bytes| 1_001_u64.saturating_sub(bytes / 10)).upto
    }

    #[test]
    fn the_log_is_purged_by_bytes_and_by_entries_and_never_beyond_a_snapshot() {
        assert_eq!(upto(5_000, 1_000, None, false), 500);
        assert_eq!(upto(100_000, 300, None, false), 600);
        assert_eq!(upto(100_000, 100_000, None, false), 0);
        assert_eq!(upto(0, 0, None, false), 900);
    }

    #[test]
    fn more_is_kept_for_a_member_that_lacks_it_up_to_a_limit() {
        assert_eq!(upto(1_000, 100_000, Some(1_000), false), 900);
        assert_eq!(upto(1_000, 100_000, Some(750), false), 750);
        assert_eq!(upto(1_000, 100_000, Some(10), false), 600);
        assert_eq!(upto(1_000, 100, Some(10), false), 800);
    }

    #[test]
    fn while_disk_space_is_low_nothing_is_kept_but_some_for_members_that_lack_it() {
        assert_eq!(upto(100_000, 100_000, Some(950), true), 900);
        assert_eq!(upto(3_000, 100_000, Some(800), true), 800);
        assert_eq!(upto(3_000, 100_000, Some(10), true), 700);
    }
}
