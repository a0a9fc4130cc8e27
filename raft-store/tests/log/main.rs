//! The log on a real disk: openraft's own suite, restarts, damage, failing writes, and reads during writes.

mod bytes;
mod damage;
mod failure;
mod machine;
mod process;
mod purge;
mod reads;
mod restart;
mod sharing;
mod suite;
mod world;
