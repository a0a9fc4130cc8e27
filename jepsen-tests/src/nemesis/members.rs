//! Membership changes during work: the cluster grows and shrinks, a wiped node is replaced, and a node dies while it
//! receives a snapshot. Some changes are requested at the same time, and other faults may run meanwhile.

use super::{Doing, Done, Nemesis, follower, leader};
use crate::cluster::{Cluster, LIMIT, Seat};
use crate::dice::Dice;
use futures_util::future::join_all;
use std::io;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const LOOK_EVERY: Duration = Duration::from_millis(2);
const WRITTEN_WITHIN: Duration = Duration::from_secs(60);
/// After this time a node that moved has told the leader.
const MOVED_WITHIN: Duration = Duration::from_millis(2_500);

/// Three nodes become five and three again, or five become three and five again.
pub(super) fn grow_shrink() -> Box<dyn Nemesis> {
    Box::new(GrowShrink { back: Vec::new(), grew: false, done: 0 })
}

struct GrowShrink {
    back: Vec<Seat>,
    grew: bool,
    done: usize,
}

impl Nemesis for GrowShrink {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            cluster.ready(LIMIT).await?;
            let mut seats = cluster.seats();
            self.grew = seats.len() <= 3;
            if self.grew {
                self.back = cluster.free_seats().into_iter().take(2).collect();
                for seat in &self.back {
                    cluster.grow(*seat).await?;
                    self.done += 1;
                }
            } else {
                // The leader may be among them: it hands leadership over first.
                dice.shuffle(&mut seats);
                self.back = seats[..2].to_vec();
                for seat in &self.back {
                    cluster.shrink(*seat).await?;
                    self.done += 1;
                }
            }
            let what = if self.grew { "nodes join and leave" } else { "nodes leave and others join" };
            Ok(Done { what: format!("{what} on seats {:?}", self.back), seats: self.back.clone() })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            for seat in &self.back {
                if self.grew && cluster.seats().contains(seat) {
                    cluster.shrink(*seat).await?;
                } else if !self.grew && !cluster.seats().contains(seat) {
                    cluster.grow(*seat).await?;
                }
            }
            Ok(self.done == 2)
        })
    }
}

/// Several nodes start and join at once; at the end they are removed at once.
pub(super) fn join_together() -> Box<dyn Nemesis> {
    Box::new(JoinTogether { seats: Vec::new(), joined: 0 })
}

struct JoinTogether {
    seats: Vec<Seat>,
    joined: usize,
}

impl Nemesis for JoinTogether {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let count = 2 + usize::try_from(dice.below(3)).unwrap_or(0);
            self.seats = cluster.free_seats().into_iter().take(count).collect();
            // Slow disks make each change take longer, so that more of them overlap.
            let slow = slow_disks(cluster, dice)?;
            let joined = join_all(self.seats.iter().map(|seat| cluster.grow(*seat))).await;
            fast_disks(cluster);
            self.joined = joined.iter().filter(|joined| joined.is_ok()).count();
            let what = format!(
                "nodes join on seats {:?} at once, {slow:?} for each fsync: {} of {} have a vote{}",
                self.seats,
                self.joined,
                self.seats.len(),
                first_error(&joined),
            );
            Ok(Done { what, seats: self.seats.clone() })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            let outside = cluster.drop_outsiders().await?;
            let here = cluster.seats();
            let left = self.seats.iter().filter(|seat| here.contains(seat));
            let left: Vec<_> = join_all(left.map(|seat| cluster.shrink(*seat))).await.into_iter().collect();
            cluster.sight(LIMIT).await?;
            left.into_iter().collect::<io::Result<Vec<()>>>()?;
            Ok(self.joined + outside.len() >= 2)
        })
    }
}

/// One node joins while another one is removed; at the end the other way round.
pub(super) fn join_and_remove() -> Box<dyn Nemesis> {
    Box::new(JoinAndRemove { joins: None, goes: None, done: false })
}

struct JoinAndRemove {
    joins: Option<Seat>,
    goes: Option<Seat>,
    done: bool,
}

impl Nemesis for JoinAndRemove {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let seats = cluster.seats();
            let free = cluster.free_seats();
            let joins = *free.first().ok_or_else(|| io::Error::other("every seat is taken"))?;
            // It may be the leader: it hands leadership over first.
            let goes = *dice.pick(&seats);
            (self.joins, self.goes) = (Some(joins), Some(goes));
            let old = cluster.id(goes).unwrap_or(0);
            let slow = slow_disks(cluster, dice)?;
            let (joined, gone) = tokio::join!(cluster.grow(joins), cluster.shrink(goes));
            fast_disks(cluster);
            self.done = joined.is_ok() && gone.is_ok();
            let what = format!(
                "a node joins on seat {joins} while node {old} on seat {goes} is removed, {slow:?} for each fsync{}",
                first_error(&[joined, gone]),
            );
            Ok(Done { what, seats: vec![joins, goes] })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            cluster.drop_outsiders().await?;
            let here = cluster.seats();
            let back = self.goes.filter(|seat| !here.contains(seat));
            let goes = self.joins.filter(|seat| here.contains(seat));
            let growing = async {
                match back {
                    Some(seat) => cluster.grow(seat).await,
                    None => Ok(()),
                }
            };
            let shrinking = async {
                match goes {
                    Some(seat) => cluster.shrink(seat).await,
                    None => Ok(()),
                }
            };
            let (grown, shrunk) = tokio::join!(growing, shrinking);
            cluster.drop_outsiders().await?;
            grown.and(shrunk)?;
            Ok(self.done)
        })
    }
}

/// A node returns at another address while it is being removed. It stays out; at the end a new node takes its seat.
pub(super) fn move_and_remove() -> Box<dyn Nemesis> {
    Box::new(MoveAndRemove { seat: None, done: false })
}

struct MoveAndRemove {
    seat: Option<Seat>,
    done: bool,
}

impl Nemesis for MoveAndRemove {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let from = follower(cluster, dice).await?;
            let free = cluster.free_seats();
            let to = *free.first().ok_or_else(|| io::Error::other("every seat is taken"))?;
            let id = cluster.id(from).unwrap_or(0);
            cluster.kill(from)?;
            cluster.move_node(from, to)?;
            self.seat = Some(from);
            // The removal takes a while, and the node starts in the middle of it.
            let slow = Duration::from_millis(150 + dice.below(200));
            for seat in cluster.running() {
                cluster.control(seat)?.slow_syncs(slow)?;
            }
            cluster.control(to)?.slow_syncs(Duration::ZERO)?;
            cluster.start_seat(to).await?;
            sleep(Duration::from_millis(dice.below(250))).await;
            let removed = cluster.remove_running(to).await;
            self.done = removed.is_ok();
            // It asks to be admitted about every second.
            sleep(MOVED_WITHIN).await;
            fast_disks(cluster);
            if self.done {
                cluster.sight(LIMIT).await?;
                cluster.clear(to)?;
                cluster.remove_ghosts().await?;
            }
            let what = format!(
                "node {id} moves from seat {from} to seat {to} while it is removed, {slow:?} for each fsync{}",
                first_error(&[removed])
            );
            Ok(Done { what, seats: vec![from, to] })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            if let Some(seat) = self.seat.filter(|seat| self.done && !cluster.seats().contains(seat)) {
                cluster.grow(seat).await?;
            }
            cluster.sight(LIMIT).await?;
            Ok(self.done)
        })
    }
}

/// A node follows without a vote, serves callers, and is removed at the end. It may be restarted meanwhile.
pub(super) fn learner() -> Box<dyn Nemesis> {
    Box::new(Learner { seat: None })
}

struct Learner {
    seat: Option<Seat>,
}

impl Nemesis for Learner {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let free = cluster.free_seats();
            let seat = *free.last().ok_or_else(|| io::Error::other("every seat is taken"))?;
            self.seat = Some(seat);
            cluster.grow_learner(seat).await?;
            let starts_again = dice.chance(50);
            if starts_again {
                cluster.kill(seat)?;
                cluster.start_seat(seat).await?;
            }
            cluster.sight(LIMIT).await?;
            let id = cluster.id(seat).unwrap_or(0);
            let again = if starts_again { ", is killed and started again" } else { "" };
            Ok(Done { what: format!("node {id} on seat {seat} follows without a vote{again}"), seats: vec![seat] })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            let Some(seat) = self.seat.filter(|seat| cluster.seats().contains(seat)) else { return Ok(false) };
            let seen = cluster.sight(LIMIT).await?;
            let followed = cluster.id(seat).is_some_and(|id| seen.learners.contains(&id));
            cluster.shrink(seat).await?;
            cluster.sight(LIMIT).await?;
            Ok(followed)
        })
    }
}

/// An operator adds a node that never starts, and removes it again.
pub(super) fn absent_learner() -> Box<dyn Nemesis> {
    Box::new(AbsentLearner { id: None })
}

struct AbsentLearner {
    id: Option<u64>,
}

impl Nemesis for AbsentLearner {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, _: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let free = cluster.free_seats();
            let seat = *free.last().ok_or_else(|| io::Error::other("every seat is taken"))?;
            let id = cluster.add_absent(seat).await?;
            self.id = Some(id);
            cluster.sight(LIMIT).await?;
            Ok(Done { what: format!("node {id} is added but never starts"), seats: Vec::new() })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            let Some(id) = self.id else { return Ok(false) };
            cluster.remove_absent(id).await?;
            cluster.sight(LIMIT).await?;
            Ok(true)
        })
    }
}

/// Half of the time every sync of all running nodes is slowed down.
fn slow_disks(cluster: &Cluster, dice: &mut Dice) -> io::Result<Duration> {
    let by = if dice.chance(70) { Duration::from_millis(20 + dice.below(180)) } else { Duration::ZERO };
    for seat in cluster.running() {
        cluster.control(seat)?.slow_syncs(by)?;
    }
    Ok(by)
}

fn fast_disks(cluster: &Cluster) {
    for control in cluster.seats().into_iter().filter_map(|seat| cluster.control(seat).ok()) {
        let _ = control.slow_syncs(Duration::ZERO);
    }
}

fn first_error(done: &[io::Result<()>]) -> String {
    let wrong = done.iter().find_map(|done| done.as_ref().err());
    wrong.map_or_else(String::new, |error| format!("; {}", error.to_string().lines().next().unwrap_or_default()))
}

/// A node loses its disk, is rejected under its old id, and is replaced under another one.
pub(super) fn replace_wiped() -> Box<dyn Nemesis> {
    Box::new(ReplaceWiped { seat: None, refused: false })
}

struct ReplaceWiped {
    seat: Option<Seat>,
    refused: bool,
}

impl Nemesis for ReplaceWiped {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            cluster.ready(LIMIT).await?;
            let seat = if dice.chance(50) { leader(cluster).await } else { None };
            let seat = match seat {
                Some(seat) => seat,
                None => follower(cluster, dice).await?,
            };
            self.seat = Some(seat);
            let old = cluster.id(seat).unwrap_or(0);
            self.refused = cluster.replace_wiped(seat).await?;
            let new = cluster.id(seat).unwrap_or(0);
            let refused =
                if self.refused { "was rejected under its old id" } else { "WAS NOT REJECTED under its old id" };
            let what = format!("seat {seat}: node {old} lost its disk, {refused}, and was replaced by node {new}");
            Ok(Done { what, seats: vec![seat] })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            if let Some(seat) = self.seat {
                cluster.has_vote(seat, LIMIT).await?;
            }
            Ok(self.refused)
        })
    }
}

/// A node misses more entries than the others' logs keep, and is killed around the moment when a snapshot replaces its
/// state.
pub(super) fn snapshot_crash() -> Box<dyn Nemesis> {
    Box::new(SnapshotCrash { seat: None, crashed: false })
}

struct SnapshotCrash {
    seat: Option<Seat>,
    crashed: bool,
}

impl Nemesis for SnapshotCrash {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            cluster.ready(LIMIT).await?;
            let seat = follower(cluster, dice).await?;
            self.seat = Some(seat);
            let leader = leader(cluster).await.ok_or_else(|| io::Error::other("there is no leader"))?;
            cluster.kill(seat)?;
            // Callers write meanwhile. The entries that the leader keeps before its snapshot must not reach back to
            // what the node has.
            let kept = cluster.options().entries_kept.unwrap_or(1_000);
            let every = cluster.options().snapshot_every.unwrap_or(1_000);
            let began = Instant::now();
            let first = cluster.snapshot(leader).await?.unwrap_or(0);
            let mut last = first;
            while last < first + kept + every && began.elapsed() < WRITTEN_WITHIN {
                sleep(Duration::from_millis(200)).await;
                last = cluster.snapshot(leader).await?.unwrap_or(last);
            }
            cluster.start_seat(seat).await?;
            let delay = Duration::from_millis(dice.below(150));
            let words = cluster.words(seat).len();
            let incoming = cluster.data(seat).map(|data| data.join("incoming"));
            let by = Instant::now() + Duration::from_secs(15);
            while Instant::now() < by {
                let comes = incoming.as_ref().is_some_and(|folder| has_files(folder));
                let has_come =
                    || cluster.words(seat).get(words..).is_some_and(|said| said.contains("a snapshot was installed"));
                if comes || has_come() {
                    sleep(delay).await;
                    self.crashed = cluster.kill(seat)?;
                    break;
                }
                sleep(LOOK_EVERY).await;
            }
            let what = format!(
                "node {seat} missed {} entries and was {} while it received a snapshot",
                last - first,
                if self.crashed { "killed" } else { "NOT killed" }
            );
            Ok(Done { what, seats: vec![seat] })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            if let Some(seat) = self.seat
                && !cluster.running().contains(&seat)
            {
                cluster.start_seat(seat).await?;
            }
            Ok(self.crashed)
        })
    }
}

/// A node misses more entries than the others' logs keep, and is repeatedly asked for its own snapshots while it
/// receives theirs.
pub(super) fn snapshot_overlap() -> Box<dyn Nemesis> {
    Box::new(SnapshotOverlap { seat: None, installed: 0, built: 0 })
}

struct SnapshotOverlap {
    seat: Option<Seat>,
    installed: usize,
    built: usize,
}

/// Installs during one such fault.
const OVERLAPS: usize = 3;
/// A node that installs nothing while it takes a snapshot continues after this time.
const OVERLAPS_WITHIN: Duration = Duration::from_secs(5);
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(15);
const ASKED_WITHIN: Duration = Duration::from_millis(100);

impl Nemesis for SnapshotOverlap {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            cluster.ready(LIMIT).await?;
            let seat = follower(cluster, dice).await?;
            self.seat = Some(seat);
            let kept = cluster.options().entries_kept.unwrap_or(1_000);
            for _ in 0..OVERLAPS {
                let leader = leader(cluster).await.ok_or_else(|| io::Error::other("there is no leader"))?;
                cluster.kill(seat)?;
                let began = Instant::now();
                let first = cluster.snapshot(leader).await?.unwrap_or(0);
                let mut last = first;
                while last < first + kept + 100 && began.elapsed() < WRITTEN_WITHIN {
                    sleep(Duration::from_millis(100)).await;
                    last = cluster.snapshot(leader).await?.unwrap_or(last);
                }
                let words = cluster.words(seat).len();
                let has_come =
                    || cluster.words(seat).get(words..).is_some_and(|said| said.contains("a snapshot was installed"));
                // Its own snapshot does not finish before the other one is installed, or before this time.
                let control = cluster.control(seat)?;
                let waiting = control.seen()?.syncs_delayed;
                control.hold_making(true)?;
                cluster.start_seat(seat).await?;
                let by = Instant::now() + OVERLAPS_WITHIN;
                let mut is_installed = false;
                let overlap = async {
                    while Instant::now() < by && !is_installed && cluster.ended(seat).is_none() {
                        sleep(LOOK_EVERY).await;
                        is_installed = has_come();
                    }
                    sleep(Duration::from_millis(dice.below(300))).await;
                    control.hold_making(false)
                };
                let asking = async {
                    while Instant::now() < by && control.seen()?.syncs_delayed == waiting {
                        let _ = timeout(ASKED_WITHIN, cluster.snapshot(seat)).await;
                    }
                    io::Result::Ok(())
                };
                let (overlapped, asked) = tokio::join!(overlap, asking);
                overlapped.and(asked)?;
                let by = Instant::now() + CAUGHT_UP_WITHIN;
                while Instant::now() < by && !is_installed && cluster.ended(seat).is_none() {
                    sleep(LOOK_EVERY).await;
                    is_installed = has_come();
                }
                self.built += usize::from(control.seen()?.syncs_delayed > waiting);
                self.installed += usize::from(is_installed);
                // The result is visible when it has caught up, or when it restarts.
                sleep(Duration::from_secs(1)).await;
                if cluster.ended(seat).is_some() {
                    break;
                }
            }
            let what = format!(
                "node {seat} received {} snapshots and took {} of its own meanwhile",
                self.installed, self.built
            );
            Ok(Done { what, seats: vec![seat] })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            if let Some(seat) = self.seat {
                super::process::start_again(cluster, seat).await?;
            }
            Ok(self.installed > 0 && self.built > 0)
        })
    }
}

fn has_files(folder: &std::path::Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some())
}
