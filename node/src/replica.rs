//! A replica: Raft, the state machine, and the tasks around them.
//!
//! It is generic over runtime, disk and network, and knows no socket, no file system, no HTTP and no option of the
//! daemon.

pub mod calls;
pub mod clock;
mod compare;
pub mod disk_space;
pub mod followers;
pub mod hub;
pub(crate) mod leadership;
pub mod members;
pub mod node;
pub mod propose;
pub mod reads;
mod rights;
mod rules;
mod tick;

pub use compare::DIFFERS;
