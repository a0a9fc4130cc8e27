//! Numbers that could be confused with one another, each with its own type.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Cluster time in milliseconds. Only log entries move it. It is not a date.
    Time(u64)
}
number! {
    /// A wall clock's milliseconds since 1970. For people, and for `not_before`.
    Wall(u64)
}
number! {
    /// A duration in milliseconds.
    Span(u64)
}
number! {
    /// The fencing token: minted at each grant, greater than every token minted before.
    Token(u64)
}
number! {
    /// An item's serial number, in the order of creation. A new item with a reused id gets a new number.
    ItemNo(u64)
}
number! { SpaceNo(u32) }
number! { QueueNo(u32) }
number! {
    /// The restore from which this history descends: seconds since 2026-01-01, or 0 for a cluster that was never
    /// restored.
    Epoch(u32)
}

impl Time {
    /// Later than any deadline.
    pub const NEVER: Self = Self(u64::MAX);

    #[must_use]
    pub const fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The time from `self` until `later`; zero if `later` has passed.
    #[must_use]
    pub const fn until(self, later: Self) -> Span {
        Span(later.0.saturating_sub(self.0))
    }
}

impl Span {
    #[must_use]
    pub const fn secs(secs: u64) -> Self {
        Self(secs * 1_000)
    }
}

/// The number of an event in its space: without gaps within an epoch, increasing across epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventNumber {
    pub epoch: Epoch,
    pub seq: u64,
}

impl fmt::Display for EventNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.seq)
    }
}

/// An item's revision: the number of its last content event.
pub type Revision = EventNumber;
