//! `jepsen`: tears a cluster of real nodes apart and checks every promise of docs/GUARANTEES.md.

mod dice;
mod history;

fn main() {}
