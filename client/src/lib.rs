//! The client of Tenure: every call of a node, and leases that renew themselves.
//!
//! Any node serves any call. A call that nobody took is sent to the next node; one that was not answered is repeated under
//! the same id, so that it has one effect; a refusal is returned at once. An [`Error`] tells what certainly did not happen
//! from what may have.

mod call;
mod claim;
mod claims;
mod client;
mod clock;
mod cluster;
mod config;
mod consistency;
mod endpoint;
mod error;
mod events;
mod holds;
mod items;
mod node;
mod path;
mod queues;
mod retry;
mod spaces;
mod transport;
mod watch;
mod workers;
mod writes;

#[cfg(test)]
mod fake;

pub use api;
pub use call::{Age, Answer, Call};
pub use claim::{Claim, Claiming, Lost};
pub use claims::PeekQuery;
pub use client::Client;
pub use clock::{Clock, Moment};
pub use cluster::Backup;
pub use config::{Config, Identity, Session};
pub use consistency::Consistency;
pub use endpoint::Endpoint;
pub use error::Error;
pub use events::EventsQuery;
pub use items::{IfClaimed, ItemsQuery, POLL_MAX};
pub use lease::names;
pub use lease::numbers::Token;
pub use node::{Health, Node};
pub use queues::PageQuery;
pub use watch::{Ended, Watch};
