//! Dates for people. Cluster time is not a date. Its wall clock date is computed from one moment at which both clocks
//! were read, so it is only as accurate as that wall clock.

use jiff::Timestamp;
use lease::numbers::{Span, Time, Wall};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::str::FromStr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The moment from which dates are computed: the state's time, and the wall clock at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    pub now: Time,
    pub wall: Wall,
}

impl Calendar {
    /// The approximate date of a moment of cluster time.
    #[must_use]
    pub fn date(&self, time: Time) -> Date {
        let wall = if time >= self.now {
            self.wall.0.saturating_add(time.0 - self.now.0)
        } else {
            self.wall.0.saturating_sub(self.now.0 - time.0)
        };
        Date(Wall(wall))
    }

    /// The date this long from now, by the wall clock. It does not depend on how far this node's state lags.
    #[must_use]
    pub fn after(&self, span: Span) -> Date {
        Date(Wall(self.wall.0.saturating_add(span.0)))
    }
}

/// A wall clock date, as RFC 3339 in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date(pub Wall);

/// 9999-12-31T23:59:59.999Z, the last date that can be written.
const LAST: u64 = 253_402_300_799_999;

impl std::fmt::Display for Date {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let millis = i64::try_from(self.0.0.min(LAST)).unwrap_or(i64::MAX);
        match Timestamp::from_millisecond(millis) {
            Ok(timestamp) => write!(f, "{timestamp:.3}"),
            Err(_) => f.write_str("9999-12-31T23:59:59.999Z"),
        }
    }
}

impl FromStr for Date {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let timestamp: Timestamp = text.parse().map_err(|_| "must be a date like 2026-12-24T18:00:00Z")?;
        let millis = u64::try_from(timestamp.as_millisecond()).map_err(|_| "must not be before 1970")?;
        Ok(Self(Wall(millis)))
    }
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl PartialSchema for Date {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .examples([serde_json::json!("2026-12-24T18:00:00Z")])
            .into()
    }
}

impl ToSchema for Date {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Date")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_computed_from_the_moment_when_both_clocks_were_read() {
        let calendar = Calendar { now: Time(5_000), wall: Wall(1_767_225_600_000) };
        assert_eq!(calendar.date(Time(5_000)).to_string(), "2026-01-01T00:00:00.000Z");
        assert_eq!(calendar.date(Time(35_500)).to_string(), "2026-01-01T00:00:30.500Z");
        assert_eq!(calendar.date(Time(0)).to_string(), "2025-12-31T23:59:55.000Z");
        assert_eq!(calendar.date(Time::NEVER).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn dates_with_any_offset_parse_and_other_texts_fail() {
        let date: Date = "2026-12-24T18:00:00+01:00".parse().unwrap();
        assert_eq!(date.to_string(), "2026-12-24T17:00:00.000Z");
        assert!("1969-12-31T23:59:59Z".parse::<Date>().is_err());
        assert!("2026-12-24".parse::<Date>().is_err() && "soon".parse::<Date>().is_err());
    }
}
