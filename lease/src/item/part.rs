//! The body of an item: its parts, and how long each of them is.

use crate::bounds::BODY_BYTES;
use serde::de::Error;
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A part of an item's body. The rules do not read it; they only check which callers may write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Part {
    Prompt,
    /// Trusted: only a dispatcher may set it.
    Instructions,
    /// Untrusted: shown as untrusted input.
    Context,
    Data,
    Plan,
    ExternalUrl,
    Error,
    Result,
}

impl Part {
    pub const ALL: [Self; 8] = [
        Self::Prompt,
        Self::Instructions,
        Self::Context,
        Self::Data,
        Self::Plan,
        Self::ExternalUrl,
        Self::Error,
        Self::Result,
    ];

    /// Whether the holder may write this part. Only a dispatcher may write the others.
    #[must_use]
    pub fn is_holders(self) -> bool {
        matches!(self, Self::Plan | Self::ExternalUrl | Self::Error | Self::Result)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Instructions => "instructions",
            Self::Context => "context",
            Self::Data => "data",
            Self::Plan => "plan",
            Self::ExternalUrl => "external_url",
            Self::Error => "error",
            Self::Result => "result",
        }
    }
}

/// Which parts a body has and how long each is. Takes a few bytes in the item, where a list would need an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// One bit for each existing part.
    there: u8,
    /// The length of each part minus one, because no part is empty and the longest has 64 KiB.
    last: [u16; Part::ALL.len()],
}

impl Parts {
    pub fn iter(&self) -> impl Iterator<Item = (Part, u32)> {
        let is_there = |part: &Part| self.there & (1 << *part as u8) != 0;
        Part::ALL.into_iter().filter(is_there).map(|part| (part, u32::from(self.last[part as usize]) + 1))
    }

    /// Sets the size of a part. An empty part does not exist.
    pub(super) fn set(&mut self, part: Part, bytes: usize) {
        let last = bytes.checked_sub(1);
        self.there &= !(1 << part as u8);
        self.there |= u8::from(last.is_some()) << part as u8;
        self.last[part as usize] = last.map_or(0, |last| u16::try_from(last).expect("bodies are bounded"));
    }
}

impl Serialize for Parts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parts = serializer.serialize_seq(Some(self.iter().count()))?;
        self.iter().try_for_each(|part| parts.serialize_element(&part))?;
        parts.end()
    }
}

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut parts = Self::default();
        for (part, bytes) in Vec::<(Part, u32)>::deserialize(deserializer)? {
            if bytes as usize > BODY_BYTES {
                return Err(D::Error::custom("a part longer than a body"));
            }
            parts.set(part, bytes as usize);
        }
        Ok(parts)
    }
}

const _: () = assert!(BODY_BYTES == 1 << u16::BITS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{decode, encode};

    #[test]
    fn parts_behave_like_a_list_of_parts() {
        let mut parts = Parts::default();
        let listed = |parts: &Parts| parts.iter().collect::<Vec<_>>();
        assert_eq!(listed(&parts), []);
        for (part, bytes) in [(Part::Result, 1), (Part::Prompt, BODY_BYTES), (Part::Plan, 7), (Part::Data, 300)] {
            parts.set(part, bytes);
        }
        parts.set(Part::Data, 0);
        parts.set(Part::Plan, 8);
        let list = vec![(Part::Prompt, 65_536), (Part::Plan, 8), (Part::Result, 1_u32)];
        assert_eq!(listed(&parts), list);
        assert_eq!(encode(&parts), encode(&list));
        assert_eq!(decode(&encode(&list)), Ok(parts));
        assert!(decode::<Parts>(&encode(&vec![(Part::Prompt, 65_537_u32)])).is_err());
        parts.set(Part::Prompt, 0);
        assert_eq!(listed(&parts), list[1..]);
    }
}
