//! Wrong clocks of nodes: the wall clock jumps, jumps back and forth, or stops; the monotonic clock runs too fast or
//! too slow.

use super::{Doing, Done, Nemesis, leader, somebody};
use crate::cluster::{Cluster, Seat};
use crate::dice::Dice;
use crate::shim::Control;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const STROBE_EVERY: Duration = Duration::from_millis(50);
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

#[derive(Clone, Copy, Debug)]
pub(super) enum Wall {
    Bump,
    Strobe,
    Freeze,
}

pub(super) fn wall(what: Wall) -> Box<dyn Nemesis> {
    Box::new(WallClock { what, seats: Vec::new(), strobing: None })
}

struct WallClock {
    what: Wall,
    /// The number of wrong readings before.
    seats: Vec<(Seat, Arc<Control>, u64)>,
    strobing: Option<JoinHandle<()>>,
}

/// One node, usually the leader, or all nodes.
async fn some(cluster: &Cluster, dice: &mut Dice) -> io::Result<Vec<Seat>> {
    if dice.chance(30) { Ok(cluster.running()) } else { Ok(vec![somebody(cluster, dice).await?]) }
}

/// Seconds to a day, ahead or behind.
fn jump(dice: &mut Dice) -> i64 {
    let most = *dice.pick(&[2_000, 60_000, 3_600_000, DAY_MS]);
    let by = 1_000 + dice.below(most.unsigned_abs()).cast_signed();
    if dice.chance(50) { by } else { -by }
}

impl Nemesis for WallClock {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let seats = some(cluster, dice).await?;
            for seat in &seats {
                let control = cluster.control(*seat)?;
                let before = control.seen()?.wall_reads_shifted;
                self.seats.push((*seat, control, before));
            }
            let nodes = super::process::named(&seats);
            let mut jumps = Vec::new();
            for (_, control, _) in &self.seats {
                let by = jump(dice);
                match self.what {
                    Wall::Bump => control.shift_wall(by)?,
                    Wall::Freeze => control.freeze_wall()?,
                    Wall::Strobe => {}
                }
                jumps.push(by);
            }
            let what = match self.what {
                Wall::Bump => format!("the wall clock of {nodes} jumps by {jumps:?} ms"),
                Wall::Freeze => format!("the wall clock of {nodes} stops"),
                Wall::Strobe => {
                    format!("the wall clock of {nodes} jumps by {jumps:?} ms and back every {STROBE_EVERY:?}")
                }
            };
            if matches!(self.what, Wall::Strobe) {
                let controls: Vec<Arc<Control>> = self.seats.iter().map(|(_, control, _)| control.clone()).collect();
                self.strobing = Some(tokio::spawn(strobe(controls, jumps)));
            }
            Ok(Done { what, seats })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            if let Some(strobing) = self.strobing.take() {
                strobing.abort();
                let _ = strobing.await;
            }
            let mut held = false;
            for (seat, control, before) in self.seats.drain(..) {
                control.shift_wall(0)?;
                held |= control.seen()?.wall_reads_shifted > before && cluster.id(seat).is_some();
            }
            Ok(held)
        })
    }
}

async fn strobe(controls: Vec<Arc<Control>>, jumps: Vec<i64>) {
    for round in 0u64.. {
        for (control, by) in controls.iter().zip(&jumps) {
            if control.shift_wall(if round % 2 == 0 { *by } else { 0 }).is_err() {
                return;
            }
        }
        sleep(STROBE_EVERY).await;
    }
}

/// The leader's wall clock is years ahead for a moment, like a machine with an empty clock battery before it gets the
/// time.
pub(super) fn wrong_date() -> Box<dyn Nemesis> {
    Box::new(WrongDate { seen: false })
}

const YEAR_MS: i64 = 365 * DAY_MS;
/// Some entries are written in that time.
const WRONG_FOR: Duration = Duration::from_millis(1_500);

struct WrongDate {
    seen: bool,
}

impl Nemesis for WrongDate {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let seat = leader(cluster).await.ok_or_else(|| io::Error::other("there is no leader"))?;
            let control = cluster.control(seat)?;
            let years = 1 + dice.below(20).cast_signed();
            let before = control.seen()?.wall_reads_shifted;
            control.shift_wall(years * YEAR_MS)?;
            sleep(WRONG_FOR).await;
            control.shift_wall(0)?;
            self.seen = control.seen()?.wall_reads_shifted > before;
            let what = format!("the wall clock of node {seat}, the leader, was {years} years ahead for {WRONG_FOR:?}");
            Ok(Done { what, seats: vec![seat] })
        })
    }

    fn end<'a>(&'a mut self, _: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move { Ok(self.seen) })
    }
}

pub(super) fn drift() -> Box<dyn Nemesis> {
    Box::new(Drift { seats: Vec::new() })
}

struct Drift {
    /// The nodes, with their measured drift before the fault.
    seats: Vec<(Arc<Control>, i64)>,
}

impl Nemesis for Drift {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let seats = if dice.chance(50) { cluster.running() } else { vec![somebody(cluster, dice).await?] };
            let mut told = Vec::new();
            for seat in &seats {
                let control = cluster.control(*seat)?;
                let mut ppm = (500 + dice.below(4_501)).cast_signed() * if dice.chance(50) { 1 } else { -1 };
                if control.room_for_drift(ppm) < control.room_for_drift(-ppm) / 2 {
                    ppm = -ppm;
                }
                let before = control.seen()?.drift;
                control.drift(ppm)?;
                told.push(format!("node {seat} by {ppm} ppm"));
                self.seats.push((control, before));
            }
            Ok(Done { what: format!("the monotonic clocks drift: {}", told.join(", ")), seats })
        })
    }

    fn end<'a>(&'a mut self, _: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            let mut held = !self.seats.is_empty();
            for (control, before) in self.seats.drain(..) {
                held &= control.seen()?.drift != before;
                control.drift(0)?;
            }
            Ok(held)
        })
    }
}
