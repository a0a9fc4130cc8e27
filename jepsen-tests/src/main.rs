//! `jepsen`: tears a cluster of real nodes apart and checks every promise of docs/GUARANTEES.md.

mod cluster;
mod dice;
mod history;
mod shim;
mod wire;

fn main() {}
