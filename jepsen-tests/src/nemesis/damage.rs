//! Damage to the disk of one node, a minority. A node must refuse to start if it cannot repair the damage; damage that
//! it does not notice must be harmless.
//!
//! Never together with another fault: a node that lost acknowledged data is safe only while the others have it.

use super::{Doing, Done, Nemesis, follower};
use crate::cluster::{Cluster, LIMIT, Seat};
use crate::dice::Dice;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes, more than a block of a table has.
const FLIP_EVERY: usize = 8 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An incomplete write after everything that was acknowledged.
    Torn,
    /// One bit in the middle of the log.
    Flip,
    /// The end of the log is cut off, with acknowledged entries.
    Truncate,
    /// A bit in every piece of a table of the state.
    FlipTable,
}

pub(super) fn of(what: What) -> Box<dyn Nemesis> {
    Box::new(Damage { what, seat: None, words: 0 })
}

struct Damage {
    what: What,
    seat: Option<Seat>,
    words: usize,
}

impl Nemesis for Damage {
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done> {
        Box::pin(async move {
            cluster.ready(LIMIT).await?;
            let seat = follower(cluster, dice).await?;
            let data = cluster.data(seat).ok_or_else(|| io::Error::other("the node has no data directory"))?;
            if self.what == What::FlipTable {
                // Otherwise there may be no table yet.
                cluster.snapshot(seat).await?;
            }
            cluster.kill(seat)?;
            cluster.damaged(seat)?;
            self.words = cluster.words(seat).len();
            let wal = match self.what {
                What::FlipTable => largest_table(&data)?,
                What::Torn | What::Flip | What::Truncate => newest_wal(&data.join("log"))?,
            };
            let mut bytes = fs::read(&wal)?;
            let (length, name) = (bytes.len(), wal.file_name().unwrap_or_default().to_string_lossy().into_owned());
            if length < 64 {
                return Err(io::Error::other(format!("{name} has only {length} bytes")));
            }
            let below = |dice: &mut Dice, limit: usize| usize::try_from(dice.below(limit as u64)).unwrap_or(0);
            let what = match self.what {
                What::Torn => {
                    // A record with a length greater than the rest of the file.
                    let torn = 8 + below(dice, 200);
                    bytes.extend([0x5a, 0x11, 0xc3, 0x70, 0xff, 0x03, 1]);
                    bytes.extend((0..torn).map(|_| dice.roll().to_le_bytes()[0]));
                    format!("{torn} bytes of an incomplete record are added at the end of {name}")
                }
                What::Flip => {
                    let at = below(dice, length / 2) + length / 8;
                    bytes[at] ^= 1 << dice.below(8);
                    format!("one bit of byte {at} of {length} in {name} is flipped")
                }
                What::FlipTable => {
                    // A single flipped bit may be in a place that is not read for a long time.
                    let pieces: Vec<usize> = (0..length).step_by(FLIP_EVERY).collect();
                    for piece in &pieces {
                        let at = piece + below(dice, FLIP_EVERY.min(length - piece));
                        bytes[at] ^= 1 << dice.below(8);
                    }
                    format!("{} bits of {length} bytes in the table {name} are flipped", pieces.len())
                }
                What::Truncate => {
                    let keep = length - 1 - below(dice, length / 3);
                    bytes.truncate(keep);
                    format!("the last {} of {length} bytes of {name} are cut off", length - keep)
                }
            };
            fs::write(&wal, bytes)?;
            self.seat = Some(seat);
            cluster.start_seat(seat).await?;
            Ok(Done { what: format!("node {seat}: {what}"), seats: vec![seat] })
        })
    }

    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool> {
        Box::pin(async move {
            let Some(seat) = self.seat.take() else { return Ok(false) };
            if !cluster.running().contains(&seat) && cluster.ended(seat).is_none() {
                cluster.start_seat(seat).await?;
            }
            let refused = cluster.mend(seat).await?;
            let said = cluster.words(seat).get(self.words..).unwrap_or_default().to_owned();
            match self.what {
                // It must say what to do, and refuse for no other reason.
                What::Flip => Ok(refused && said.contains("is damaged")),
                What::Torn => Ok(!refused),
                What::FlipTable => {
                    // A node that has not read the damaged part yet may find it at any time.
                    if !refused {
                        cluster.replace(seat).await?;
                    }
                    Ok(refused && said.contains("the state's RocksDB: Corruption"))
                }
                What::Truncate => Ok(!refused || said.contains("is damaged") || said.contains("has lost entries")),
            }
        })
    }
}

fn largest_table(data: &Path) -> io::Result<PathBuf> {
    let mut largest = None;
    for entry in fs::read_dir(data)? {
        let folder = entry?.path();
        if !folder.is_dir() || !folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("state")) {
            continue;
        }
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "sst") {
                largest = largest.max(Some((fs::metadata(&path)?.len(), path)));
            }
        }
    }
    largest.map(|(_, path)| path).ok_or_else(|| io::Error::other("the node has no table file"))
}

fn newest_wal(folder: &Path) -> io::Result<PathBuf> {
    let mut newest = None;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let (Some(number), Some("log")) = (number, path.extension().and_then(|extension| extension.to_str())) {
            newest = newest.max(Some((number, path)));
        }
    }
    newest.map(|(_, path)| path).ok_or_else(|| io::Error::other("there is no write-ahead file"))
}
