//! A remembered request: its key and its answer, so that a repeat has no second effect.

use crate::bounds::REQUEST_MEMORY;
use crate::numbers::Time;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A keyed hash of (space, actor, session, request id), of a caller that was identified before. Its first bits are a
/// hash of the actor alone, so that an actor's share of the memory can be counted from the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestKey(pub u128);

pub(crate) const ACTOR_BITS: u32 = 12;

impl RequestKey {
    pub(crate) fn new(request: u128, actor: u64) -> Self {
        let rest = u128::BITS - ACTOR_BITS;
        Self(request & (u128::MAX >> ACTOR_BITS) | u128::from(actor) << rest)
    }

    pub(crate) fn actor(self) -> usize {
        (self.0 >> (u128::BITS - ACTOR_BITS)) as usize
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// The order in which requests are remembered, and so forgotten.
    pub seq: u64,
    pub at: Time,
    /// A hash of the command. The same id with another command is refused.
    pub body: u64,
    pub weight: u64,
    pub answer: RememberedAnswer,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RememberedAnswer {
    /// A claim in the wait line. A repeat is a poll and never joins again.
    Waiting,
    /// The encoded outcome.
    Given(Bytes),
}

impl Remembered {
    pub(crate) fn forgotten_at(&self) -> Time {
        self.at.after(REQUEST_MEMORY)
    }
}

impl RememberedAnswer {
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Waiting => 0,
            Self::Given(bytes) => bytes.0.len() as u64,
        }
    }
}

/// Bytes that serialize as one block instead of one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes(pub Box<[u8]>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsTheyAre;
        impl Visitor<'_> for AsTheyAre {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.into()))
            }
        }
        deserializer.deserialize_bytes(AsTheyAre)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_an_answer_is_that_of_its_bytes() {
        let given = |bytes: usize| RememberedAnswer::Given(Bytes(vec![7; bytes].into()));
        assert_eq!([RememberedAnswer::Waiting, given(0), given(1_000)].map(|answer| answer.size()), [0, 0, 1_000]);
    }
}
