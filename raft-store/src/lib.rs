//! Tenure's log, state and snapshots on RocksDB, as openraft wants them.
//!
//! The only crate that knows RocksDB. It knows no socket and no HTTP, and no rule: what an entry means is
//! [`lease::State::apply`]'s to say.

pub mod backup;
pub mod codec;
pub mod directory;
pub mod histogram;
pub mod log;
pub mod restore;
pub mod snapshot;
pub mod state;
pub mod types;
