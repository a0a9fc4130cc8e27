//! Transfers a snapshot from a leader to a node that is too far behind for entries.
//!
//! Files are sent one after the other in chunks, with a bounded number of unacknowledged chunks. The receiver keeps
//! what has arrived: after a lost connection the next transfer of the same snapshot continues from there, and a file
//! with a wrong checksum is sent again.

pub(crate) mod receive;
pub(crate) mod send;
