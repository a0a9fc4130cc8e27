//! The command `tenure` against real nodes: its output for people and for programs, and its exit codes.

#[expect(dead_code, reason = "shared with other tests")]
#[path = "processes/cluster.rs"]
mod cluster;
#[path = "processes/daemon.rs"]
mod daemon;
#[path = "processes/proxy.rs"]
mod proxy;
#[path = "cli/resource.rs"]
mod resource;
#[path = "cli/timeless.rs"]
mod timeless;
#[path = "cli/world.rs"]
mod world;

#[path = "cli/adding.rs"]
mod adding;
#[path = "cli/claiming.rs"]
mod claiming;
#[path = "cli/clusters.rs"]
mod clusters;
#[path = "cli/exec.rs"]
mod exec;
#[path = "cli/help.rs"]
mod help;
#[path = "cli/killed.rs"]
mod killed;
#[path = "cli/looking.rs"]
mod looking;
#[path = "cli/operating.rs"]
mod operating;
#[path = "cli/partition.rs"]
mod partition;
#[path = "cli/profiles.rs"]
mod profiles;
#[path = "cli/slept.rs"]
mod slept;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/verbs.rs"]
mod verbs;
#[path = "cli/work.rs"]
mod work;
#[path = "cli/writing.rs"]
mod writing;
