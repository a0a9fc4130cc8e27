//! What the transport between nodes promises: who is let in, what of a lost call is known, in which order entries
//! arrive, and how a snapshot goes on after a cut.

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
