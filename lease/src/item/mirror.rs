//! Mirrors: a transition of an item may move the phase of another item, its target.

use serde::{Deserialize, Serialize};

/// The set of transitions that are mirrored to an item's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirrors(u8);

impl Mirrors {
    pub const ALL: Self = Self(0b1111);
    pub const NONE: Self = Self(0);

    #[must_use]
    pub fn with(self, transition: Transition) -> Self {
        Self(self.0 | 1 << transition as u8)
    }

    #[must_use]
    pub fn has(self, transition: Transition) -> bool {
        self.0 & (1 << transition as u8) != 0
    }
}

/// A transition of an item that may move the phase of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Transition {
    Claimed,
    Completed,
    AwaitingInput,
    AttemptsExhausted,
}

/// Why a transition of an item did not move the phase of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MirrorSkip {
    Held,
    Terminal,
    Missing,
    /// The target's queue has a list of phases, and this phase is not in it.
    NoSuchPhase,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naming_a_mirror_more_than_once_allows_it_once() {
        let mirrors = Mirrors::NONE.with(Transition::Completed).with(Transition::Claimed).with(Transition::Completed);
        let transitions =
            [Transition::Claimed, Transition::Completed, Transition::AwaitingInput, Transition::AttemptsExhausted];
        assert_eq!(transitions.map(|transition| mirrors.has(transition)), [true, true, false, false]);
        assert!(transitions.iter().all(|transition| Mirrors::ALL.has(*transition)));
    }
}
