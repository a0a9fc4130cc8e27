//! Old events leave this node's disk. Each node drops its own: nothing that is applied reads them.

use crate::service::TokioNode;
use lease::numbers::{SpaceNo, Wall};
use std::io;
use std::time::Duration;
use tokio::time::sleep;

const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Events looked at in one step: some milliseconds of disk.
const STEP: usize = 10_000;
/// Ages are counted in whole ones of these, so that a busy space leaves one deletion in an hour, not one in a minute: many
/// of them make reading slow.
const GRAIN: Duration = Duration::from_secs(60 * 60);

/// Drops events that are older than this, for ever.
pub(crate) async fn run(node: TokioNode, kept_for: Duration) {
    loop {
        if let Err(error) = drop_old(&node, kept_for).await {
            tracing::warn!(%error, "old events could not be dropped; trying again later");
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn drop_old(node: &TokioNode, kept_for: Duration) -> io::Result<()> {
    let (spaces, newest) = node.store().read(|state, _| (state.spaces().len(), state.newest_wall()))?;
    let Some(before) = cutoff(crate::daemon::wall_now().min(newest), kept_for) else { return Ok(()) };
    for space in 0..u32::try_from(spaces).unwrap_or(u32::MAX) {
        let mut is_more = true;
        while is_more {
            let store = node.store().clone();
            let step = move || store.drop_events_before(SpaceNo(space), before, STEP);
            is_more = tokio::task::spawn_blocking(step).await.map_err(io::Error::other)??;
        }
    }
    Ok(())
}

/// Events from before this are old. `now` is the earlier of this node's clock and what the cluster's entries say: one
/// clock that is ahead must not cost anyone the events.
fn cutoff(now: Wall, kept_for: Duration) -> Option<Wall> {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let cutoff = now.0.checked_sub(millis(kept_for))?;
    Some(Wall(cutoff - cutoff % millis(GRAIN.min(kept_for)).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 60 * 60 * 1_000;

    #[test]
    fn events_are_kept_at_least_as_long_as_said_and_at_most_an_hour_longer() {
        let day = Duration::from_secs(24 * 60 * 60);
        assert_eq!(cutoff(Wall(100 * HOUR), day), Some(Wall(76 * HOUR)));
        assert_eq!(cutoff(Wall(101 * HOUR - 1), day), Some(Wall(76 * HOUR)));
        assert_eq!(cutoff(Wall(101 * HOUR), day), Some(Wall(77 * HOUR)));
        assert_eq!(cutoff(Wall(23 * HOUR), day), None);
    }
}
