//! The OpenAPI schemas of names and numbers, and the text form of positions.

use lease::bounds;
use lease::command::Cursor as CorePosition;
use lease::numbers::{Epoch, EventNumber, ItemNo};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// No control characters, and no white space at either end.
const NAME: &str = r"^[^\u0000-\u001f\u007f-\u009f\s]([^\u0000-\u001f\u007f-\u009f]*[^\u0000-\u001f\u007f-\u009f\s])?$";

macro_rules! text_schema {
    ($(#[$doc:meta])* $name:ident, $max:expr, $description:expr, $example:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .min_length(Some(1))
                    .max_length(Some($max))
                    .pattern(Some(NAME))
                    .description(Some($description))
                    .examples([serde_json::json!($example)])
                    .into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    };
}

text_schema! { ItemId, bounds::ITEM_ID_BYTES, "An item's id, unique in its space. At most 128 bytes.", "disk-42" }
text_schema! { SpaceName, bounds::SPACE_NAME_BYTES, "The name of a tenant's space. At most 64 bytes.", "default" }
text_schema! { QueueName, bounds::QUEUE_NAME_BYTES, "A queue's name, unique in its space. At most 64 bytes.", "ops" }
text_schema! { ActorId, bounds::ACTOR_ID_BYTES, "The identity of an actor. Opaque, at most 256 bytes.", "ada" }
text_schema! { SessionId, bounds::SESSION_ID_BYTES, "One run of an actor. Opaque, at most 256 bytes.", "run-7" }
text_schema! { Label, bounds::LABEL_BYTES, "A label or a capability. At most 64 bytes.", "gpu" }
text_schema! { Phase, bounds::PHASE_BYTES, "An item's step in its queue's workflow. At most 64 bytes.", "review" }

/// The fencing token: greater than every token minted before, and small enough that every JSON reader keeps it exact.
#[derive(Debug)]
pub struct Token;

impl PartialSchema for Token {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(bounds::TOKEN_LIMIT - 1))
            .description(Some("The fencing token: greater than every token minted before."))
            .examples([serde_json::json!(17)])
            .into()
    }
}

impl ToSchema for Token {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Token")
    }
}

/// A duration in milliseconds. At most ten years: a longer one is probably in the wrong unit.
#[derive(Debug)]
pub struct Millis;

impl PartialSchema for Millis {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(bounds::SPAN_MAX.0))
            .description(Some("A duration in milliseconds, at least one, at most ten years."))
            .examples([serde_json::json!(30_000)])
            .into()
    }
}

impl ToSchema for Millis {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Millis")
    }
}

/// The number of an event, also used as an item's revision: `epoch.seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number(pub EventNumber);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for Number {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (epoch, seq) = text.split_once('.')?;
            let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if !is_number(epoch) || !is_number(seq) {
                return None;
            }
            Some(EventNumber { epoch: Epoch(epoch.parse().ok()?), seq: seq.parse().ok()? })
        };
        parse().map(Self).ok_or("must look like 0.17: an epoch and a number")
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

fn pattern_schema(pattern: &str, description: &str, example: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(pattern))
        .description(Some(description))
        .examples([serde_json::json!(example)])
        .into()
}

impl PartialSchema for Number {
    fn schema() -> RefOr<Schema> {
        pattern_schema("^[0-9]{1,9}\\.[0-9]{1,19}$", "An event's number or an item's revision: `epoch.seq`.", "0.17")
    }
}

impl ToSchema for Number {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Number")
    }
}

/// Where an earlier call stopped. Opaque to callers. It stays valid whatever changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub CorePosition);

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}-{}", self.0.priority, self.0.item))
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl std::str::FromStr for Cursor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (priority, item) = text.split_once('-')?;
            let priority = priority.parse().ok().filter(|priority| *priority <= bounds::PRIORITY_MAX)?;
            Some(CorePosition { priority, item: ItemNo(item.parse().ok()?) })
        };
        parse().map(Self).ok_or("is not a cursor from an earlier answer")
    }
}

impl PartialSchema for Cursor {
    fn schema() -> RefOr<Schema> {
        pattern_schema("^[0-9]-[0-9]{1,19}$", "Where an earlier call stopped looking. Opaque.", "5-1042")
    }
}

impl ToSchema for Cursor {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Cursor")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_cursors_round_trip_and_other_texts_fail() {
        let number: Number = "7.18446744073709551615".parse().unwrap();
        assert_eq!(number.to_string(), "7.18446744073709551615");
        for wrong in
            ["", ".", "1", "1.", ".1", "1.-1", "+1.1", "1.1.1", "1.18446744073709551616", " 1.1", "4294967296.1"]
        {
            assert!(wrong.parse::<Number>().is_err(), "{wrong}");
        }
        let cursor: Cursor = serde_json::from_str("\"5-1042\"").unwrap();
        assert_eq!(serde_json::to_string(&cursor).unwrap(), "\"5-1042\"");
        for wrong in ["", "5", "10-1", "5-", "-1", "5-x"] {
            assert!(wrong.parse::<Cursor>().is_err(), "{wrong}");
        }
    }
}
