//! The leader advances the time when no command does: at the next deadline, and often enough that a new leader's clock
//! starts from a recent time. Without leases and deadlines it writes nothing; followers never propose a tick.

use crate::replica::clock::{Clock, OBSERVED_EVERY};
use crate::replica::hub::Hub;
use crate::replica::propose::Proposer;
use crate::replica::wall::WallClock;
use lease::numbers::{Span, Time, Wall};
use openraft::type_config::TypeConfigExt;
use openraft::type_config::alias::InstantOf;
use raft_store::state::Progress;
use raft_store::types::Types;
use std::sync::Arc;

/// While a lease is alive, an entry advances the time at least this often: a change of leader extends leases by at most
/// this.
const WITH_LEASES: Span = Span::secs(1);
/// The same interval while there are only other deadlines.
const WITHOUT_LEASES: Span = Span::secs(60);

/// Observes the clock and ticks, for ever.
pub(crate) async fn run<C: Types>(
    clock: Arc<Clock<InstantOf<C>>>,
    hub: Arc<Hub>,
    proposer: Proposer<C>,
    wall: WallClock,
) {
    loop {
        let now = C::now();
        if let Some(stamp) = clock.observe(now)
            && is_due(hub.current(), stamp.at, wall())
        {
            // If it is unknown or unavailable, a later round checks again. Retrying at once would be a busy loop.
            let is_applied = proposer.tick().await.is_ok();
            if is_applied && hub.current().deadlines.time.is_some_and(|time| time <= hub.current().now) {
                // One entry did not process all deadlines that have passed.
                continue;
            }
        }
        C::sleep(OBSERVED_EVERY).await;
    }
}

fn is_due(progress: Progress, at: Time, wall: Wall) -> bool {
    let deadlines = progress.deadlines;
    if deadlines.time.is_none() && deadlines.wall.is_none() {
        return false;
    }
    let every = if progress.has_leases { WITH_LEASES } else { WITHOUT_LEASES };
    deadlines.time.is_some_and(|time| time <= at)
        || deadlines.wall.is_some_and(|date| date <= wall)
        || progress.now.after(every) <= at
}

#[cfg(test)]
mod tests {
    use super::*;
    use lease::NextDeadlines;
    use raft_store::types::{LeaderId, OnTokio};

    fn progress(now: u64, time: Option<u64>, wall: Option<u64>, has_leases: bool) -> Progress {
        let deadlines = NextDeadlines { time: time.map(Time), wall: wall.map(Wall) };
        Progress { now: Time(now), deadlines, has_leases, ..Progress::default() }
    }

    /// A stopping node accepts no tick, whatever is due: its timer must sleep between attempts, or it could not be
    /// ended.
    #[test]
    fn a_refused_tick_is_not_retried_without_a_pause() {
        let (sender, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let clock = Arc::new(Clock::new(Some));
                clock.begin(LeaderId { term: 1, node_id: 1 }, Time(10), OnTokio::now());
                let hub = Hub::new(progress(10, Some(5), None, true));
                let ticking = run::<OnTokio>(clock, hub, Proposer::of_a_stopped_node(), Arc::new(|| Wall(0)));
                let _ = tokio::time::timeout(3 * OBSERVED_EVERY, ticking).await;
            });
            sender.send(()).unwrap();
        });
        ended.recv_timeout(std::time::Duration::from_secs(60)).expect("the timer rests, so it can be ended");
    }

    #[test]
    fn without_leases_and_deadlines_nothing_is_written() {
        assert!(!is_due(progress(0, None, None, false), Time(1_000_000), Wall(1_000_000)));
    }

    #[test]
    fn deadlines_in_cluster_time_and_in_wall_time_are_met() {
        assert!(!is_due(progress(0, Some(500), None, false), Time(499), Wall(0)));
        assert!(is_due(progress(0, Some(500), None, false), Time(500), Wall(0)));
        assert!(!is_due(progress(0, None, Some(500), false), Time(0), Wall(499)));
        assert!(is_due(progress(0, None, Some(500), false), Time(0), Wall(500)));
    }

    #[test]
    fn time_advances_every_second_while_a_lease_is_alive_and_every_minute_otherwise() {
        assert!(!is_due(progress(10_000, Some(90_000), None, true), Time(10_999), Wall(0)));
        assert!(is_due(progress(10_000, Some(90_000), None, true), Time(11_000), Wall(0)));
        assert!(!is_due(progress(10_000, Some(90_000), None, false), Time(69_999), Wall(0)));
        assert!(is_due(progress(10_000, Some(90_000), None, false), Time(70_000), Wall(0)));
    }
}
