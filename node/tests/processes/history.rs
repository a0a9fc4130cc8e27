//! The answers that callers got, and whether a state agrees with them.

use lease::numbers::Token;
use lease::standing::StateKind;
use std::collections::{BTreeMap, BTreeSet};

/// Moments are counted: one is before another if its number is lower.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    now: u64,
    pub(crate) created: BTreeSet<String>,
    pub(crate) grants: Vec<Told>,
    pub(crate) completed: BTreeSet<String>,
}

/// A grant that its holder received.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) item: String,
    pub(crate) token: Token,
    pub(crate) asked: u64,
    pub(crate) told: u64,
    /// When its holder asked to end it.
    pub(crate) ending: Option<u64>,
}

impl History {
    pub(crate) fn moment(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// Which of the grants it is.
    pub(crate) fn granted(&mut self, item: &str, token: Token, asked: u64) -> usize {
        let told = self.moment();
        self.grants.push(Told { item: item.into(), token, asked, told, ending: None });
        self.grants.len() - 1
    }

    pub(crate) fn ending(&mut self, grant: usize) {
        self.grants[grant].ending = Some(self.moment());
    }

    /// Returns the violations, given the item states.
    pub(crate) fn faults(&self, state_of: impl Fn(&str) -> Option<StateKind>) -> Vec<String> {
        let mut faults = self.token_faults();
        for item in &self.created {
            let state = state_of(item);
            let is_complete = state == Some(StateKind::Complete);
            match state {
                None => faults.push(format!("{item} was created and is gone")),
                Some(state) if is_complete != self.completed.contains(item) => {
                    let told = if is_complete { "nobody was told that it was completed" } else { "it was completed" };
                    faults.push(format!("{item} is {state:?}, but {told}"));
                }
                Some(_) => {}
            }
        }
        for item in self.completed.difference(&self.created) {
            faults.push(format!("{item} was completed and never created"));
        }
        faults
    }

    fn token_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut tokens = BTreeMap::new();
        let mut by_item: BTreeMap<&str, Vec<&Told>> = BTreeMap::new();
        for grant in &self.grants {
            if let Some(other) = tokens.insert(grant.token, &grant.item) {
                faults.push(format!("token {} was given for {other} and for {}", grant.token, grant.item));
            }
            by_item.entry(&grant.item).or_default().push(grant);
        }
        // Every token is above those that were known when it was asked for.
        let mut told: Vec<_> = self.grants.iter().map(|grant| (grant.told, grant.token)).collect();
        let mut asked: Vec<_> = self.grants.iter().collect();
        told.sort();
        asked.sort_by_key(|grant| grant.asked);
        let mut known = told.into_iter().peekable();
        let mut highest = Token(0);
        for grant in asked {
            while let Some((_, token)) = known.next_if(|(moment, _)| *moment < grant.asked) {
                highest = highest.max(token);
            }
            if grant.token <= highest {
                faults.push(format!("token {} for {} is not above {highest}", grant.token, grant.item));
            }
        }
        for (item, mut grants) in by_item {
            grants.sort_by_key(|grant| grant.token);
            for pair in grants.windows(2) {
                if pair[0].ending.is_none_or(|ending| ending > pair[1].told) {
                    let (one, other) = (pair[0].token, pair[1].token);
                    faults.push(format!("{item} was held under token {one} when it was granted under {other}"));
                }
            }
        }
        faults
    }
}

/// Tried on histories with one thing wrong: each is found.
mod tests {
    use super::*;

    /// Two items were completed, and one was held twice.
    fn good() -> (History, BTreeMap<String, StateKind>) {
        let mut history = History::default();
        for (item, token) in [("a", 1), ("b", 2), ("c", 3), ("c", 4)] {
            history.created.insert(item.into());
            let asked = history.moment();
            let grant = history.granted(item, Token(token), asked);
            history.ending(grant);
        }
        history.completed = ["a".into(), "b".into()].into();
        let state = |item: &str| if item == "c" { StateKind::Queued } else { StateKind::Complete };
        let states = history.created.iter().map(|item| (item.clone(), state(item))).collect();
        (history, states)
    }

    fn check(spoil: impl FnOnce(&mut History, &mut BTreeMap<String, StateKind>), expected: &[&str]) {
        let (mut history, mut states) = good();
        spoil(&mut history, &mut states);
        assert_eq!(history.faults(|item| states.get(item).copied()), expected);
    }

    #[test]
    fn nothing_is_wrong_with_a_good_history() {
        check(|_, _| {}, &[]);
    }

    #[test]
    fn a_lost_create_is_found() {
        check(|_, states| assert!(states.remove("c").is_some()), &["c was created and is gone"]);
    }

    #[test]
    fn a_lost_completion_is_found() {
        check(|_, states| *states.get_mut("a").unwrap() = StateKind::Queued, &["a is Queued, but it was completed"]);
    }

    #[test]
    fn an_unacknowledged_completion_is_found() {
        check(
            |history, _| assert!(history.completed.remove("b")),
            &["b is Complete, but nobody was told that it was completed"],
        );
    }

    #[test]
    fn a_token_granted_twice_is_found() {
        check(
            |history, _| history.grants[1].token = Token(1),
            &["token 1 was given for a and for b", "token 1 for b is not above 1"],
        );
    }

    #[test]
    fn a_token_that_falls_is_found() {
        check(
            |history, _| history.grants[0].token = Token(9),
            &["token 2 for b is not above 9", "token 3 for c is not above 9", "token 4 for c is not above 9"],
        );
    }

    #[test]
    fn a_grant_of_a_held_item_is_found() {
        check(|history, _| history.grants[2].ending = None, &["c was held under token 3 when it was granted under 4"]);
    }
}
