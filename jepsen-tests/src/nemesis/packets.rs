//! Links that are slow, lossy, or reorder packets, for a while: between all nodes, and sometimes also to their callers.

use super::{Doing, Done, Nemesis};
use crate::cluster::Cluster;
use crate::dice::Dice;
use crate::wire::link::{Counts, Trouble};
use crate::wire::{CALLERS, Port};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Delay,
    Loss,
    Duplicate,
    Reorder,
}

pub(super) fn all(what: What) -> Box<dyn Nemesis> {
    Box::new(Packets { what, links: Vec::new(), before: Counts::default() })
}

struct Packets {
    what: What,
    links: Vec<(Port, Port)>,
    before: Counts,
}

impl Packets {
    fn counts(&self, cluster: &Cluster) -> Counts {
        let counts = self.links.iter().map(|(from, to)| cluster.wire().counts(*from, *to));
        counts.fold(Counts::default(), Counts::plus)
    }
}

impl Nemesis for Packets {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let seats = cluster.seats();
            let mut ends = seats.clone();
            let with_callers = dice.chance(40);
            if with_callers {
                ends.push(CALLERS);
            }
            self.links = ends.iter().flat_map(|from| ends.iter().map(move |to| (*from, *to))).collect();
            self.links.retain(|(from, to)| from != to);
            self.before = self.counts(cluster);
            let percent = u8::try_from(5 + dice.below(25)).unwrap_or(5);
            let delay = Duration::from_millis(10 + dice.below(90));
            let (trouble, how) = match self.what {
                What::Delay => {
                    let trouble = Trouble { delay, jitter: delay / 2, ..Trouble::NONE };
                    (trouble, format!("packets are delayed by {delay:?} to 1.5 times as much"))
                }
                // Above this loss TCP makes no progress at all.
                What::Loss => {
                    (Trouble { loss: percent.min(20), ..Trouble::NONE }, format!("{} % are lost", percent.min(20)))
                }
                What::Duplicate => {
                    (Trouble { duplicate: 2 * percent, ..Trouble::NONE }, format!("{} % come twice", 2 * percent))
                }
                What::Reorder => {
                    (Trouble { reorder: 2 * percent, ..Trouble::NONE }, format!("{} % are overtaken", 2 * percent))
                }
            };
            for (from, to) in &self.links {
                cluster.wire().set(*from, *to, trouble);
            }
            let whose = if with_callers { "between all nodes and to their callers" } else { "between all nodes" };
            Ok(Done { what: format!("{how} {whose}"), seats })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            for (from, to) in &self.links {
                cluster.wire().set(*from, *to, Trouble::NONE);
            }
            let since = self.counts(cluster).since(self.before);
            Ok(match self.what {
                What::Delay => since.delayed > 0,
                What::Loss => since.dropped > 0,
                What::Duplicate => since.duplicated > 0,
                What::Reorder => since.reordered > 0,
            })
        })
    }
}
