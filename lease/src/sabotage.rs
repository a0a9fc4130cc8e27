//! Promises that are broken on purpose, one at a time, so that the tests that look for a broken promise can be seen to
//! find one. Nothing is ever broken in a build without the feature `sabotage`, which no build that is shipped has.

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
    /// A build that knows later rules goes by them before they are raised.
    Rules,
    /// A membership change that waits repeats the absolute voter set it read first.
    StaleVoters,
    /// A change of address that waits is made even if the node was removed meanwhile.
    RemovedReturns,
    /// A snapshot is built while another one is installed, and may replace a newer one.
    SnapshotRace,
    /// Time without a quorum is charged to holders.
    NoQuorumTime,
    /// A repeat that is older than the request memory runs again.
    LateRepeat,
    /// One entry with a wall clock far ahead blocks later restores.
    WrongDate,
    /// An answer that does not fit into one frame is reported as unknown.
    LongAnswers,
    /// The end of a lock delay wakes no caller that waits for work.
    SilentDelay,
}

impl Broken {
    pub const ALL: [(&'static str, Self); 15] = [
        ("fencing", Self::Fencing),
        ("fsync", Self::Fsync),
        ("wall-clock", Self::WallClock),
        ("lease-read", Self::LeaseRead),
        ("dedup", Self::Dedup),
        ("fifo", Self::Fifo),
        ("rules", Self::Rules),
        ("stale-voters", Self::StaleVoters),
        ("removed-returns", Self::RemovedReturns),
        ("snapshot-race", Self::SnapshotRace),
        ("no-quorum-time", Self::NoQuorumTime),
        ("late-repeat", Self::LateRepeat),
        ("wrong-date", Self::WrongDate),
        ("long-answers", Self::LongAnswers),
        ("silent-delay", Self::SilentDelay),
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

/// Whether a state goes by rules that are later than this build's. There are none yet; for tests that put a newer build
/// beside this one they are the same rules, but for a mark in the state's hash.
#[cfg(feature = "sabotage")]
#[must_use]
pub fn goes_by_later_rules(rules_version: u32, known: u32) -> bool {
    let raised = if is_broken(Broken::Rules) { known } else { rules_version };
    raised > crate::bounds::RULES_VERSION
}

/// Never.
#[cfg(not(feature = "sabotage"))]
#[must_use]
#[inline]
pub const fn goes_by_later_rules(_: u32, _: u32) -> bool {
    false
}

/// Never.
#[cfg(not(feature = "sabotage"))]
#[must_use]
#[inline]
pub const fn is_broken(_: Broken) -> bool {
    false
}
