//! Partitions: which directions between which nodes are cut.

use super::{Doing, Done, Nemesis, follower, leader};
use crate::cluster::{Cluster, Seat};
use crate::dice::Dice;
use crate::wire::link::Counts;
use crate::wire::{CALLERS, Port};
use std::io;

#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// The leader and the other nodes cannot reach each other; callers reach all.
    IsolateLeader,
    IsolateFollower,
    /// A minority and a majority, with callers on either side.
    Halves,
    /// Every node sees a majority, and no two the same one.
    Ring,
    /// Two groups, and one node that sees both.
    Bridge,
    /// No node receives packets from the leader.
    LeaderMute,
    /// The leader receives packets from no node.
    LeaderDeaf,
    /// No node reaches another one; callers reach all.
    All,
    /// Callers reach only some nodes, or none; nodes reach each other.
    Callers,
}

pub(super) fn cut(shape: Shape) -> Box<dyn Nemesis> {
    Box::new(Partition { shape, cut: Vec::new(), before: Counts::default() })
}

struct Partition {
    shape: Shape,
    cut: Vec<(Port, Port)>,
    before: Counts,
}

impl Partition {
    fn counts(&self, cluster: &Cluster) -> Counts {
        let counts = self.cut.iter().map(|(from, to)| cluster.wire().counts(*from, *to));
        counts.fold(Counts::default(), Counts::plus)
    }
}

impl Nemesis for Partition {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let mut seats = cluster.seats();
            dice.shuffle(&mut seats);
            let leader_or = |found: Option<Seat>| found.ok_or_else(|| io::Error::other("there is no leader"));
            let (what, cut) = match self.shape {
                Shape::IsolateLeader => {
                    let alone = leader_or(leader(cluster).await)?;
                    (format!("node {alone}, which leads, is alone"), apart(&[alone], &without(&seats, alone)))
                }
                Shape::IsolateFollower => {
                    let alone = follower(cluster, dice).await?;
                    (format!("node {alone} is alone"), apart(&[alone], &without(&seats, alone)))
                }
                Shape::Halves => {
                    let (few, many) = seats.split_at((seats.len() - 1) / 2);
                    (format!("{few:?} | {many:?}"), apart(few, many))
                }
                Shape::Ring => (format!("a ring {seats:?}: each node reaches only its neighbours"), ring(&seats)),
                Shape::Bridge => {
                    let (one, rest) = seats.split_at(seats.len() / 2);
                    let (bridge, other) = (rest[0], &rest[1..]);
                    (format!("{one:?} | {other:?}, but node {bridge} reaches both"), apart(one, other))
                }
                Shape::All => {
                    let pairs = seats.iter().flat_map(|from| seats.iter().map(move |to| (*from, *to)));
                    ("every node is isolated".to_owned(), pairs.filter(|(from, to)| from != to).collect())
                }
                Shape::LeaderMute => {
                    let alone = leader_or(leader(cluster).await)?;
                    let cut = without(&seats, alone).into_iter().map(|other| (alone, other)).collect();
                    (format!("no node receives packets from node {alone}, the leader"), cut)
                }
                Shape::LeaderDeaf => {
                    let alone = leader_or(leader(cluster).await)?;
                    let cut = without(&seats, alone).into_iter().map(|other| (other, alone)).collect();
                    (format!("node {alone}, the leader, receives packets from no node"), cut)
                }
                Shape::Callers => {
                    // Usually some nodes stay reachable.
                    let most = if dice.chance(25) { seats.len() } else { seats.len() - 1 };
                    let count = 1 + usize::try_from(dice.below(most.max(1) as u64)).unwrap_or(0);
                    let from = &seats[..count];
                    (format!("callers cannot reach {from:?}"), apart(&[CALLERS], from))
                }
            };
            self.cut = cut;
            self.before = self.counts(cluster);
            let mut touched: Vec<Seat> =
                self.cut.iter().flat_map(|(from, to)| [*from, *to]).filter(|port| *port != CALLERS).collect();
            touched.sort_unstable();
            touched.dedup();
            for (from, to) in &self.cut {
                cluster.wire().cut(*from, *to);
            }
            Ok(Done { what, seats: touched })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            for (from, to) in &self.cut {
                cluster.wire().mend(*from, *to);
            }
            Ok(self.counts(cluster).since(self.before).dropped > 0)
        })
    }
}

fn without(seats: &[Seat], one: Seat) -> Vec<Seat> {
    seats.iter().copied().filter(|seat| *seat != one).collect()
}

/// Every direction between the two groups.
fn apart(one: &[Port], other: &[Port]) -> Vec<(Port, Port)> {
    one.iter().flat_map(|a| other.iter().flat_map(move |b| [(*a, *b), (*b, *a)])).collect()
}

/// With three nodes the ring would be complete, so each direction is cut once: each node is heard only by the next one.
fn ring(seats: &[Seat]) -> Vec<(Port, Port)> {
    let count = seats.len();
    let mut cut = Vec::new();
    for (at, from) in seats.iter().enumerate() {
        for (other, to) in seats.iter().enumerate() {
            let ahead = (other + count - at) % count;
            let reaches = if count > 3 { ahead == 1 || ahead == count - 1 } else { ahead == 1 };
            if ahead != 0 && !reaches {
                cut.push((*from, *to));
            }
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn in_a_ring_of_five_every_node_sees_a_different_majority() {
        let seats = [1, 2, 3, 4, 5];
        let cut: BTreeSet<_> = ring(&seats).into_iter().collect();
        let sees = |seat: Seat| -> BTreeSet<Seat> {
            let heard =
                seats.into_iter().filter(|other| !cut.contains(&(*other, seat)) && !cut.contains(&(seat, *other)));
            heard.collect()
        };
        let views: BTreeSet<BTreeSet<Seat>> = seats.into_iter().map(sees).collect();
        assert!(views.iter().all(|view| view.len() == 3), "{views:?}");
        assert_eq!(views.len(), 5);
    }

    #[test]
    fn in_a_ring_of_three_each_node_is_heard_by_one_other() {
        let cut = ring(&[1, 2, 3]);
        assert_eq!(cut.len(), 3);
        assert!(!cut.contains(&(1, 2)) && cut.contains(&(2, 1)), "{cut:?}");
    }
}
