//! The end of an event stream.

use crate::code::Code;
use crate::problem::Problem;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The name of the last event of a stream. Its data is an [`End`].
pub const END: &str = "end";

/// Why a stream ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum End {
    /// The reader read nothing for too long. It may reconnect.
    SlowReader { detail: String },
    /// The node is stopping. The reader may reconnect to another node.
    Stopping { detail: String },
    /// The API key is no longer valid.
    Unauthenticated { detail: String },
    /// Events at the reader's position are no longer stored.
    PositionTooOld(Box<Problem>),
    /// The node cannot continue the stream. The reader may reconnect to another node.
    Internal(Box<Problem>),
}

impl From<Box<Problem>> for End {
    fn from(problem: Box<Problem>) -> Self {
        match problem.code {
            Code::PositionTooOld => Self::PositionTooOld(problem),
            _ => Self::Internal(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_has_its_reason_next_to_the_details() {
        let stopping = serde_json::to_value(End::Stopping { detail: "soon".into() }).unwrap();
        assert_eq!(stopping, serde_json::json!({ "reason": "stopping", "detail": "soon" }));
        let end = End::from(Box::new(Problem::new(Code::PositionTooOld)));
        let json = serde_json::to_value(&end).unwrap();
        assert_eq!((&json["reason"], &json["code"]), (&"position_too_old".into(), &"position_too_old".into()));
        assert_eq!(serde_json::from_value::<End>(json).unwrap(), end);
    }
}
