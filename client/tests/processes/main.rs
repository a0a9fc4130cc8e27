//! The client against real nodes: `tenured` processes that are killed, and networks that lose answers.

mod daemon;
mod proxy;

mod calls;
mod holding;
mod working;
