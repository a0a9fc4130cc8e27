//! The command `tenure` against real nodes: its output for people and for programs, and its exit codes.

mod resource;
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
