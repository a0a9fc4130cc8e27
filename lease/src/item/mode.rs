//! Where an item may run, and where a worker runs.

use crate::caller::Caller;
use crate::names::ActorId;
use serde::{Deserialize, Serialize};

/// Where an item may run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mode {
    Any,
    Cloud,
    /// Only on the machines of one person, who must be the creator.
    Local {
        owner: ActorId,
    },
}

impl Mode {
    #[must_use]
    pub fn owner(&self) -> Option<&ActorId> {
        match self {
            Self::Any | Self::Cloud => None,
            Self::Local { owner } => Some(owner),
        }
    }

    /// Whether the caller may see an item of this mode. A local item is visible only to callers that work for its
    /// owner.
    #[must_use]
    pub fn is_open_to(&self, caller: &Caller) -> bool {
        self.owner().is_none_or(|owner| caller.works_for(owner))
    }
}

/// The mode in which a worker runs, or by which a caller filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunsIn {
    Any,
    Cloud,
    Local,
}

impl RunsIn {
    #[must_use]
    pub fn takes(self, mode: &Mode) -> bool {
        match (self, mode) {
            (Self::Any, _) | (_, Mode::Any) | (Self::Cloud, Mode::Cloud) | (Self::Local, Mode::Local { .. }) => true,
            (Self::Cloud, Mode::Local { .. }) | (Self::Local, Mode::Cloud) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_takes_items_of_its_mode() {
        let local = Mode::Local { owner: ActorId::new("jo").unwrap() };
        let modes = [&Mode::Any, &Mode::Cloud, &local];
        assert_eq!(modes.map(|mode| RunsIn::Any.takes(mode)), [true, true, true]);
        assert_eq!(modes.map(|mode| RunsIn::Cloud.takes(mode)), [true, true, false]);
        assert_eq!(modes.map(|mode| RunsIn::Local.takes(mode)), [true, false, true]);
    }
}
