//! The JSON contract: requests, answers, and the closed list of error codes.
//!
//! This crate converts a request to a [`lease::Command`], and an outcome or a view to an answer. It makes no decisions,
//! and the only part of HTTP in it is the status of each code. Durations are in milliseconds and their names end in
//! `_ms`. Names of moments of cluster time end in `_at_ms`, next to a field with the date for people.

pub mod claim;
pub mod cluster;
pub mod code;
pub mod dates;
pub mod event;
pub mod hold;
pub mod item;
pub mod names;
pub mod problem;
pub mod queue;
pub mod refusals;
pub mod space;
pub mod words;
pub mod worker;
pub mod write;

pub use code::{Code, TookEffect};
pub use dates::Calendar;
pub use problem::Problem;

/// The text form of a revision, `epoch.seq`.
pub(crate) mod revision {
    use lease::numbers::{Epoch, EventNumber};

    pub(crate) fn parse(text: &str) -> Option<EventNumber> {
        let (epoch, seq) = text.split_once('.')?;
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(epoch) || !is_number(seq) {
            return None;
        }
        Some(EventNumber { epoch: Epoch(epoch.parse().ok()?), seq: seq.parse().ok()? })
    }
}
