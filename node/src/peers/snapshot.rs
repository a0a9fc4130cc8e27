//! A snapshot on its way from a leader to a node that is too far behind for entries.
//!
//! Its files go one after the other, in chunks, a bounded number of which is unacknowledged. What has arrived stays
//! with the receiver: after a lost connection the next transfer of the same snapshot goes on from there, and a file
//! whose checksum differs in the end is sent anew.

pub(crate) mod receive;
pub(crate) mod send;
