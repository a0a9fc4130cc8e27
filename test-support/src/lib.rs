//! What the tests of several crates share: waiting, certificates, processes, networks with faults, requests. It knows
//! no test and decides nothing: a rule that a test checks belongs to that test.

pub mod documents;
pub mod gate;
pub mod timeless;
pub mod until;

#[cfg(feature = "rules")]
pub mod fleet;
#[cfg(feature = "rules")]
pub mod names;

#[cfg(feature = "processes")]
pub mod authority;
#[cfg(feature = "processes")]
pub mod network;
#[cfg(feature = "processes")]
pub mod process;
#[cfg(feature = "processes")]
pub mod program;
#[cfg(feature = "processes")]
pub mod proxy;
#[cfg(feature = "processes")]
pub mod relay;

#[cfg(feature = "clients")]
pub mod cluster;
#[cfg(feature = "clients")]
pub mod daemon;

#[cfg(feature = "nodes")]
pub mod peer_client;
#[cfg(feature = "nodes")]
mod peer_tls;
#[cfg(feature = "nodes")]
pub mod world;

pub use until::LIMIT;
#[cfg(feature = "processes")]
pub use until::{until, within};
