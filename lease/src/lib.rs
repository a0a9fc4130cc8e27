//! The rules of Tenure: who holds which item, and why.
//!
//! ```text
//! state + entry { at, wall, commands }  →  state + outcomes + events + changed records
//! ```
//!
//! A pure, synchronous, total function. This crate has no clock, no randomness, no threads, no disk, no network and no
//! consensus. Its caller stamps time on entries, orders them, stores the records that changed, and returns the outcomes
//! to the callers. Two replicas that apply the same entries have the same bytes.
//!
//! Where to look: two nouns share this crate. The work item, which is what the work is, is in `item`. The lease machine,
//! which decides who holds an item, has a file for each noun (`standing`, `line`, `policy`, …); the commands are in
//! `apply/`, and all limits are in [`bounds`].

pub mod answer_size;
pub mod archive;
pub mod bounds;
pub mod caller;
pub mod changes;
pub mod command;
pub mod disclose;
pub mod encoding;
pub mod event;
pub mod hash;
pub mod invariants;
pub mod item;
pub mod line;
pub mod names;
pub mod numbers;
pub mod outcome;
pub mod past_holder;
pub mod policy;
pub mod queue;
pub mod record;
pub mod refusal;
pub mod remembered;
pub mod rights;
pub mod space;
pub mod standing;
pub mod views;
pub mod worker;

mod apply;
mod share;
mod state;
mod words;

pub use apply::{Applied, NextDeadlines, check_new_names, validate};
pub use archive::{Archive, Records};
pub use command::{Attempt, Command, Entry, Request};
pub use event::Event;
pub use hash::{Salt, StateHash};
pub use outcome::Outcome;
pub use refusal::{Code, Refusal};
pub use rights::Foreseen;
pub use state::State;
pub use state::load::LoadError;
pub use state::openings::Opening;
