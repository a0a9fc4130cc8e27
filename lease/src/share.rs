//! Fair shares: they prevent one actor from using up a limit that many actors share.

/// A limit that the actors of a space share. Its last quarter is only for actors that have little of it. So an actor
/// that takes as much as it can leaves room for others, and an actor that is alone still gets three quarters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// 0: unlimited.
    pub(crate) max: u64,
    /// Used by all actors together.
    pub(crate) used: u64,
    /// What one actor may always have, however small the limit is.
    pub(crate) at_least: u64,
}

impl Bound {
    /// An actor with at most this much has little.
    pub(crate) fn little(self) -> u64 {
        (self.max / 64).max(self.at_least)
    }

    /// Whether an actor may have `more`. `own` returns how much it already has. It is called only in the last quarter
    /// and need not count beyond [`Bound::little`].
    pub(crate) fn admits(self, more: u64, own: impl FnOnce() -> u64) -> bool {
        let fits = || self.used.saturating_add(more) <= self.max;
        self.max == 0 || more == 0 || self.is_open(more) || fits() && own().saturating_add(more) <= self.little()
    }

    /// Whether anyone may have more.
    pub(crate) fn is_open(self, more: u64) -> bool {
        self.used.saturating_add(more) <= self.max - self.max / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much one actor gets in this many tries, one after another.
    fn taken(max: u64, at_least: u64, tries: u64) -> u64 {
        let mut own = 0;
        while own < tries && (Bound { max, used: own, at_least }).admits(1, || own) {
            own += 1;
        }
        own
    }

    #[test]
    fn one_actor_alone_gets_three_quarters() {
        assert_eq!([taken(1_000, 1, 2_000), taken(64, 1, 2_000), taken(4, 1, 2_000)], [750, 48, 3]);
        assert_eq!([taken(3, 1, 9), taken(1, 1, 9), taken(0, 1, 9)], [3, 1, 9]);
        assert_eq!([taken(100, 100, 200), taken(133, 100, 200), taken(200, 100, 200)], [100, 100, 150]);
    }

    #[test]
    fn the_last_quarter_is_for_actors_that_have_little() {
        let bound = |used| Bound { max: 6_400, used, at_least: 1 };
        assert_eq!(bound(0).little(), 100);
        assert!(bound(4_800).admits(1, || 99) && !bound(4_800).admits(1, || 100) && bound(4_799).admits(1, || 4_799));
        assert!(bound(6_399).admits(1, || 0) && !bound(6_400).admits(1, || 0));
        assert!(bound(6_400).admits(0, || 6_400) && !bound(0).admits(u64::MAX, || 0));
    }
}
