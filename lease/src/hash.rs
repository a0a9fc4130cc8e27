//! Hashing: keyed SipHash, the same on every machine and in every version.

use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::fmt;
use std::hash::Hasher;

/// A random number made once, when a cluster is born. It keeps callers from choosing names that collide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Salt(pub [u64; 2]);

impl Salt {
    pub(crate) fn hasher(self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }

    pub(crate) fn hash(self, parts: &[&[u8]]) -> u128 {
        let mut hasher = self.hasher();
        for part in parts {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        hasher.finish128().as_u128()
    }
}

/// The hash of everything that ever changed: equal on two replicas that applied the same entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateHash(pub u128);

impl StateHash {
    /// The hash after a step that wrote these changes. Changes carry the new `now` and the events, too.
    #[must_use]
    pub fn then(self, changes: &[u8]) -> Self {
        Self(Salt::default().hash(&[&self.0.to_le_bytes(), changes]))
    }
}

impl fmt::Display for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
