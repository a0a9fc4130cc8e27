//! The transport between nodes: which peers are admitted, what is known about a lost call, the order of entries, and
//! how a snapshot transfer continues after a cut.

#[path = "peers/append.rs"]
mod append;
#[path = "peers/calls.rs"]
mod calls;
#[path = "peers/certificates.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod certificates;
#[path = "peers/golden.rs"]
mod golden;
#[path = "peers/handshake.rs"]
mod handshake;
#[path = "peers/snapshot.rs"]
mod snapshot;
#[path = "peers/store.rs"]
mod store;
#[path = "peers/world.rs"]
mod world;
