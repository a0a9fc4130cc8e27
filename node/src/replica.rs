//! A replica: Raft, the state machine, and the tasks around them.
//!
//! It is generic over runtime, disk and network, and knows no socket, no file system, no HTTP and no option of the
//! daemon.

pub mod change;
pub mod clock;
mod compare;
pub mod disk_space;
pub mod followers;
pub mod hub;
pub(crate) mod leadership;
mod leaving;
pub mod members;
pub mod no_outcome;
pub mod node;
pub mod peer_calls;
pub mod propose;
pub mod reads;
mod rights;
pub mod role;
mod rules;
mod submit;
mod tick;
pub mod wall;

pub use compare::DIFFERS;
