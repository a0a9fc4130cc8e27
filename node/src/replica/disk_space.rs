//! What a node knows about free disk space, and whether it rejects new work: decision 0022.
//!
//! Below its floor a node is low. A leader rejects new work while it is low itself, or while others are low and the
//! voters that answer and are not low form no quorum: its proposals would fill disks that the cluster needs.

use raft_store::types::NodeId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The retry time that rejected callers get.
pub const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What a node knows about free disk space. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct DiskSpace(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    free: AtomicU64,
    floor: AtomicU64,
    is_low: AtomicBool,
    refuses_work: AtomicBool,
    /// Whether each other voter is low, as reported to this leader.
    others: Mutex<BTreeMap<NodeId, bool>>,
}

impl DiskSpace {
    /// Bytes available to this node on its file system, as last measured.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.0.free.load(Ordering::Relaxed)
    }

    /// The node is low with fewer free bytes than this.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.0.floor.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn is_low(&self) -> bool {
        self.0.is_low.load(Ordering::Relaxed)
    }

    /// Whether this node, as the leader, accepts only commands that keep or end a lease.
    #[must_use]
    pub fn refuses_work(&self) -> bool {
        self.0.refuses_work.load(Ordering::Relaxed)
    }

    /// Whether each other voter is low. Empty on a node that does not lead.
    #[must_use]
    pub fn others(&self) -> BTreeMap<NodeId, bool> {
        self.0.others.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stores a measurement. A low node stays low until it has a quarter more than its floor, so that it does not flap.
    pub fn saw(&self, free: u64, floor: u64) {
        self.0.free.store(free, Ordering::Relaxed);
        self.0.floor.store(floor, Ordering::Relaxed);
        let wanted = if self.is_low() { floor + floor / 4 } else { floor };
        self.0.is_low.store(free < wanted, Ordering::Relaxed);
    }

    /// Stores whether each other voter is low.
    pub(crate) fn heard(&self, others: BTreeMap<NodeId, bool>) {
        *self.0.others.lock().unwrap_or_else(PoisonError::into_inner) = others;
    }

    pub(crate) fn refuse_work(&self, refuses: bool) {
        self.0.refuses_work.store(refuses, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn a_low_node_stays_low_until_a_quarter_above_the_floor_is_free() {
        let disk = DiskSpace::default();
        let seen = |free: u64| {
            disk.saw(free * MIB, 100 * MIB);
            disk.is_low()
        };
        assert!(!seen(100));
        assert!(seen(99) && seen(100) && seen(124));
        assert!(!seen(125) && !seen(100));
    }
}
