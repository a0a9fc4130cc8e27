//! What the tests of several crates share: waiting, certificates, processes, networks with faults, requests. It knows
//! no test and decides nothing: a rule that a test checks belongs to that test.

pub mod documents;
pub mod gate;
pub mod until;

#[cfg(feature = "rules")]
pub mod fleet;
#[cfg(feature = "rules")]
pub mod names;

#[cfg(feature = "processes")]
pub mod authority;

#[cfg(feature = "nodes")]
mod peer_tls;

pub use until::LIMIT;
#[cfg(feature = "processes")]
pub use until::{until, within};
