//! Promises that are broken on purpose, one at a time, so that the tests that look for a broken promise can be seen to find
//! one. Nothing is ever broken in a build without the feature `sabotage`, which no build that is shipped has.

/// What does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A write is taken whatever its token.
    Fencing,
    /// The log is not synced before it is acknowledged.
    Fsync,
    /// Time is the leader's wall clock.
    WallClock,
    /// Who believes to lead asks no quorum before a read.
    LeaseRead,
    /// A repeated request runs again.
    Dedup,
    /// The last of a wait line is granted first.
    Fifo,
}

impl Broken {
    pub const ALL: [(&'static str, Self); 6] = [
        ("fencing", Self::Fencing),
        ("fsync", Self::Fsync),
        ("wall-clock", Self::WallClock),
        ("lease-read", Self::LeaseRead),
        ("dedup", Self::Dedup),
        ("fifo", Self::Fifo),
    ];

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, broken)| *broken)
    }
}

#[cfg(feature = "sabotage")]
static CHOSEN: std::sync::OnceLock<Broken> = std::sync::OnceLock::new();

/// Breaks this from now on, once, for the whole process.
#[cfg(feature = "sabotage")]
pub fn break_it(broken: Broken) {
    CHOSEN.set(broken).expect("one thing is broken at a time");
}

/// Whether this was broken.
#[cfg(feature = "sabotage")]
#[must_use]
pub fn is_broken(what: Broken) -> bool {
    CHOSEN.get() == Some(&what)
}

/// Never.
#[cfg(not(feature = "sabotage"))]
#[must_use]
#[inline]
pub const fn is_broken(_: Broken) -> bool {
    false
}
