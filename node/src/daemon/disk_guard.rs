//! Watches the free space of the node's file system: decision 0022.
//!
//! While this node leads, it also asks the other voters. Below a quarter of its floor a node stops before its file
//! system is full, and it starts only when there is room again.

use crate::peers::PeerError;
use crate::peers::tokio_node::TokioNode;
use crate::peers::wire::{NodeQuestion, NodeReply};
use crate::replica::disk_space::DiskSpace;
use futures_util::future::join_all;
use raft_store::types::{Membership, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The default floor is this, or the file system's size divided by `FLOOR_PARTS` if that is lower.
const FLOOR_MAX: u64 = 1024 * 1024 * 1024;
const FLOOR_PARTS: u64 = 10;
/// A node stops below its floor divided by this.
const STOP_PARTS: u64 = 4;
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval while there is less than twice the floor: a disk can fill within a second.
const LOOK_CLOSELY: Duration = Duration::from_millis(100);
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// A voter counts as low after this many unanswered questions.
const SILENT_AFTER: u32 = 3;
/// Time between two attempts to hand over leadership to a node with room.
const HAND_OVER_EVERY: Duration = Duration::from_secs(10);
const HAND_OVER_WITHIN: Duration = Duration::from_secs(5);
/// Time between two log lines of a node that waits for room.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// The directory to watch, and its minimum of free space.
#[derive(Clone, Debug)]
pub(crate) struct Floor {
    directory: PathBuf,
    /// None: computed from the size of the file system.
    given: Option<u64>,
}

impl Floor {
    pub(crate) fn new(directory: PathBuf, given: Option<u64>) -> Self {
        Self { directory, given }
    }

    /// Returns the free bytes and the floor. Asks the file system, which may be slow: do not call on a runtime thread.
    fn look(&self) -> io::Result<(u64, u64)> {
        let existing = self.directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
        let found = rustix::fs::statvfs(existing)?;
        let floor = self.given.unwrap_or_else(|| FLOOR_MAX.min(found.f_blocks * found.f_frsize / FLOOR_PARTS));
        Ok((found.f_bavail * found.f_frsize, floor))
    }

    async fn look_aside(&self) -> io::Result<(u64, u64)> {
        let floor = self.clone();
        tokio::task::spawn_blocking(move || floor.look()).await.map_err(io::Error::other)?
    }
}

/// Waits until a starting node would not have to stop at once. Called before the databases are opened, which writes.
pub(crate) async fn wait_for_room(floor: &Floor) -> io::Result<()> {
    let mut said: Option<Instant> = None;
    loop {
        let (free, least) = floor.look_aside().await?;
        let needed = least / STOP_PARTS * 2;
        if free >= needed {
            if said.is_some() {
                tracing::info!(free, "there is room again");
            }
            return Ok(());
        }
        if said.is_none_or(|said| said.elapsed() > SAY_AGAIN) {
            said = Some(Instant::now());
            tracing::warn!(
                free,
                needed,
                "{}: waiting for room: the file system has too little free space to start. Enlarge it, or delete files that are \
                 not Tenure's; delete nothing in this directory",
                floor.directory.display()
            );
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Watches the file system. Returns the reason when this node must stop.
pub(crate) async fn watch(disk: &DiskSpace, floor: &Floor) -> String {
    let mut is_logged = false;
    loop {
        match floor.look_aside().await {
            Ok((free, least)) => {
                let was_low = disk.is_low();
                disk.saw(free, least);
                if disk.is_low() && !was_low {
                    tracing::warn!(free, floor = least, "disk space is low");
                } else if was_low && !disk.is_low() {
                    tracing::info!(free, floor = least, "disk space is no longer low");
                }
                if free < least / STOP_PARTS {
                    return format!(
                        "disk space is used up: {} has {free} bytes free, and this node stops below {} before a write fails. \
                         Nothing is lost. Enlarge the file system or delete files that are not Tenure's; this node can start \
                         again when {} bytes are free. Delete nothing in its directory",
                        floor.directory.display(),
                        least / STOP_PARTS,
                        least / STOP_PARTS * 2
                    );
                }
                is_logged = false;
                sleep(if free < least.saturating_mul(2) { LOOK_CLOSELY } else { LOOK_EVERY }).await;
            }
            Err(error) => {
                if !is_logged {
                    tracing::warn!(%error, "cannot determine the free space of the file system");
                }
                is_logged = true;
                sleep(LOOK_EVERY).await;
            }
        }
    }
}

/// While this node leads: asks the other voters, rejects new work when too many are low, and hands over if the others
/// have room and it does not.
pub(crate) async fn guard(node: TokioNode) {
    let disk = node.disk_space().clone();
    let mut heard: BTreeMap<NodeId, Heard> = BTreeMap::new();
    let mut handed_over: Option<Instant> = None;
    loop {
        sleep(if disk.is_low() { LOOK_CLOSELY } else { LOOK_EVERY }).await;
        if node.leader() != Some(node.id()) {
            heard.clear();
            disk.heard(BTreeMap::new());
            disk.refuse_work(false);
            continue;
        }
        // Its own disk is known before anyone has answered.
        if disk.is_low() {
            disk.refuse_work(true);
        }
        let membership = node.membership();
        ask(&node, &membership, &mut heard).await;
        let others: BTreeMap<NodeId, bool> = heard.iter().map(|(id, heard)| (*id, heard.is_low())).collect();
        let with_room: BTreeSet<NodeId> = others.iter().filter(|(_, is_low)| !**is_low).map(|(id, _)| *id).collect();
        let others_suffice = is_quorum(&membership, &with_room);
        // If no voter is known to be low, silent voters do not matter here: without a quorum nothing is committed
        // anyway.
        let some_are_low = heard.values().any(|heard| heard.is_low);
        let refuses = disk.is_low() || (some_are_low && !is_quorum(&membership, &with(&with_room, node.id())));
        if refuses != disk.refuses_work() || (refuses && others != disk.others()) {
            let low: Vec<NodeId> = others.iter().filter(|(_, is_low)| **is_low).map(|(id, _)| *id).collect();
            let own = disk.is_low();
            if refuses {
                tracing::warn!(own, others = ?low, "disk space is low: only commands that keep or end a lease are accepted");
            } else {
                tracing::info!("enough voters have disk space: all commands are accepted");
            }
        }
        disk.heard(others);
        disk.refuse_work(refuses);
        if disk.is_low() && others_suffice && handed_over.is_none_or(|last| last.elapsed() > HAND_OVER_EVERY) {
            handed_over = Some(Instant::now());
            if let Some(to) = furthest(&node, &with_room) {
                tracing::info!(to, "handing over leadership to a node with disk space");
                if let Err(error) = node.transfer(Some(to), HAND_OVER_WITHIN).await {
                    tracing::warn!(%error, "could not hand over leadership");
                }
            }
        }
    }
}

/// The last report of a voter.
#[derive(Default)]
struct Heard {
    is_low: bool,
    /// Unanswered questions since then.
    unanswered: u32,
}

impl Heard {
    /// A silent voter counts as low: it may come back with a full disk, and is missing until then.
    fn is_low(&self) -> bool {
        self.is_low || self.unanswered >= SILENT_AFTER
    }
}

async fn ask(node: &TokioNode, membership: &Membership, heard: &mut BTreeMap<NodeId, Heard>) {
    let voters: BTreeSet<NodeId> = membership.voter_ids().filter(|id| *id != node.id()).collect();
    heard.retain(|id, _| voters.contains(id));
    let asking = voters
        .iter()
        .filter_map(|id| Some((*id, membership.get_node(id)?)))
        .map(|(id, member)| async move { (id, node.calls().ask(id, member, NodeQuestion::Disk, ANSWER_WITHIN).await) });
    for (id, answer) in join_all(asking).await {
        let heard = heard.entry(id).or_default();
        match answer {
            Ok(NodeReply::Disk(reply)) => *heard = Heard { is_low: reply.is_low, unanswered: 0 },
            // An older build closes the connection: the node is up, but does not report.
            Err(PeerError::Lost { .. }) => {}
            _ => heard.unanswered = heard.unanswered.saturating_add(1),
        }
    }
}

fn with(nodes: &BTreeSet<NodeId>, own: NodeId) -> BTreeSet<NodeId> {
    nodes.iter().copied().chain([own]).collect()
}

/// Whether the nodes are a quorum; during a membership change, of the old and of the new voters.
fn is_quorum(membership: &Membership, nodes: &BTreeSet<NodeId>) -> bool {
    membership.get_joint_config().iter().all(|voters| voters.intersection(nodes).count() > voters.len() / 2)
}

fn furthest(node: &TokioNode, among: &BTreeSet<NodeId>) -> Option<NodeId> {
    use openraft::async_runtime::watch::WatchReceiver;
    let metrics = node.raft().metrics();
    let metrics = metrics.borrow_watched();
    let matched = metrics.replication.iter().flatten().filter(|(id, _)| among.contains(*id));
    matched.max_by_key(|(_, matched)| matched.as_ref().map(|id| id.index)).map(|(id, _)| *id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft_store::types::Member;

    #[test]
    fn the_default_floor_depends_on_the_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("not/there/yet");
        let (free, floor) = Floor::new(nowhere.clone(), None).look().unwrap();
        assert!(free > 0 && floor > 0 && floor <= FLOOR_MAX, "{free} {floor}");
        assert_eq!(Floor::new(nowhere, Some(7)).look().unwrap().1, 7);
    }

    #[test]
    fn a_joint_quorum_needs_a_majority_of_old_and_new_voters() {
        let membership = |configs: Vec<BTreeSet<NodeId>>| {
            let members: BTreeMap<NodeId, Member> = (1..=5).map(|id| (id, Member::default())).collect();
            Membership::new(configs, members).unwrap()
        };
        let three = membership(vec![BTreeSet::from([1, 2, 3])]);
        assert!(is_quorum(&three, &BTreeSet::from([1, 3])) && !is_quorum(&three, &BTreeSet::from([1, 4, 5])));
        let joint = membership(vec![BTreeSet::from([1, 2, 3]), BTreeSet::from([3, 4, 5])]);
        assert!(is_quorum(&joint, &BTreeSet::from([2, 3, 4])) && !is_quorum(&joint, &BTreeSet::from([1, 2, 3])));
    }

    #[test]
    fn a_voter_that_is_silent_for_long_counts_as_low() {
        let mut heard = Heard::default();
        assert!(!heard.is_low());
        heard.unanswered = SILENT_AFTER;
        assert!(heard.is_low());
    }
}
