//! What the listeners of a node share, for peers and for callers: places for connections, certificates, and log lines
//! about connections.

pub mod certificates;
pub(crate) mod slots;
pub(crate) mod socket;
pub(crate) mod throttle;
