//! What may have ended a lease before its time: its holder, a revoke, or an event. Attempts of unknown outcome count,
//! because they may have succeeded.

use super::facts::{Facts, Grant};
use crate::history::{Asked, Micros};
use std::collections::HashMap;

#[derive(Debug, Default)]
pub struct Ends {
    /// The first attempt of the holder to end the lease with that token.
    by_holder: HashMap<u64, Micros>,
    /// The revokes, cancellations and takeovers of each item by the time of their request, with the latest moment at
    /// which one of those so far may have taken effect.
    revokes: Vec<Vec<(Micros, Micros)>>,
    /// The position in the stream at which a lease ended, and whether it expired.
    in_stream: HashMap<u64, (usize, bool)>,
}

impl Ends {
    #[must_use]
    pub fn new(facts: &Facts<'_>) -> Self {
        let mut ends = Self { revokes: vec![Vec::new(); facts.items.len()], ..Self::default() };
        for (no, op) in facts.ops() {
            if !facts.may_have_happened(no) {
                continue;
            }
            match (&op.asked, facts.item_of[no]) {
                (
                    Asked::Release { token, .. }
                    | Asked::Complete { token, .. }
                    | Asked::Fail { token, .. }
                    | Asked::Reserve { token, .. }
                    | Asked::HandOn { token, .. },
                    _,
                ) => {
                    let first = ends.by_holder.entry(*token).or_insert(op.invoked);
                    *first = op.invoked.min(*first);
                }
                (Asked::Revoke { .. } | Asked::Cancel { .. } | Asked::Claim { takeover: true, .. }, Some(item)) => {
                    ends.revokes[item].push((op.invoked, facts.end(no).unwrap_or(Micros::MAX)));
                }
                _ => {}
            }
        }
        for revokes in &mut ends.revokes {
            revokes.sort_unstable();
            let mut latest = 0;
            for (_, end) in revokes {
                latest = latest.max(*end);
                *end = latest;
            }
        }
        for (at, event) in facts.stream.events.iter().enumerate() {
            if let Some(token) = event.ended() {
                let is_lapse = matches!(event.kind, "expired" | "not_picked_up");
                ends.in_stream.entry(token).or_insert((at, is_lapse));
            }
        }
        ends
    }

    /// Whether somebody requested its end before that moment, and the request may have succeeded.
    #[must_use]
    pub fn may_have_ended(&self, grant: &Grant, before: Micros) -> bool {
        self.asked_to_end(grant).is_some_and(|asked| asked <= before)
            || self.may_have_been_revoked(grant, before)
            || matches!(self.in_stream.get(&grant.token), Some((_, false)))
    }

    #[must_use]
    pub fn may_have_been_revoked(&self, grant: &Grant, before: Micros) -> bool {
        let revokes = &self.revokes[grant.item];
        let asked = revokes.partition_point(|(asked, _)| *asked <= before);
        asked > 0 && revokes[asked - 1].1 >= grant.lower
    }

    /// The time at which its holder first requested its end.
    #[must_use]
    pub fn asked_to_end(&self, grant: &Grant) -> Option<Micros> {
        self.by_holder.get(&grant.token).copied()
    }

    /// The position in the stream at which it ended.
    #[must_use]
    pub fn in_stream(&self, token: u64) -> Option<usize> {
        self.in_stream.get(&token).map(|(at, _)| *at)
    }
}
