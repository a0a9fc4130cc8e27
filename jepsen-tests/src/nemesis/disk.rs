//! Disks that are slow, stuck or full.

use super::{Doing, Done, Nemesis, somebody};
use crate::cluster::{Cluster, Seat};
use crate::dice::Dice;
use std::time::Duration;

/// A node sees a full disk only at its next write: the end of the fault waits this long for it.
const MET_WITHIN: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
enum What {
    Slow,
    Stuck,
    Full,
}

pub(super) fn slow() -> Box<dyn Nemesis> {
    Box::new(Disk { what: What::Slow, seats: Vec::new() })
}

pub(super) fn stuck() -> Box<dyn Nemesis> {
    Box::new(Disk { what: What::Stuck, seats: Vec::new() })
}

pub(super) fn full() -> Box<dyn Nemesis> {
    Box::new(Disk { what: What::Full, seats: Vec::new() })
}

struct Disk {
    what: What,
    /// The counters before the fault.
    seats: Vec<(Seat, u64)>,
}

impl Disk {
    fn seen(&self, cluster: &Cluster, seat: Seat) -> std::io::Result<u64> {
        let seen = cluster.control(seat)?.seen()?;
        Ok(match self.what {
            What::Slow | What::Stuck => seen.syncs_delayed,
            What::Full => seen.writes_refused,
        })
    }
}

impl Nemesis for Disk {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let all = matches!(self.what, What::Slow) && dice.chance(30);
            let seats = if all { cluster.running() } else { vec![somebody(cluster, dice).await?] };
            for seat in &seats {
                let seen = self.seen(cluster, *seat)?;
                self.seats.push((*seat, seen));
            }
            let delay = Duration::from_millis(20 + dice.below(480));
            for seat in &seats {
                let control = cluster.control(*seat)?;
                match self.what {
                    What::Slow => control.slow_syncs(delay)?,
                    What::Stuck => control.hold_syncs(true)?,
                    What::Full => {
                        cluster.may_end(*seat, true)?;
                        control.fill_disk(true)?;
                    }
                }
            }
            let nodes = super::process::named(&seats);
            let what = match self.what {
                What::Slow => format!("every fsync of {nodes} takes {delay:?} longer"),
                What::Stuck => format!("no fsync of {nodes} returns"),
                What::Full => format!("the disk of {nodes} is full"),
            };
            Ok(Done { what, seats })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            let mut held = !self.seats.is_empty();
            for (seat, before) in self.seats.clone() {
                let control = cluster.control(seat)?;
                if matches!(self.what, What::Full) {
                    // The node says so and exits: only then it has really met the full disk.
                    let ended = cluster.ends_within(seat, MET_WITHIN).await;
                    held &= ended.is_some() || !cluster.running().contains(&seat);
                }
                held &= self.seen(cluster, seat)? > before;
                control.slow_syncs(Duration::ZERO)?;
                control.hold_syncs(false)?;
                control.fill_disk(false)?;
                if matches!(self.what, What::Full) {
                    super::process::start_again(cluster, seat).await?;
                    cluster.may_end(seat, false)?;
                }
            }
            Ok(held)
        })
    }
}
