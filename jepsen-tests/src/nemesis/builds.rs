//! A newer build together with older ones, as in a slow upgrade. It must apply the older rules until all builds know
//! the newer ones.

use super::{Doing, Done, Nemesis, follower};
use crate::cluster::{Cluster, LIMIT, Seat};
use crate::dice::Dice;

pub(super) fn newer() -> Box<dyn Nemesis> {
    Box::new(Newer { seat: None, refused: false })
}

struct Newer {
    seat: Option<Seat>,
    refused: bool,
}

impl Nemesis for Newer {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            cluster.ready(LIMIT).await?;
            let seat = follower(cluster, dice).await?;
            self.seat = Some(seat);
            cluster.change_build(seat, true).await?;
            // Both directions are tested: entries of a newer leader, and of an older one.
            let leads = dice.chance(50) && cluster.transfer(seat).await?;
            let refused = cluster.later_rules_refused(seat).await?;
            self.refused = refused.as_ref().is_some_and(|why| why.contains("knows rules up to"));
            let what = format!(
                "node {seat} runs a newer build{}; later rules were {}",
                if leads { " and leads" } else { "" },
                refused.map_or_else(|| "RAISED although older builds run".into(), |why| format!("refused: {why}"))
            );
            Ok(Done { what, seats: vec![seat] })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            if let Some(seat) = self.seat {
                cluster.change_build(seat, false).await?;
            }
            Ok(self.refused)
        })
    }
}
