//! The HTTP server on loopback, with well-behaved and hostile callers.

mod bodies;
mod crowds;
mod http1;
mod http2;
mod stopping;
mod tls;
mod world;
