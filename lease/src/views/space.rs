//! Spaces.

use crate::names::SpaceName;
use crate::policy::SpacePolicy;
use crate::space::{Space, SpaceCounts};
use crate::state::State;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceStats {
    pub space: SpaceName,
    pub counts: SpaceCounts,
    pub policy: SpacePolicy,
    pub version: u64,
}

impl State {
    #[must_use]
    pub fn spaces(&self) -> Vec<SpaceStats> {
        self.spaces.iter().map(SpaceStats::from).collect()
    }

    /// One space, if anything has ever happened in it.
    #[must_use]
    pub fn space_named(&self, name: &SpaceName) -> Option<SpaceStats> {
        self.space_numbers.get(name).map(|no| SpaceStats::from(self.space(*no)))
    }
}

impl From<&Space> for SpaceStats {
    fn from(space: &Space) -> Self {
        Self { space: space.name.clone(), counts: space.counts, policy: space.policy.clone(), version: space.version }
    }
}
