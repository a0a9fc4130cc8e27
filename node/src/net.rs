//! What the listeners of a node share, whoever connects to them: places for connections, certificates, and log lines
//! about connections.

pub mod certificates;
pub(crate) mod slots;
pub(crate) mod socket;
pub(crate) mod throttle;
