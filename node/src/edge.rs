//! What callers reach a node by: HTTP, bounded in every direction, over the one command layer below.

pub mod body;
pub mod gate;
pub mod server;
pub mod tls;
