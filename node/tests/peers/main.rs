//! The transport between nodes: which peers are admitted, what is known about a lost call, the order of entries, and
//! how a snapshot transfer continues after a cut.

mod append;
mod calls;
mod golden;
mod handshake;
mod snapshot;
mod store;
mod world;
