//! A node of a Tenure cluster: it orders commands by Raft, stamps them with the time, and answers callers.
//!
//! It does not decide about leases: only [`lease::State::apply`] does.

pub mod admin;
pub mod admission;
pub mod backup;
pub mod calls;
pub mod certificates;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod disk_space;
pub mod edge;
pub mod ending;
pub mod followers;
pub mod hub;
pub mod identity;
pub mod logs;
pub mod members;
pub mod metrics;
pub mod node;
pub mod open_files;
pub mod otlp;
pub mod peers;
mod places;
pub mod propose;
pub mod reads;
pub mod restore;
pub mod roster;
pub mod service;
pub mod status;
mod throttle;
pub mod trace;

mod compare;
mod leadership;
mod log_size;
mod retention;
mod rights;
mod rules;
mod tick;
