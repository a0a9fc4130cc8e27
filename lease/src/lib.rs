//! The rules of Tenure, once: who holds what, and why.
//!
//! ```text
//! state + entry { at, wall, commands }  →  state + outcomes + events + changed records
//! ```
//!
//! A pure, synchronous, total function. There is no clock, no randomness, no thread, no disk and no network in this
//! crate, and no word of consensus: a shell stamps time on entries, orders them, keeps the records that changed, and
//! hands the outcomes to those who asked. Two replicas that apply the same entries have the same bytes.
//!
//! Where to look: a noun has a file of its own (`item`, `standing`, `line`, `policy`, …), a verb stands in `apply/`,
//! and [`bounds`] has every number.

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
pub mod policy;
pub mod queue;
pub mod record;
pub mod refusal;
pub mod request_memory;
pub mod rights;
pub mod sabotage;
pub mod space;
pub mod standing;
pub mod views;
pub mod worker;

mod apply;
mod share;
mod state;

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
