//! The client against real nodes: `tenured` processes that are killed, and networks that lose answers.

mod calls;
mod holding;
mod working;
