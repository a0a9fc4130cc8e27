//! Deletes old events from this node's disk. Each node deletes its own: apply never reads them.

use crate::peers::tokio_node::TokioNode;
use lease::numbers::{SpaceNo, Wall};
use std::io;
use std::time::Duration;
use tokio::time::sleep;

const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Events that one step reads: some milliseconds of disk time.
const STEP: usize = 10_000;
/// Cutoffs are rounded down to this, so that a busy space gets one range deletion per hour instead of one per minute:
/// many of them make reads slow.
const GRAIN: Duration = Duration::from_secs(60 * 60);

/// Deletes events that are older than this, for ever.
pub(crate) async fn run(node: TokioNode, kept_for: Duration) {
    loop {
        if let Err(error) = drop_old(&node, kept_for).await {
            tracing::warn!(%error, "could not delete old events; retrying later");
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn drop_old(node: &TokioNode, kept_for: Duration) -> io::Result<()> {
    let (spaces, newest) = node.store().read(|state, _| (state.spaces().len(), state.newest_wall()))?;
    let Some(before) = cutoff(crate::replica::wall::wall_now().min(newest), kept_for) else { return Ok(()) };
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

/// The time before which events are old. `now` is the earlier of this node's clock and the newest time in the cluster's
/// entries, so that one clock that is ahead does not delete events early.
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
    fn events_are_kept_at_least_as_long_as_configured_and_at_most_an_hour_longer() {
        let day = Duration::from_secs(24 * 60 * 60);
        assert_eq!(cutoff(Wall(100 * HOUR), day), Some(Wall(76 * HOUR)));
        assert_eq!(cutoff(Wall(101 * HOUR - 1), day), Some(Wall(76 * HOUR)));
        assert_eq!(cutoff(Wall(101 * HOUR), day), Some(Wall(77 * HOUR)));
        assert_eq!(cutoff(Wall(23 * HOUR), day), None);
    }
}
