//! The daemon as operators run it: real processes on real disks and sockets that are killed, stopped, paused, damaged
//! and run out of space.

mod beginning;
mod callers;
mod damage;
mod dev;
mod full_disk;
mod history;
mod killing;
mod members;
mod options;
mod pausing;
mod restoring;
mod stopping;
mod words;
