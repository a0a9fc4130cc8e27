//! A node of a Tenure cluster: it orders commands by Raft, stamps them with the time, and answers callers.
//!
//! It does not decide about leases: only [`lease::State::apply`] does.
//!
//! Each module may use only the modules above it in this list. `tests/tidy.rs` checks this.

pub mod net;

pub mod replica;

pub mod peers;

pub mod admin;

pub mod observe;

pub mod edge;

pub mod daemon;
