//! Cursors: where a list continues, as its reader keeps it. The reader may not be allowed to see the entry at that
//! position, so a cursor is encrypted and authenticated. Any node of the cluster accepts cursors of the others, and no
//! other cursors.

use lease::Salt;
use lease::bounds::ITEM_ID_BYTES;
use lease::names::{ItemId, SpaceName};
use lease::numbers::ItemNo;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// A position in a list of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// After a live item, in order of creation.
    Live(ItemNo),
    /// After an ended item, in order of id.
    Ended(ItemId),
}

/// Bytes of the plain text: kind, length, value. Always the same number, so that a cursor does not reveal the length of
/// an id.
const PLAIN: usize = 2 + ITEM_ID_BYTES;
const TAG: usize = 16;
const _: () = assert!(ITEM_ID_BYTES <= u8::MAX as usize);

/// Seals positions with keys that only the nodes of the cluster have.
///
/// The tag is a keyed hash of the plain text, and the key stream is a keyed hash of the tag: equal positions give equal
/// cursors, and different positions different ones.
#[derive(Clone)]
pub(crate) struct Cursors {
    tags: [u8; 32],
    streams: [u8; 32],
}

impl fmt::Debug for Cursors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cursors")
    }
}

impl Cursors {
    #[must_use]
    pub(crate) fn new(salt: Salt) -> Self {
        let key: Vec<u8> = salt.0.iter().flat_map(|part| part.to_le_bytes()).collect();
        let of = |purpose: &str| hmac(&key, &[purpose.as_bytes()]);
        Self { tags: of("tags of list cursors"), streams: of("key streams of list cursors") }
    }

    pub(crate) fn seal(&self, space: &SpaceName, position: &Position) -> String {
        let (kind, bytes) = match position {
            Position::Live(ItemNo(no)) => (0, no.to_be_bytes().to_vec()),
            Position::Ended(id) => (1, id.as_str().as_bytes().to_vec()),
        };
        let mut plain = [0; PLAIN];
        plain[0] = kind;
        plain[1] = u8::try_from(bytes.len()).expect("an id is shorter");
        plain[2..2 + bytes.len()].copy_from_slice(&bytes);
        let tag = self.tag(space, &plain);
        self.stream(&tag, &mut plain);
        tag.iter().chain(&plain).map(|byte| format!("{byte:02x}")).collect()
    }

    /// None: no node of this cluster made this cursor for this space.
    pub(crate) fn open(&self, space: &SpaceName, cursor: &str) -> Option<Position> {
        if cursor.len() != 2 * (TAG + PLAIN) || !cursor.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let byte = |at: usize| u8::from_str_radix(&cursor[2 * at..2 * at + 2], 16).ok();
        let bytes = (0..TAG + PLAIN).map(byte).collect::<Option<Vec<u8>>>()?;
        let (tag, sealed) = bytes.split_first_chunk::<TAG>()?;
        let mut plain: [u8; PLAIN] = sealed.try_into().ok()?;
        self.stream(tag, &mut plain);
        // Compares every byte, however early one differs.
        let differs = self.tag(space, &plain).iter().zip(tag).fold(0, |differs, (one, other)| differs | (one ^ other));
        if differs != 0 {
            return None;
        }
        let named = plain.get(2..2 + usize::from(plain[1]))?;
        match plain[0] {
            0 => Some(Position::Live(ItemNo(u64::from_be_bytes(named.try_into().ok()?)))),
            _ => ItemId::known(str::from_utf8(named).ok()?).ok().map(Position::Ended),
        }
    }

    fn tag(&self, space: &SpaceName, plain: &[u8; PLAIN]) -> [u8; TAG] {
        let hash = hmac(&self.tags, &[plain, space.as_str().as_bytes()]);
        *hash.first_chunk().expect("longer than a tag")
    }

    fn stream(&self, tag: &[u8; TAG], bytes: &mut [u8; PLAIN]) {
        for (block, number) in bytes.chunks_mut(32).zip(0_u8..) {
            let stream = hmac(&self.streams, &[tag, &[number]]);
            block.iter_mut().zip(stream).for_each(|(byte, stream)| *byte ^= stream);
        }
    }
}

/// HMAC-SHA-256 (RFC 2104), for keys of at most a block.
fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let mut inner = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x36));
    parts.iter().for_each(|part| inner.update(part));
    Sha256::new_with_prefix(block.map(|byte| byte ^ 0x5c)).chain_update(inner.finalize()).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursors() -> Cursors {
        Cursors::new(Salt([1, 2]))
    }

    fn space(name: &str) -> SpaceName {
        SpaceName::new(name).unwrap()
    }

    fn ended(id: &str) -> Position {
        Position::Ended(ItemId::new(id).unwrap())
    }

    #[test]
    fn a_cursor_opens_only_in_its_cluster_and_its_space() {
        for position in
            [ended("a"), ended(&"x".repeat(128)), Position::Live(ItemNo(7)), Position::Live(ItemNo(u64::MAX))]
        {
            let cursor = cursors().seal(&space("s"), &position);
            assert_eq!(cursors().open(&space("s"), &cursor), Some(position));
            assert_eq!(cursors().open(&space("t"), &cursor), None);
            assert_eq!(Cursors::new(Salt([1, 3])).open(&space("s"), &cursor), None);
        }
    }

    #[test]
    fn a_cursor_hides_the_id_and_its_length_and_cannot_be_forged() {
        let sealed = |id| cursors().seal(&space("s"), &ended(id));
        let (short, long) = (sealed("a"), sealed("payroll-01999-alice@example.com"));
        assert_eq!(short.len(), long.len());
        let same = short.bytes().zip(long.bytes()).filter(|(one, other)| one == other).count();
        assert!(same < short.len() / 4, "{same} of {}", short.len());
        for at in 0..long.len() {
            let mut moved = long.clone().into_bytes();
            moved[at] = if moved[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(cursors().open(&space("s"), str::from_utf8(&moved).unwrap()), None, "at {at}");
        }
        for made in [
            "",
            "a",
            "17",
            "payroll-01999-alice@example.com",
            &long[2..],
            &"0".repeat(long.len()),
            &"é".repeat(long.len() / 2),
        ] {
            assert_eq!(cursors().open(&space("s"), made), None, "{made}");
        }
    }

    #[test]
    fn the_keyed_hash_matches_the_test_vector_of_rfc_4231() {
        // RFC 4231, test case 2.
        let hash: String =
            hmac(b"Jefe", &[b"what do ya want ", b"for nothing?"]).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
