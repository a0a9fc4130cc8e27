//! `jepsen`: tears a cluster of real nodes apart and checks every promise of docs/GUARANTEES.md.

mod checkers;
mod dice;
mod history;
mod report;

fn main() {}
