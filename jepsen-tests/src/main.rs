//! `jepsen`: tears a cluster of real nodes apart and checks every promise of docs/GUARANTEES.md.

mod caller;
mod dice;
mod history;
mod recorder;
mod resource;
mod workloads;
mod world;

fn main() {}
