//! Tears a cluster of real nodes apart and checks every promise of docs/GUARANTEES.md: a cluster (`cluster`, `wire`, `shim`), what is
//! done to it (`nemesis`), what callers do meanwhile (`workloads`), what they saw (`history`), and what that says of each promise
//! (`checkers`, `report`). The program is `run`.

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
