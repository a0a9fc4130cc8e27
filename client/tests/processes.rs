//! The client against real nodes: `tenured` processes that are killed, and networks that lose answers.

#[path = "processes/daemon.rs"]
mod daemon;
#[path = "processes/proxy.rs"]
mod proxy;

#[path = "processes/calls.rs"]
mod calls;
#[path = "processes/holding.rs"]
mod holding;
#[path = "processes/working.rs"]
mod working;
