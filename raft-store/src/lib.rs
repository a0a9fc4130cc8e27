//! Tenure's log, state and snapshots on RocksDB, with the interfaces that openraft requires.
//!
//! The only crate that uses RocksDB. It has no network code and no rules: [`lease::State::apply`] defines what an entry
//! does.

mod background;
pub mod backup;
mod backup_slots;
pub mod codec;
pub mod directory;
pub mod histogram;
pub mod log;
pub mod restore;
pub mod snapshot;
pub mod state;
pub mod types;
