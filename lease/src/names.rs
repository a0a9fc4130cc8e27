//! Names that callers choose. A value of one of these types is always well-formed: it is checked on creation and on
//! decoding. Decoding accepts invisible characters, so that names stored before these were refused stay readable; a
//! node refuses them in new names.

use crate::bounds;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// Why a text is not a valid name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    Empty,
    TooLong {
        bytes: usize,
        max: usize,
    },
    ControlCharacter,
    /// An invisible character, or one that changes the direction of text. Names that differ only in it look the same.
    Invisible(char),
    SpaceAtEnd,
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "must not be empty"),
            Self::TooLong { bytes, max } => write!(f, "has {bytes} bytes, at most {max} are allowed"),
            Self::ControlCharacter => write!(f, "must not contain control characters"),
            Self::Invisible(c) => {
                write!(
                    f,
                    "must not contain U+{:04X}, an invisible character or one that changes the direction of text",
                    u32::from(*c)
                )
            }
            Self::SpaceAtEnd => write!(f, "must not begin or end with white space"),
        }
    }
}

impl std::error::Error for BadName {}

/// Whether a character is invisible or changes the direction of text: format controls, line and paragraph separators,
/// fillers and variation selectors. Unicode format characters that are drawn do not count.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    matches!(
        u32::from(c),
        0x00AD
            | 0x034F
            | 0x061C
            | 0x115F..=0x1160
            | 0x17B4..=0x17B5
            | 0x180B..=0x180F
            | 0x200B..=0x200F
            | 0x2028..=0x202E
            | 0x2060..=0x206F
            | 0x2800
            | 0x3164
            | 0xFE00..=0xFE0F
            | 0xFEFF
            | 0xFFA0
            | 0xFFF0..=0xFFFB
            | 0x13430..=0x1343F
            | 0x1BCA0..=0x1BCA3
            | 0x1D173..=0x1D17A
            | 0xE0000..=0xE0FFF
    )
}

fn check(text: &str, max: usize) -> Result<(), BadName> {
    check_known(text, max)?;
    text.chars().find(|c| is_invisible(*c)).map_or(Ok(()), |c| Err(BadName::Invisible(c)))
}

/// The rules that every stored name has always had to follow.
fn check_known(text: &str, max: usize) -> Result<(), BadName> {
    if text.is_empty() {
        Err(BadName::Empty)
    } else if text.len() > max {
        Err(BadName::TooLong { bytes: text.len(), max })
    } else if text.chars().any(char::is_control) {
        Err(BadName::ControlCharacter)
    } else if text.trim().len() != text.len() {
        Err(BadName::SpaceAtEnd)
    } else {
        Ok(())
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// # Errors
            /// When the text is empty, too long, or contains a forbidden character.
            pub fn new(text: &str) -> Result<Self, BadName> {
                check(text, $max)?;
                Ok(Self(Arc::from(text)))
            }

            /// A name that may have been stored before invisible characters were refused. Use it to look things up.
            ///
            /// # Errors
            /// As [`Self::new`], except that invisible characters are accepted.
            pub fn known(text: &str) -> Result<Self, BadName> {
                check_known(text, $max)?;
                Ok(Self(Arc::from(text)))
            }

            /// # Errors
            /// When the name is not valid for anything new.
            pub fn check_new(&self) -> Result<(), BadName> {
                check(&self.0, $max)
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a name")
                    }

                    fn visit_str<E: Error>(self, text: &str) -> Result<$name, E> {
                        $name::known(text).map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}

name! {
    /// An item's id, unique in its space.
    ItemId, bounds::ITEM_ID_BYTES
}
name! {
    /// The name of a space, which belongs to one tenant.
    SpaceName, bounds::SPACE_NAME_BYTES
}
name! { QueueName, bounds::QUEUE_NAME_BYTES }
name! {
    /// An authenticated identity. Opaque.
    ActorId, bounds::ACTOR_ID_BYTES
}
name! {
    /// One run of an actor. Opaque.
    SessionId, bounds::SESSION_ID_BYTES
}
name! {
    /// The caller's id of one request, so that a repeat has no second effect.
    RequestId, bounds::REQUEST_ID_BYTES
}
name! {
    /// A label on an item, and a capability of a worker.
    Label, bounds::LABEL_BYTES
}
name! {
    /// The step of an item in its queue's workflow, for example `work` or `review`.
    Phase, bounds::PHASE_BYTES
}

impl QueueName {
    /// A name before all others, because no valid name is empty.
    pub(crate) fn before_all() -> Self {
        Self(Arc::from(""))
    }
}

impl ActorId {
    /// A name before all others, because no valid name is empty.
    pub(crate) fn before_all() -> Self {
        Self(Arc::from(""))
    }
}

impl SpaceName {
    /// The space of callers that name none.
    #[must_use]
    pub fn fallback() -> Self {
        Self(Arc::from("default"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_on_creation() {
        assert!(Label::new("a").is_ok());
        assert!(Label::new("späte Prüfung/1, 2").is_ok());
        assert!(Label::new(&"x".repeat(64)).is_ok());
        assert_eq!(Label::new(""), Err(BadName::Empty));
        assert_eq!(Label::new(&"x".repeat(65)), Err(BadName::TooLong { bytes: 65, max: 64 }));
        assert_eq!(Label::new(&"ä".repeat(33)), Err(BadName::TooLong { bytes: 66, max: 64 }), "bytes count");
        assert_eq!(Label::new("a\tb"), Err(BadName::ControlCharacter));
        assert_eq!(Label::new("a\u{85}b"), Err(BadName::ControlCharacter));
        for hidden in ['\u{202e}', '\u{200b}', '\u{2028}', '\u{feff}', '\u{2066}', '\u{ad}', '\u{e0041}', '\u{fe0f}'] {
            assert_eq!(Label::new(&format!("a{hidden}b")), Err(BadName::Invisible(hidden)));
        }
        assert!(Label::new("é ß Ω ש ع 日本 🦀 e\u{301}").is_ok(), "what is seen is allowed");
        assert_eq!(Label::new(" a"), Err(BadName::SpaceAtEnd));
        assert_eq!(Label::new("a "), Err(BadName::SpaceAtEnd));
        let limits = [
            ItemId::new(&"x".repeat(129)).is_err() && ItemId::new(&"x".repeat(128)).is_ok(),
            SpaceName::new(&"x".repeat(65)).is_err() && SpaceName::new(&"x".repeat(64)).is_ok(),
            QueueName::new(&"x".repeat(65)).is_err() && QueueName::new(&"x".repeat(64)).is_ok(),
            ActorId::new(&"x".repeat(257)).is_err() && ActorId::new(&"x".repeat(256)).is_ok(),
            SessionId::new(&"x".repeat(257)).is_err() && SessionId::new(&"x".repeat(256)).is_ok(),
            RequestId::new(&"x".repeat(65)).is_err() && RequestId::new(&"x".repeat(64)).is_ok(),
            Phase::new(&"x".repeat(65)).is_err() && Phase::new(&"x".repeat(64)).is_ok(),
        ];
        assert!(limits.into_iter().all(|holds| holds), "{limits:?}");
        assert_eq!(SpaceName::fallback().as_str(), "default");
    }

    #[test]
    fn bad_name_errors_name_the_problem() {
        let say = |bad: BadName| bad.to_string();
        assert_eq!(say(BadName::Empty), "must not be empty");
        assert_eq!(say(BadName::TooLong { bytes: 9, max: 8 }), "has 9 bytes, at most 8 are allowed");
        assert_eq!(say(BadName::ControlCharacter), "must not contain control characters");
        assert_eq!(
            say(BadName::Invisible('\u{202e}')),
            "must not contain U+202E, an invisible character or one that changes the direction of text"
        );
        assert_eq!(say(BadName::SpaceAtEnd), "must not begin or end with white space");
    }

    #[test]
    fn stored_names_with_invisible_characters_stay_readable() {
        let stored = crate::encoding::encode(&"pay\u{202e}roll".to_owned());
        let id: ItemId = crate::encoding::decode(&stored).unwrap();
        assert_eq!((id.as_str(), ItemId::new(id.as_str())), ("pay\u{202e}roll", Err(BadName::Invisible('\u{202e}'))));
        assert_eq!(crate::encoding::encode(&id), stored);
        assert!(crate::encoding::decode::<ItemId>(&crate::encoding::encode(&"a\u{7}b".to_owned())).is_err());
    }
}
