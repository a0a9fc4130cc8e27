//! The errors of a call, in the kinds that a caller has to tell apart. No error says that a request failed if it may
//! have had an effect.

use api::{Code, Problem, TookEffect};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A node refused the request. It had no effect; trying again is a new request.
    Refused(Box<Problem>),
    /// The request certainly had no effect: no node accepted it in time, or it was a read, which never has one.
    Unavailable { why: String, retry_after_ms: Option<u64> },
    /// The request may have had an effect. Ask again with the same id: [`Call::key`] and [`Call::repeated`].
    ///
    /// [`Call::key`]: crate::Call::key
    /// [`Call::repeated`]: crate::Call::repeated
    Unknown { why: String, request_id: String },
    /// The client's configuration is invalid, or the server that answered is not a Tenure node. The request had no
    /// effect.
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

    /// Whether the same request may succeed later.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        match self {
            Self::Refused(problem) => problem.may_retry,
            Self::Unavailable { .. } | Self::Unknown { .. } => true,
            Self::Invalid(_) => false,
        }
    }

    /// The code, if this is a refusal.
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
            Self::Unavailable { why, .. } => write!(f, "the request had no effect: {why}"),
            Self::Unknown { why, request_id } => {
                write!(f, "the request may have had an effect (request id {request_id}): {why}")
            }
            Self::Invalid(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}
