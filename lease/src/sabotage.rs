//! Guarantees that are broken on purpose, one at a time, to show that the tests detect it. Nothing is ever broken in a
//! build without the feature `sabotage`, and no shipped build has it.

/// The broken guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A write is accepted whatever its token.
    Fencing,
    /// The log is not synced before it is acknowledged.
    Fsync,
    /// Cluster time follows the leader's wall clock.
    WallClock,
    /// A node that believes it is the leader does not ask a quorum before a read.
    LeaseRead,
    /// A repeated request runs again.
    Dedup,
    /// The last waiter in a line is granted first.
    Fifo,
    /// A build that supports later rules follows them before they are raised.
    Rules,
    /// A waiting membership change retries with the absolute voter set that it read first.
    StaleVoters,
    /// A waiting change of address is made even if the node was removed meanwhile.
    RemovedReturns,
    /// A snapshot is built while another is installed, and may replace a newer one.
    SnapshotRace,
    /// Leases also run down while there is no quorum.
    NoQuorumTime,
    /// A repeat that is older than the request memory runs again.
    LateRepeat,
    /// One entry with a wall clock that is far ahead blocks later restores.
    WrongDate,
    /// An answer that does not fit into one frame is reported as unknown.
    LongAnswers,
    /// The end of a lock delay does not wake callers that wait for work.
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

/// Breaks this guarantee in the whole process from now on. Call it once.
#[cfg(feature = "sabotage")]
pub fn break_it(broken: Broken) {
    CHOSEN.set(broken).expect("one thing is broken at a time");
}

/// Whether this guarantee is broken.
#[cfg(feature = "sabotage")]
#[must_use]
pub fn is_broken(what: Broken) -> bool {
    CHOSEN.get() == Some(&what)
}

/// Whether a state follows later rules than this build's. No such rules exist yet. For tests with a newer build next
/// to this one, later rules are the same rules with a mark in the state's hash.
#[cfg(feature = "sabotage")]
#[must_use]
pub fn goes_by_later_rules(rules_version: u32, known: u32) -> bool {
    let raised = if is_broken(Broken::Rules) { known } else { rules_version };
    raised > crate::bounds::RULES_VERSION
}

/// Always false in a build without `sabotage`.
#[cfg(not(feature = "sabotage"))]
#[must_use]
#[inline]
pub const fn goes_by_later_rules(_: u32, _: u32) -> bool {
    false
}

/// Always false in a build without `sabotage`.
#[cfg(not(feature = "sabotage"))]
#[must_use]
#[inline]
pub const fn is_broken(_: Broken) -> bool {
    false
}
