//! Runs a cluster of real nodes under faults and checks every promise of docs/GUARANTEES.md: the cluster (`cluster`,
//! `wire`, `shim`), the faults (`nemesis`), the callers' requests (`workloads`), what callers saw (`history`), and the
//! verdict on each promise (`checkers`, `report`). The entry point is `run`.

pub mod caller;
pub mod callers;
pub mod checkers;
pub mod cluster;
pub mod controls;
pub mod dice;
pub mod faults;
pub mod history;
pub mod hostile;
pub mod nemesis;
pub mod recorder;
pub mod report;
pub mod resource;
pub mod restoring;
pub mod run;
pub mod shim;
pub mod soak;
pub mod terminal;
pub mod wire;
pub mod workloads;
pub mod world;
