//! The command `tenure` against real nodes: what people read, what programs read, and how it ends.

#[expect(dead_code, reason = "shared with the tests of the library, which make items themselves")]
#[path = "processes/daemon.rs"]
mod daemon;
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
#[path = "cli/looking.rs"]
mod looking;
#[path = "cli/operating.rs"]
mod operating;
#[path = "cli/profiles.rs"]
mod profiles;
#[path = "cli/work.rs"]
mod work;
#[path = "cli/writing.rs"]
mod writing;
