//! What was answered to which request, so that a repeat has no second effect.

use crate::bounds::{REQUEST_MEMORY, REQUESTS_MAX};
use crate::numbers::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A keyed hash of (space, actor, session, request id): whose request it is was resolved before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestKey(pub u128);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// The order of remembering, and so of forgetting.
    pub seq: u64,
    pub at: Time,
    /// Of the command: the same id with another body is refused.
    pub body: u64,
    pub weight: u64,
    pub answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// A claim in line: a repeat is a poll, and never joins again.
    Waiting,
    /// The encoded outcome.
    Given(Box<[u8]>),
}

/// Every remembered request.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestMemory {
    by_key: BTreeMap<RequestKey, Remembered>,
    by_seq: BTreeMap<u64, RequestKey>,
    weight: u64,
}

impl RequestMemory {
    pub(crate) fn get(&self, key: RequestKey) -> Option<&Remembered> {
        self.by_key.get(&key)
    }

    pub(crate) fn insert(&mut self, key: RequestKey, remembered: Remembered) {
        self.weight += remembered.weight;
        self.by_seq.insert(remembered.seq, key);
        if let Some(earlier) = self.by_key.insert(key, remembered) {
            self.weight -= earlier.weight;
            self.by_seq.remove(&earlier.seq);
        }
    }

    /// Takes out the oldest request whose time is over, or that the cap pushes out.
    pub(crate) fn forget_one(&mut self, now: Time) -> Option<(RequestKey, Remembered)> {
        let (_, key) = self.by_seq.first_key_value()?;
        let oldest = &self.by_key[key];
        if oldest.forgotten_at() > now && self.weight <= REQUESTS_MAX {
            return None;
        }
        let (_, key) = self.by_seq.pop_first()?;
        let forgotten = self.by_key.remove(&key)?;
        self.weight -= forgotten.weight;
        Some((key, forgotten))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestKey, &Remembered)> {
        self.by_key.iter().map(|(key, remembered)| (*key, remembered))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }
}

impl Remembered {
    pub(crate) fn forgotten_at(&self) -> Time {
        self.at.after(REQUEST_MEMORY)
    }
}
