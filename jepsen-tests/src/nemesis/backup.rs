//! Takes a backup while callers write. After the run it is restored as a cluster and checked.

use super::{Doing, Done, Nemesis};
use crate::cluster::{Cluster, LIMIT};
use crate::dice::Dice;

pub(super) fn taken() -> Box<dyn Nemesis> {
    Box::new(Backup { is_whole: false })
}

struct Backup {
    is_whole: bool,
}

impl Nemesis for Backup {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            cluster.ready(LIMIT).await?;
            let seat = *dice.pick(&cluster.running());
            let bytes = cluster.take_backup(seat).await?;
            self.is_whole = bytes > 0;
            Ok(Done { what: format!("node {seat} returned a backup of {bytes} bytes"), seats: vec![seat] })
        })
    }

    fn end<'a>(&'a mut self, _: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move { Ok(self.is_whole) })
    }
}
