//! The JSON contract: what callers send, what they are answered, and the closed list of codes.
//!
//! A request becomes a [`lease::Command`], an outcome or a view becomes a reply. Nothing here decides anything, and
//! nothing here knows of HTTP but the status that belongs to a code. Durations are milliseconds and end in `_ms`;
//! moments of cluster time end in `_at_ms` and have a date for people beside them.

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

/// A revision as it is written, `epoch.seq`.
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
