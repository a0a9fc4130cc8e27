//! The guarded resource outside of the cluster: it accepts a write only if it has seen no newer token. Accepted and
//! refused writes are recorded with times in the order of the decisions.

use crate::history::Micros;
use crate::recorder::RunClock;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub struct Resource {
    clock: RunClock,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The newest token of each item, and the value that was written with it last.
    newest: BTreeMap<String, (u64, u64)>,
    decided: Micros,
}

/// The decision on a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Increases with every write.
    pub at: Micros,
    pub is_taken: bool,
}

impl Resource {
    #[must_use]
    pub fn new(clock: RunClock) -> Self {
        Self { clock, kept: Mutex::default() }
    }

    pub fn write(&self, item: &str, token: u64, value: u64) -> Decided {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // The times of decisions are also strictly ordered.
        kept.decided = self.clock.now().max(kept.decided + 1);
        let at = kept.decided;
        let is_taken = kept.newest.get(item).is_none_or(|(newest, _)| *newest <= token);
        if is_taken {
            kept.newest.insert(item.to_owned(), (token, value));
        }
        Decided { at, is_taken }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_with_an_old_token_is_refused_for_its_item_only() {
        let resource = Resource::new(RunClock::begin());
        let writes = [("disk", 3, 1), ("disk", 3, 2), ("disk", 2, 3), ("tape", 2, 4), ("disk", 4, 5), ("disk", 3, 6)];
        let decided = writes.map(|(item, token, value)| resource.write(item, token, value));
        assert_eq!(decided.map(|decided| decided.is_taken), [true, true, false, true, true, false]);
        assert!(decided.is_sorted_by(|one, next| one.at < next.at));
    }
}
