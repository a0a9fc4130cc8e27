//! No success, in the three kinds that a caller has to tell apart. Never says that something failed which may have
//! happened.

use api::{Code, Problem, TookEffect};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The answer is no. It had no effect; trying again is a new request.
    Refused(Box<Problem>),
    /// It certainly did not happen: nobody took it in time. A read has no effect anyway.
    Unavailable { why: String, retry_after_ms: Option<u64> },
    /// Nobody can say whether it happened. Ask again under the same id: [`Call::key`] and [`Call::repeated`].
    ///
    /// [`Call::key`]: crate::Call::key
    /// [`Call::repeated`]: crate::Call::repeated
    Unknown { why: String, request_id: String },
    /// The client is set up wrongly, or what answered is no node. It had no effect.
    Invalid(String),
}

impl Error {
    #[must_use]
    pub fn took_effect(&self) -> TookEffect {
        match self {
            Self::Refused(_) | Self::Unavailable { .. } | Self::Invalid(_) => TookEffect::No,
            Self::Unknown { .. } => TookEffect::Unknown,
        }
    }

    /// Whether the same wish, sent later, may be granted.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        match self {
            Self::Refused(problem) => problem.may_retry,
            Self::Unavailable { .. } | Self::Unknown { .. } => true,
            Self::Invalid(_) => false,
        }
    }

    /// Of a refusal.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        self.problem().map(|problem| problem.code)
    }

    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            Self::Unavailable { .. } | Self::Unknown { .. } | Self::Invalid(_) => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(problem) => {
                write!(f, "refused, {}: {}", problem.code.name(), problem.detail.as_deref().unwrap_or(&problem.title))
            }
            Self::Unavailable { why, .. } => write!(f, "it did not happen: {why}"),
            Self::Unknown { why, request_id } => write!(f, "it may have happened (request {request_id}): {why}"),
            Self::Invalid(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}
