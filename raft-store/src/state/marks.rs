//! The state hashes that nodes compare, and which of them are kept: the same on every node that is as far.

use crate::codec::records::HashMark;

/// Nodes compare their hashes at indexes that this divides.
pub const HASH_MARK_EVERY: u64 = 1_024;
/// So many of the last marks are kept.
const LAST: u64 = 16;
/// And, for each power of two, so many of the last marks whose number it divides: of two nodes one of which is behind,
/// both have a mark at most twice that far back.
const LAST_OF_POWER: u64 = 2;

/// Adds a mark where one is due, and drops what is no longer kept.
pub(super) fn note(marks: &mut Vec<HashMark>, mark: HashMark) {
    if !mark.index.is_multiple_of(HASH_MARK_EVERY) {
        return;
    }
    let newest = mark.index / HASH_MARK_EVERY;
    marks.push(mark);
    marks.retain(|mark| is_kept(mark.index / HASH_MARK_EVERY, newest));
}

fn is_kept(number: u64, newest: u64) -> bool {
    // The first says nothing: no entry was applied before it.
    let power = if number == 0 { 0 } else { number.trailing_zeros() };
    newest - number < LAST || (newest >> power) - (number >> power) < LAST_OF_POWER
}

#[cfg(test)]
mod tests {
    use super::*;
    use lease::StateHash;

    fn numbers_at(newest: u64) -> Vec<u64> {
        let mut marks = Vec::new();
        for index in 0..=newest * HASH_MARK_EVERY {
            note(&mut marks, HashMark { index, hash: StateHash::default() });
        }
        marks.iter().map(|mark| mark.index / HASH_MARK_EVERY).collect()
    }

    #[test]
    fn the_last_are_kept_and_few_before_them() {
        assert_eq!(numbers_at(3), [0, 1, 2, 3]);
        let last: Vec<u64> = (85..=100).collect();
        assert_eq!(numbers_at(100), [vec![64, 80], last].concat());
    }

    #[test]
    fn two_nodes_have_one_in_common_however_far_one_is_behind() {
        for ahead in 1..600_u64 {
            let kept = |newest: u64| (0..=newest).filter(move |number| is_kept(*number, newest));
            assert!(kept(ahead).count() as u64 <= LAST + LAST_OF_POWER * u64::from(ahead.ilog2()));
            for behind in 1..ahead {
                let lag = (ahead - behind).next_power_of_two();
                let newest_common = kept(behind).filter(|number| is_kept(*number, ahead)).max();
                assert!(newest_common.unwrap_or(0) + lag > behind, "{behind} and {ahead}: {newest_common:?}");
            }
        }
    }
}
