//! Processes that are killed, lose power, pause, or hand leadership over.

use super::{Doing, Done, Nemesis, follower, leader, somebody};
use crate::cluster::{Cluster, Seat};
use crate::dice::Dice;
use crate::shim::power::Lost;
use std::io;
use std::time::{Duration, Instant};
use tokio::time::sleep;

#[derive(Clone, Copy, Debug)]
pub(super) enum Whom {
    Leader,
    Follower,
    /// All except the leader.
    Followers,
    Any,
    All,
}

impl Whom {
    async fn seats(self, cluster: &Cluster, dice: &mut Dice) -> io::Result<Vec<Seat>> {
        Ok(match self {
            Self::Leader => vec![leader(cluster).await.ok_or_else(|| io::Error::other("there is no leader"))?],
            Self::Follower => vec![follower(cluster, dice).await?],
            Self::Followers => {
                let leads = leader(cluster).await.ok_or_else(|| io::Error::other("there is no leader"))?;
                cluster.running().into_iter().filter(|seat| *seat != leads).collect()
            }
            Self::Any => vec![somebody(cluster, dice).await?],
            Self::All => cluster.running(),
        })
    }
}

pub(super) fn kill(whom: Whom) -> Box<dyn Nemesis> {
    Box::new(Kill { whom, powerless: false, seats: Vec::new(), killed: false })
}

pub(super) fn power_loss(whom: Whom) -> Box<dyn Nemesis> {
    Box::new(Kill { whom, powerless: true, seats: Vec::new(), killed: false })
}

struct Kill {
    whom: Whom,
    powerless: bool,
    seats: Vec<Seat>,
    killed: bool,
}

impl Nemesis for Kill {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let seats = self.whom.seats(cluster, dice).await?;
            self.seats.clone_from(&seats);
            if !self.powerless {
                let mut killed = Vec::new();
                for seat in &seats {
                    killed.push(cluster.kill(*seat)?);
                }
                self.killed = !killed.is_empty() && killed.into_iter().all(|killed| killed);
                return Ok(Done { what: format!("kill -9 of {}", named(&seats)), seats });
            }
            let lost = cluster.power_loss(&seats, dice)?;
            self.killed = !lost.is_empty() && lost.iter().all(|(_, killed, _)| *killed);
            let told: Vec<String> = lost.iter().map(|(seat, _, lost)| describe(*seat, lost)).collect();
            Ok(Done { what: format!("power loss of {}", told.join(", ")), seats })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            for seat in &self.seats {
                start_again(cluster, *seat).await?;
            }
            Ok(self.killed)
        })
    }
}

/// Starts the node, unless it runs or was removed meanwhile.
pub(super) async fn start_again(cluster: &Cluster, seat: Seat) -> io::Result<()> {
    let is_down = || cluster.seats().contains(&seat) && !cluster.running().contains(&seat);
    if is_down()
        && let Err(error) = cluster.start_seat(seat).await
        && is_down()
    {
        return Err(error);
    }
    Ok(())
}

fn describe(seat: Seat, lost: &Lost) -> String {
    let torn = if lost.torn { ", torn" } else { "" };
    let Lost { bytes, cut, emptied, removed, undone, .. } = lost;
    format!(
        "node {seat} ({bytes} bytes not synced: {cut} files cut{torn}, {emptied} emptied, {removed} removed; {undone} name changes \
         undone)"
    )
}

pub(super) fn named(seats: &[Seat]) -> String {
    let names: Vec<String> = seats.iter().map(|seat| format!("node {seat}")).collect();
    names.join(", ")
}

/// Pauses the process for at least this time.
pub(super) fn pause(lasts: Duration) -> Box<dyn Nemesis> {
    Box::new(Pause { lasts, stops_clock: false, paused: None })
}

/// The machine is suspended: its monotonic clocks stop, too, and continue from there.
pub(super) fn suspend(lasts: Duration) -> Box<dyn Nemesis> {
    Box::new(Pause { lasts, stops_clock: true, paused: None })
}

struct Pause {
    lasts: Duration,
    stops_clock: bool,
    paused: Option<(Seat, Instant, bool)>,
}

impl Nemesis for Pause {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let seat = somebody(cluster, dice).await?;
            let began = Instant::now();
            let has_stopped = cluster.pause(seat).await?;
            self.paused = Some((seat, began, has_stopped));
            let how = if self.stops_clock { "suspension" } else { "SIGSTOP" };
            Ok(Done { what: format!("{how} of node {seat} for at least {:?}", self.lasts), seats: vec![seat] })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            let Some((seat, began, has_stopped)) = self.paused.take() else { return Ok(false) };
            sleep(self.lasts.saturating_sub(began.elapsed())).await;
            // Another fault may have killed it meanwhile.
            if cluster.running().contains(&seat) {
                if self.stops_clock {
                    cluster.control(seat)?.stood_still(began.elapsed())?;
                }
                cluster.resume(seat)?;
            }
            Ok(has_stopped)
        })
    }
}

/// Leadership moves at least five times within this time.
pub(super) fn transfers(within: Duration) -> Box<dyn Nemesis> {
    Box::new(Transfers { within, moved: 0 })
}

const MOVES: u32 = 5;

struct Transfers {
    within: Duration,
    moved: u32,
}

impl Nemesis for Transfers {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let began = Instant::now();
            while began.elapsed() < self.within && self.moved < 2 * MOVES {
                let Some(from) = leader(cluster).await else { break };
                let others: Vec<Seat> = cluster.running().into_iter().filter(|seat| *seat != from).collect();
                if others.is_empty() {
                    break;
                }
                let to = *dice.pick(&others);
                if cluster.transfer(to).await? {
                    self.moved += 1;
                    // The watcher reads about it a moment later.
                    for _ in 0..20 {
                        if cluster.leader() != Some(from) {
                            break;
                        }
                        sleep(Duration::from_millis(25)).await;
                    }
                }
            }
            let what = format!("leadership moved {} times within {:?}", self.moved, began.elapsed());
            Ok(Done { what, seats: cluster.seats() })
        })
    }

    fn end<'a>(&'a mut self, _: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move { Ok(self.moved >= MOVES) })
    }
}

/// A node drains for a while: it accepts no commands and does not lead.
pub(super) fn drain() -> Box<dyn Nemesis> {
    Box::new(Drain { seat: None })
}

struct Drain {
    seat: Option<Seat>,
}

impl Nemesis for Drain {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let seat = somebody(cluster, dice).await?;
            let drained = cluster.drain(seat, true).await?;
            self.seat = drained.then_some(seat);
            let what = if drained { "is draining" } else { "was asked to drain, but did not confirm it" };
            Ok(Done { what: format!("node {seat} {what}"), seats: vec![seat] })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            if let Some(seat) = self.seat.filter(|seat| cluster.running().contains(seat)) {
                cluster.drain(seat, false).await?;
            }
            Ok(self.seat.is_some())
        })
    }
}
