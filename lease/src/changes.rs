//! The records that a step changed, already encoded. The store writes them and the state hash covers them.

use crate::encoding::encode_into;
use crate::record::Key;
use serde::Serialize;

/// An ordered list of changes. The later of two changes to the same key wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    kind: Kind,
    start: usize,
    middle: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Put = 1,
    Remove = 2,
    RemoveUnder = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    Put {
        key: &'a [u8],
        value: &'a [u8],
    },
    Remove {
        key: &'a [u8],
    },
    /// Every record whose key begins with this prefix.
    RemoveUnder {
        prefix: &'a [u8],
    },
}

impl Changes {
    /// Allocates room for the usual changes of this many commands.
    pub(crate) fn with_room_for(commands: usize) -> Self {
        Self { bytes: Vec::with_capacity(256 + 512 * commands), marks: Vec::with_capacity(4 + 4 * commands) }
    }

    pub(crate) fn put<T: Serialize>(&mut self, key: &Key, value: &T) {
        let start = self.begin(Kind::Put);
        key.encode_into(&mut self.bytes);
        let middle = self.bytes.len();
        encode_into(&mut self.bytes, value);
        self.finish(Kind::Put, start, middle);
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        self.remove_kind(Kind::Remove, key);
    }

    /// Removes all parts of an item's body, or all of its activities. `key` is any key of that item and kind.
    pub(crate) fn remove_under(&mut self, key: &Key) {
        self.remove_kind(Kind::RemoveUnder, key);
    }

    fn remove_kind(&mut self, kind: Kind, key: &Key) {
        let start = self.begin(kind);
        key.encode_into(&mut self.bytes);
        if kind == Kind::RemoveUnder {
            self.bytes.truncate(start + 1 + size_of::<u64>());
        }
        let end = self.bytes.len();
        self.finish(kind, start, end);
    }

    fn begin(&mut self, kind: Kind) -> usize {
        // The hash covers these bytes. The kind and the lengths make them unambiguous.
        self.bytes.push(kind as u8);
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.len()
    }

    fn finish(&mut self, kind: Kind, start: usize, middle: usize) {
        let end = self.bytes.len();
        let length = |n: usize| u32::try_from(n).expect("a record is far below 4 GiB").to_le_bytes();
        self.bytes[start - 8..start - 4].copy_from_slice(&length(middle - start));
        self.bytes[start - 4..start].copy_from_slice(&length(end - middle));
        self.marks.push(Mark { kind, start, middle, end });
    }

    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        self.marks.iter().map(|mark| {
            let key = &self.bytes[mark.start..mark.middle];
            match mark.kind {
                Kind::Put => Change::Put { key, value: &self.bytes[mark.middle..mark.end] },
                Kind::Remove => Change::Remove { key },
                Kind::RemoveUnder => Change::RemoveUnder { prefix: key },
            }
        })
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// All changes, in the form that the state hash covers.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Part;
    use crate::numbers::ItemNo;

    #[test]
    fn remove_under_removes_one_kind_of_one_item_only() {
        let mut changes = Changes::default();
        changes.put(&Key::Body(ItemNo(7), Part::Plan), &"x");
        changes.remove(&Key::Body(ItemNo(8), Part::Plan));
        changes.remove_under(&Key::Body(ItemNo(7), Part::Prompt));
        let prefix = [b'B', 0, 0, 0, 0, 0, 0, 0, 7];
        let listed: Vec<_> = changes.iter().collect();
        assert_eq!(listed[0], Change::Put { key: &[b'B', 0, 0, 0, 0, 0, 0, 0, 7, 4], value: &[1, 1, b'x'] });
        assert_eq!(listed[1], Change::Remove { key: &[b'B', 0, 0, 0, 0, 0, 0, 0, 8, 4] });
        assert_eq!(listed[2], Change::RemoveUnder { prefix: &prefix });
        assert_eq!((changes.len(), changes.is_empty(), Changes::default().is_empty()), (3, false, true));
    }

    #[test]
    fn different_changes_have_different_bytes() {
        let bytes = |make: &dyn Fn(&mut Changes)| {
            let mut changes = Changes::default();
            make(&mut changes);
            changes.as_bytes().to_vec()
        };
        let put = bytes(&|changes| changes.put(&Key::Wake(1), &2_u8));
        let other = bytes(&|changes| changes.put(&Key::Wake(1), &3_u8));
        let removed = bytes(&|changes| changes.remove(&Key::Wake(1)));
        assert!(put != other && put != removed && !removed.is_empty());
        assert_eq!(put[..9], [1, 9, 0, 0, 0, 2, 0, 0, 0], "what it is, and how long its key and value are");
    }
}
