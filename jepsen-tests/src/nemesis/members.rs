//! Who belongs to the cluster changes while it works: it grows and shrinks, a wiped node comes back as another one, and a node dies
//! while it is given a snapshot.

use super::{Doing, Done, Nemesis, follower, leader};
use crate::cluster::{Cluster, LIMIT, Seat};
use crate::dice::Dice;
use crate::wire::SEATS;
use std::io;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const LOOK_EVERY: Duration = Duration::from_millis(2);
const WRITTEN_WITHIN: Duration = Duration::from_secs(20);

/// Three become five and three again; five become three and five again.
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
                self.back = (1..=SEATS).filter(|seat| !seats.contains(seat)).take(2).collect();
                for seat in &self.back {
                    cluster.grow(*seat).await?;
                    self.done += 1;
                }
            } else {
                // The leader may be among them: it hands over first.
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

/// A node loses its disk, is turned away under its id, and comes back under another.
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
            let refused = if self.refused { "was refused under its id" } else { "WAS NOT REFUSED under its id" };
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

/// A node misses more than the others' logs keep, and is killed around the moment when a snapshot replaces its state.
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
            let leader = leader(cluster).await.ok_or_else(|| io::Error::other("nobody leads"))?;
            cluster.kill(seat)?;
            // Callers write meanwhile. What the leader keeps behind its snapshot must not reach back to what the node has.
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
                "node {seat} missed {} entries and was {} while it got a snapshot",
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

fn has_files(folder: &std::path::Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some())
}
