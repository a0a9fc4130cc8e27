//! How fresh a view has to be.

use crate::path::Query;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Everything that was acknowledged before the call is in it.
    #[default]
    Linearizable,
    /// As the node that is asked has it; the answer says how old that is.
    Local,
}

impl Consistency {
    pub(crate) fn said(self, query: Query) -> Query {
        match self {
            Self::Linearizable => query,
            Self::Local => query.say("consistency", ["local"]),
        }
    }
}
