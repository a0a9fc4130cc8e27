//! The errors of a call, in the kinds that a caller has to tell apart. No error says that a request failed if it may
//! have had an effect.

use api::{Code, Problem, TookEffect};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A node refused the request. It had no effect; trying again is a new request.
    #[error("refused, {}: {}", .0.code.name(), detail(.0))]
    Refused(Box<Problem>),
    /// The request certainly had no effect: no node accepted it in time, or it was a read, which never has one.
    #[error("the request had no effect: {why}")]
    Unavailable { why: String, retry_after_ms: Option<u64> },
    /// The request may have had an effect. Ask again with the same id: [`Call::key`] and [`Call::repeated`].
    ///
    /// [`Call::key`]: crate::Call::key
    /// [`Call::repeated`]: crate::Call::repeated
    #[error("the request may have had an effect (request id {request_id}): {why}")]
    Unknown { why: String, request_id: String },
    /// The client's configuration is invalid, or the server that answered is not a Tenure node. The request had no
    /// effect.
    #[error("{0}")]
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

fn detail(problem: &Problem) -> &str {
    problem.detail.as_deref().unwrap_or(&problem.title)
}
