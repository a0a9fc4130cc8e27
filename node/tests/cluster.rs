//! Nodes in one process, on real disks and real sockets: three and five of them, that fail, leave, join, lag and
//! come back.

#[path = "../../raft-store/tests/support/fleet.rs"]
mod fleet;
#[path = "../../raft-store/tests/support/gate.rs"]
mod gate;

#[path = "cluster/backups.rs"]
mod backups;
#[path = "cluster/bounded_log.rs"]
mod bounded_log;
#[path = "cluster/catching_up.rs"]
mod catching_up;
#[path = "cluster/concurrent_changes.rs"]
mod concurrent_changes;
#[path = "cluster/cut.rs"]
mod cut;
#[path = "cluster/divergence.rs"]
mod divergence;
#[path = "cluster/failover.rs"]
mod failover;
#[path = "cluster/leases.rs"]
mod leases;
#[path = "cluster/long_answers.rs"]
mod long_answers;
#[path = "cluster/lost_log.rs"]
mod lost_log;
#[path = "cluster/low_disk.rs"]
mod low_disk;
#[path = "cluster/membership.rs"]
mod membership;
#[path = "cluster/metrics.rs"]
mod metrics;
#[path = "cluster/operations.rs"]
mod operations;
#[path = "cluster/readers.rs"]
mod readers;
#[path = "cluster/reads.rs"]
mod reads;
#[path = "cluster/regressions.rs"]
mod regressions;
#[path = "cluster/rules.rs"]
mod rules;
#[path = "cluster/serving.rs"]
mod serving;
#[path = "cluster/world.rs"]
mod world;
