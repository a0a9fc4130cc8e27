//! Wrong clocks of callers: they jump, stop, or run at another rate within what a holder allows for. Nodes are not
//! affected.

use super::{Doing, Done, Nemesis};
use crate::callers::{Machine, RATE_MOST};
use crate::cluster::Cluster;
use crate::dice::Dice;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Jump,
    Stall,
    Rate,
}

pub(super) fn clocks(what: What) -> Box<dyn Nemesis> {
    Box::new(Clocks { what, machines: Vec::new() })
}

struct Clocks {
    what: What,
    /// The number of wrong readings before.
    machines: Vec<(Arc<Machine>, u64)>,
}

impl Nemesis for Clocks {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            let mut told = Vec::new();
            for machine in cluster.machines().all() {
                // Usually back: a jump ahead only costs the holder its lease.
                let by_ms = (500 + dice.below(4_500)).cast_signed() * if dice.chance(70) { -1 } else { 1 };
                let most = RATE_MOST.unsigned_abs();
                let ppm = (500 + dice.below(most - 499)).cast_signed() * if dice.chance(60) { -1 } else { 1 };
                self.machines.push((machine.clone(), machine.wrong_readings()));
                match self.what {
                    What::Jump => {
                        machine.jump(by_ms);
                        told.push(by_ms);
                    }
                    What::Stall => machine.stall(),
                    What::Rate => {
                        machine.run_at(ppm);
                        told.push(ppm);
                    }
                }
            }
            let what = match self.what {
                What::Jump => format!("the clocks of the callers' machines jump by {told:?} ms"),
                What::Stall => "the clocks of the callers' machines stop".to_owned(),
                What::Rate => format!("the clocks of the callers' machines run faster by {told:?} ppm"),
            };
            Ok(Done { what, seats: Vec::new() })
        })
    }

    fn end<'a>(&'a mut self, _: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            let mut held = false;
            for (machine, before) in self.machines.drain(..) {
                held |= machine.wrong_readings() > before;
                machine.set_right();
            }
            Ok(held)
        })
    }
}
