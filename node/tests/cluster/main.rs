//! Nodes in one process, on real disks and real sockets: three and five of them, that fail, leave, join, lag and
//! come back.

mod backups;
mod bounded_log;
mod catching_up;
mod concurrent_changes;
mod cut;
mod divergence;
mod failover;
mod leases;
mod long_answers;
mod lost_log;
mod low_disk;
mod membership;
mod metrics;
mod operations;
mod readers;
mod reads;
mod regressions;
mod rules;
mod serving;
mod world;
