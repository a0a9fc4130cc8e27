//! How fresh a read has to be.

use crate::path::Query;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// The read sees everything that was acknowledged before the call.
    #[default]
    Linearizable,
    /// The read sees the state of the node that is asked; the answer says how old it is.
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
