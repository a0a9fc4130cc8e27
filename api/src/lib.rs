//! The contract of the calls: headers, queries, requests, answers, and the closed list of error codes.
//!
//! This crate converts a request to a [`lease::Command`], and an outcome or a view to an answer. It makes no decisions.
//! All that it knows of HTTP is the status of each code and the names of headers. Durations are in milliseconds and
//! their names end in `_ms`. Names of moments of cluster time end in `_at_ms`, next to a field with the date for people.

pub mod answer;
pub mod body;
pub mod claim;
pub mod cluster;
pub mod code;
pub mod dates;
pub mod event;
pub mod headers;
pub mod hold;
pub mod item;
pub mod limits;
pub mod line;
pub mod names;
pub mod problem;
pub mod query;
pub mod queue;
pub mod refusals;
pub mod space;
pub mod stream;
pub mod words;
pub mod worker;
pub mod write;

pub use code::{Code, TookEffect};
pub use dates::Calendar;
pub use problem::Problem;
