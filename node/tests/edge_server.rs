//! The HTTP server on loopback, with well-behaved and hostile callers.

#[path = "edge_server/bodies.rs"]
mod bodies;
#[path = "edge_server/crowds.rs"]
mod crowds;
#[path = "edge_server/http1.rs"]
mod http1;
#[path = "edge_server/http2.rs"]
mod http2;
#[path = "edge_server/stopping.rs"]
mod stopping;
#[path = "edge_server/tls.rs"]
mod tls;
#[path = "edge_server/world.rs"]
mod world;
