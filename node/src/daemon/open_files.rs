//! The limit of open files and sockets of this process, and how it is divided.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files of the databases (at most 512 for the state and 256 for the log), snapshots, backups and the runtime.
const OF_NODE: u64 = 896;
/// Connections from other nodes, including lost ones that are not detected yet.
const OF_PEERS: u64 = 640;

/// Raises the process's soft limit to the hard one, and returns the new limit.
///
/// If the limit cannot be raised, the node works with the current one.
#[must_use]
pub fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let count = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    // The hard limit may be above the system's maximum for a process.
    for wanted in [limit.maximum, Some(1 << 20), Some(1 << 16), Some(10_240)] {
        let raised = Rlimit { current: wanted, maximum: limit.maximum };
        if count(wanted) > count(limit.current) && setrlimit(Resource::Nofile, raised).is_ok() {
            return count(wanted);
        }
    }
    count(limit.current)
}

/// How many connections fit into a limit of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Connections from callers, without regard to other limits.
    pub callers: usize,
    /// Connections from other nodes.
    pub peers: usize,
}

impl Share {
    /// The node itself and its peers come first. Below 2,048 files they get three quarters, of which peers get a third.
    #[must_use]
    pub fn of(limit: u64) -> Self {
        let count = |files: u64| usize::try_from(files).unwrap_or(usize::MAX);
        let whole = OF_NODE + OF_PEERS;
        let reserve = whole.min(limit / 4 * 3);
        let peers = if reserve == whole { OF_PEERS } else { reserve / 3 };
        Self { callers: count(limit - reserve), peers: count(peers) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_and_its_peers_come_before_callers() {
        assert_eq!(Share::of(1_024), Share { callers: 256, peers: 256 });
        assert_eq!(Share::of(4_096), Share { callers: 2_560, peers: 640 });
        assert_eq!(Share::of(65_536), Share { callers: 64_000, peers: 640 });
        for limit in [1, 64, 256, 1_024, 2_047, 2_048, 2_049, 20_000, u64::MAX] {
            let Share { callers, peers } = Share::of(limit);
            assert!(u64::try_from(callers + peers).is_ok_and(|sum| sum <= limit), "{limit}");
        }
    }
}
