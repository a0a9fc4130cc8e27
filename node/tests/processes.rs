//! The daemon as operators run it: real processes on real disks and sockets that are killed, stopped, paused, damaged
//! and run out of space.

#[path = "../../raft-store/tests/support/fleet.rs"]
mod fleet;

#[path = "peers/certificates.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod certificates;

#[path = "processes/beginning.rs"]
mod beginning;
#[path = "processes/callers.rs"]
mod callers;
#[path = "processes/client.rs"]
mod client;
#[path = "processes/damage.rs"]
mod damage;
#[path = "processes/dev.rs"]
mod dev;
#[path = "processes/full_disk.rs"]
mod full_disk;
#[path = "processes/history.rs"]
mod history;
#[path = "processes/killing.rs"]
mod killing;
#[path = "processes/members.rs"]
mod members;
#[path = "processes/options.rs"]
mod options;
#[path = "processes/pausing.rs"]
mod pausing;
#[path = "processes/restoring.rs"]
mod restoring;
#[path = "processes/stopping.rs"]
mod stopping;
#[path = "processes/words.rs"]
mod words;
#[path = "processes/world.rs"]
mod world;
