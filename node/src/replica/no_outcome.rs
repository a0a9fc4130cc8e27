//! Why a command has no outcome: it did not happen, or nobody knows whether it happened.

use std::fmt;

/// Why there is no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoOutcome {
    /// It did not happen and will not: it may be sent again, to any node.
    Unavailable(String),
    /// It did not happen: disk space is low, and this command neither keeps nor ends a lease. It may be sent again
    /// later.
    LowOnDisk(String),
    /// It did not happen, and never will: the commands, or their largest possible answers, exceed a limit.
    TooLarge { what: &'static str, bytes: usize, max: usize },
    /// It may have happened, or may still happen. Send it again under the same request id to learn which.
    Unknown(String),
    /// This attempt was refused, but an earlier one may still happen. An immediate repeat would not resolve it.
    InDoubt(String),
}

impl fmt::Display for NoOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) | Self::LowOnDisk(why) => write!(f, "unavailable: {why}"),
            Self::TooLarge { what, bytes, max } => {
                write!(f, "too large: {what} of {bytes} bytes, at most {max} are accepted at once")
            }
            Self::Unknown(why) | Self::InDoubt(why) => write!(f, "unknown whether it happened: {why}"),
        }
    }
}

impl std::error::Error for NoOutcome {}
