//! Hashing with keyed SipHash, which is the same on every machine and in every version.

use crate::bounds;
use crate::numbers::SpaceNo;
use serde::{Deserialize, Serialize};
use siphasher::sip;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::fmt;
use std::hash::Hasher;

/// A random number, chosen once when a cluster is created. It prevents callers from choosing names that collide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Salt(pub [u64; 2]);

impl Salt {
    /// The hash of one value.
    pub(crate) fn hash(self, bytes: &[u8]) -> u128 {
        SipHasher13::new_with_keys(self.0[0], self.0[1]).hash(bytes).as_u128()
    }

    /// The hash of a name in a space.
    pub(crate) fn hash_name(self, space: SpaceNo, name: &str) -> u64 {
        // No name is longer than the space that this buffer has after the number.
        let mut bytes = [0; size_of::<SpaceNo>() + LONGEST_NAME];
        let (number, rest) = bytes.split_at_mut(size_of::<SpaceNo>());
        number.copy_from_slice(&space.0.to_le_bytes());
        rest[..name.len()].copy_from_slice(name.as_bytes());
        sip::SipHasher13::new_with_keys(self.0[0], self.0[1]).hash(&bytes[..size_of::<SpaceNo>() + name.len()])
    }
}

const LONGEST_NAME: usize = bounds::ACTOR_ID_BYTES;
const _: () = assert!(bounds::ITEM_ID_BYTES <= LONGEST_NAME);

/// The hash of all changes so far. Equal on two replicas that applied the same entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateHash(pub u128);

impl StateHash {
    /// The hash after a step that wrote these changes. The changes also contain the new `now` and the events.
    #[must_use]
    pub fn then(self, changes: &[u8]) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(&self.0.to_le_bytes());
        hasher.write(changes);
        Self(hasher.finish128().as_u128())
    }
}

impl fmt::Display for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn hashes_differ_by_name_space_and_salt() {
        let salt = Salt([1, 2]);
        let hashes: BTreeSet<u64> = [
            salt.hash_name(SpaceNo(0), "a"),
            salt.hash_name(SpaceNo(1), "a"),
            salt.hash_name(SpaceNo(0), "b"),
            salt.hash_name(SpaceNo(0), "ab"),
            salt.hash_name(SpaceNo(0), ""),
            Salt([1, 3]).hash_name(SpaceNo(0), "a"),
        ]
        .into();
        assert_eq!(hashes.len(), 6);
        assert_eq!(salt.hash_name(SpaceNo(7), &"x".repeat(256)), salt.hash_name(SpaceNo(7), &"x".repeat(256)));
    }

    #[test]
    fn the_state_hash_depends_on_all_earlier_changes() {
        let first = StateHash::default().then(b"one");
        assert_ne!(first.then(b"two"), StateHash::default().then(b"two"));
        assert_ne!(first, StateHash::default().then(b"two"));
        assert_eq!(StateHash(0xab).to_string(), format!("{}ab", "0".repeat(30)));
    }
}
