//! The command `tenure` against real nodes: its output for people and for programs, and its exit codes.

#[expect(dead_code, reason = "shared with other tests")]
#[path = "../processes/cluster.rs"]
mod cluster;
#[path = "../processes/daemon.rs"]
mod daemon;
#[path = "../processes/proxy.rs"]
mod proxy;
mod resource;
mod timeless;
mod world;

mod adding;
mod claiming;
mod clusters;
mod exec;
mod help;
mod killed;
mod looking;
mod operating;
mod partition;
mod profiles;
mod slept;
mod terminal;
mod verbs;
mod work;
mod writing;
