//! The state hashes that nodes compare. Nodes that are equally far keep the same ones.

use crate::codec::records::HashMark;

/// Nodes compare their hashes at multiples of this index.
pub const HASH_MARK_EVERY: u64 = 1_024;
/// The number of the latest marks that are kept.
const LAST: u64 = 16;
/// In addition, for each power of two, this many of the latest marks whose number it divides: if one of two nodes is
/// behind, both have a common mark at most twice as far back.
const LAST_OF_POWER: u64 = 2;

/// Adds a mark if one is due, and drops the marks that are no longer kept.
pub(super) fn note(marks: &mut Vec<HashMark>, mark: HashMark) {
    if !mark.index.is_multiple_of(HASH_MARK_EVERY) {
        return;
    }
    let newest = mark.index / HASH_MARK_EVERY;
    marks.push(mark);
    marks.retain(|mark| is_kept(mark.index / HASH_MARK_EVERY, newest));
}

fn is_kept(number: u64, newest: u64) -> bool {
    // Index 0 needs no mark: no entry was applied before it.
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
    fn the_last_marks_and_a_few_older_ones_are_kept() {
        assert_eq!(numbers_at(3), [0, 1, 2, 3]);
        let last: Vec<u64> = (85..=100).collect();
        assert_eq!(numbers_at(100), [vec![64, 80], last].concat());
    }

    #[test]
    fn two_nodes_always_have_a_mark_in_common() {
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
