//! I4. An item is free within a bound after its lease expires. The bound is the latest expiry that its holder can have
//! got, plus a second, a second for each change of leader, and the time without a leader or with a leader that was
//! stalled or had no quorum (`slack` computes this).
//!
//! Only what is proved counts as late: in the stream the expiry comes after something that was requested after the
//! bound, or a read that was requested after it still shows the holder. The measured values are from the expiry to when
//! it was seen.

use super::facts::{Facts, Grant, HolderNo};
use super::slack::Slack;
use super::verdict::{Measured, Verdict, seconds};
use crate::history::{Asked, Micros, Outcome, SeenItem};
use std::collections::HashMap;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let slack = Slack::new(facts.history);
    let expiries = Expiries::new(facts);
    let (mut seen_after, mut granted_after) = (Vec::new(), Vec::new());
    for (at, event) in facts.stream.events.iter().enumerate().filter(|(_, event)| event.kind == "expired") {
        let Some(grant) = event.token.and_then(|token| facts.grant(token)) else { continue };
        let Some(expiry) = expiries.latest(facts, grant, event.seen) else { continue };
        verdict.fact();
        seen_after.push((event.seen.cast_signed() - expiry.cast_signed()) / 1_000);
        if let Some(next) = facts.next_grant(grant) {
            granted_after.push((next.upper.cast_signed() - expiry.cast_signed()) / 1_000);
        }
        let certain = at.checked_sub(1).map_or(0, |before| facts.stream.not_before[before]);
        let bound = expiry + slack.between(grant.lower, event.seen);
        if certain > bound {
            let what = format!(
                "the lease of {} on {} (token {}) was over by {}, but its expiry came after {}: {} later than the bound",
                facts.holders[grant.holder],
                facts.items[grant.item],
                grant.token,
                seconds(expiry),
                seconds(certain),
                seconds(certain - bound),
            );
            let ops: Vec<_> = grant.promised_by.into_iter().collect();
            verdict.violate_with(certain, what, &ops, vec![event.name()]);
        }
    }
    still_held(facts, &slack, &expiries, &mut verdict);
    verdict.measured.push(Measured { name: "from the end of a lease to its expired event".into(), millis: seen_after });
    verdict.measured.push(Measured { name: "from the end of a lease to the next grant".into(), millis: granted_after });
    verdict
}

/// Reads, during the run and at its end, that show a holder whose lease is over.
fn still_held(facts: &Facts<'_>, slack: &Slack, expiries: &Expiries, verdict: &mut Verdict) {
    let mut judge = |item: usize, shown: &SeenItem, asked: Micros, ops: &[usize]| {
        let Some(holder) = shown.holder.as_deref() else { return };
        // Of several grants to the same actor, the latest that can have been granted by then counts.
        let grants = facts.grants_of[item].iter().rev().map(|at| &facts.grants[*at]);
        let Some(grant) = grants.take(64).find(|grant| is_shown(facts, grant.holder, holder)) else { return };
        let Some(expiry) = expiries.latest(facts, grant, Micros::MAX) else { return };
        if asked <= expiry || expiries.may_hold_otherwise(facts, item, grant.holder) {
            return;
        }
        let bound = expiry + slack.between(grant.lower, asked);
        verdict.fact();
        if asked > bound {
            let what = format!(
                "a read sent at {} shows {} as the holder of {}, but that lease (token {}) was over by {}",
                seconds(asked),
                holder,
                facts.items[item],
                grant.token,
                seconds(expiry),
            );
            verdict.violate(asked, what, ops);
        }
    };
    for (no, op) in facts.ops() {
        let shown = op.answered().and_then(|answered| answered.item.as_ref());
        if let (Asked::Read { .. }, Some(shown), Some(item)) = (&op.asked, shown, facts.item_of[no]) {
            judge(item, shown, op.invoked, &[no]);
        }
    }
    if let Some(end) = &facts.history.end {
        for (name, shown) in &end.items {
            if let Some(item) = facts.item_no(name) {
                judge(item, shown, end.healed, &[]);
            }
        }
    }
}

/// A read names the actor, or the actor and its session.
#[must_use]
pub fn is_shown(facts: &Facts<'_>, holder: HolderNo, shown: &str) -> bool {
    facts.holders[holder].actor == shown || facts.holders[holder].to_string() == shown
}

/// The latest times until which leases can have been extended.
#[derive(Debug)]
pub struct Expiries {
    /// According to answers.
    by_token: HashMap<u64, Micros>,
    /// The first request of a renewal of unknown outcome, or of one that is only known to have ended.
    open: HashMap<u64, Micros>,
    /// The same for all leases of a holder.
    open_for_all: HashMap<HolderNo, Micros>,
    /// The first request of a claim of unknown outcome: a holder that claims its item again extends its lease.
    open_claims: HashMap<(usize, HolderNo), Micros>,
    /// Holders that may have got an item without an answer.
    may_hold: HashMap<(usize, HolderNo), ()>,
    may_hold_any: HashMap<HolderNo, ()>,
}

impl Expiries {
    #[must_use]
    pub fn new(facts: &Facts<'_>) -> Self {
        let mut expiries = Self {
            by_token: HashMap::new(),
            open: HashMap::new(),
            open_for_all: HashMap::new(),
            open_claims: HashMap::new(),
            may_hold: HashMap::new(),
            may_hold_any: HashMap::new(),
        };
        for (no, op) in facts.ops() {
            let holder = facts.holder_of[no];
            let completed = op.completed.unwrap_or(Micros::MAX);
            match (&op.asked, &op.outcome) {
                (Asked::RenewAll, Outcome::Ok(_) | Outcome::Unknown) => {
                    let first = expiries.open_for_all.entry(holder).or_insert(op.invoked);
                    *first = op.invoked.min(*first);
                }
                (Asked::Renew { token, .. } | Asked::Extend { token, .. }, Outcome::Unknown) => {
                    let first = expiries.open.entry(*token).or_insert(op.invoked);
                    *first = op.invoked.min(*first);
                }
                (Asked::Renew { token, .. } | Asked::Extend { token, .. }, Outcome::Ok(answered)) => {
                    expiries.answered(*token, op.invoked, completed, answered.expires_in_ms.unwrap_or(0));
                }
                // A repeated answer under the same request id is no new promise, but shows that the lease exists.
                (Asked::Claim { .. } | Asked::Next { .. }, Outcome::Ok(answered)) => {
                    for granted in &answered.grants {
                        expiries.answered(granted.token, op.invoked, completed, granted.expires_in_ms);
                    }
                    if let (Some(item), Some(_)) = (facts.item_of[no], answered.place) {
                        expiries.may_hold.insert((item, holder), ());
                    }
                }
                (Asked::Claim { .. }, Outcome::Unknown)
                | (Asked::Claim { waits: true, .. }, Outcome::Refused { .. }) => {
                    if let Some(item) = facts.item_of[no] {
                        expiries.may_hold.insert((item, holder), ());
                        if op.outcome == Outcome::Unknown {
                            let first = expiries.open_claims.entry((item, holder)).or_insert(op.invoked);
                            *first = op.invoked.min(*first);
                        }
                    }
                }
                (Asked::Next { .. }, Outcome::Unknown) => _ = expiries.may_hold_any.insert(holder, ()),
                _ => {}
            }
        }
        expiries
    }

    fn answered(&mut self, token: u64, invoked: Micros, completed: Micros, millis: u64) {
        // The answer to a retry reports 0 for a lease that is over by then: the extension is unknown.
        if millis == 0 {
            let first = self.open.entry(token).or_insert(invoked);
            *first = invoked.min(*first);
            return;
        }
        let until = completed.saturating_add(millis.saturating_mul(1_000));
        let latest = self.by_token.entry(token).or_insert(until);
        *latest = until.max(*latest);
    }

    /// `None` if unknown.
    #[must_use]
    pub fn latest(&self, facts: &Facts<'_>, grant: &Grant, before: Micros) -> Option<Micros> {
        if self.open.get(&grant.token).is_some_and(|asked| *asked <= before)
            || self.open_for_all.get(&grant.holder).is_some_and(|asked| *asked <= before)
            || self.open_claims.get(&(grant.item, grant.holder)).is_some_and(|asked| *asked <= before)
        {
            return None;
        }
        let by_event = grant.event.and_then(|at| {
            let event = &facts.stream.events[at];
            let length = event.event.what.as_ref()?.expires_at_ms?.checked_sub(event.event.at_ms)?;
            Some(event.seen.saturating_add(length.saturating_mul(1_000)))
        });
        let answered = self.by_token.get(&grant.token).copied();
        answered.max(by_event).filter(|expiry| *expiry < Micros::MAX)
    }

    fn may_hold_otherwise(&self, facts: &Facts<'_>, item: usize, holder: HolderNo) -> bool {
        let same = |other: HolderNo| facts.is_same_actor(other, holder);
        let sessions = (0..facts.holders.len()).filter(|other| same(*other));
        sessions
            .take(64)
            .any(|other| self.may_hold.contains_key(&(item, other)) || self.may_hold_any.contains_key(&other))
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of, kept};

    #[test]
    fn an_expiry_soon_after_its_time_is_measured() {
        let story = "
            0s     ada claim disk -> token=1 for=5s
            0s     sees 0.1 granted disk ada token=1
            5.2s   sees 0.2 expired disk ada token=1";
        assert_eq!(facts_of("I4", story), 1);
    }

    #[test]
    fn an_expiry_after_a_later_request_is_late() {
        broken(
            &["I4"],
            "busy 0s..10s
             0s     ada claim disk -> token=1 for=5s
             0s     sees 0.1 granted disk ada token=1
             9s     bob create tape -> rev=0.2 did
             9s     sees 0.2 created tape
             9s     sees 0.3 expired disk ada token=1",
        );
    }

    #[test]
    fn a_claim_of_unknown_outcome_may_have_extended_the_lease() {
        let story = |claim: &str| {
            format!(
                "busy 0s..10s
                 {claim}
                 1s     ada claim disk -> token=1 for=5s
                 1s     sees 0.1 granted disk ada token=1
                 9s     bob create tape -> rev=0.2 did
                 9s     sees 0.2 created tape
                 9s     sees 0.3 expired disk ada token=1"
            )
        };
        kept(&story("0s     ada claim disk -> unknown"));
        kept(&story("0s..9.5s ada claim disk -> token=1 for=0s"));
        broken(&["I4"], &story("0s     eve claim disk -> unknown"));
    }

    #[test]
    fn time_without_a_leader_is_not_counted() {
        kept(
            "busy 0s..10s
             leader 0s 1
             leader 2s none
             leader 7s 2
             0s     ada claim disk -> token=1 for=5s
             0s     sees 0.1 granted disk ada token=1
             9s     bob create tape -> rev=0.2 did
             9s     sees 0.2 created tape
             9s     sees 0.3 expired disk ada token=1",
        );
    }

    #[test]
    fn time_without_service_is_not_counted_but_time_of_a_fault_is() {
        let story = |busy: &str| {
            format!(
                "{busy}
                 fault isolate-follower 1s..8s
                 0s     ada claim disk -> token=1 for=5s
                 0s     sees 0.1 granted disk ada token=1
                 9s     bob create tape -> rev=0.2 did
                 9s     sees 0.2 created tape
                 9s     sees 0.3 expired disk ada token=1"
            )
        };
        kept(&story("busy 0s..2s\nbusy 7s..10s"));
        broken(&["I4"], &story("busy 0s..10s"));
    }

    #[test]
    fn a_renewal_of_unknown_outcome_may_have_extended_the_lease() {
        kept(
            "busy 0s..10s
             0s     ada claim disk -> token=1 for=5s
             4s     ada renew disk token=1 -> unknown
             0s     sees 0.1 granted disk ada token=1
             9s     bob create tape -> rev=0.2 did
             9s     sees 0.2 created tape
             9s     sees 0.3 expired disk ada token=1",
        );
    }

    #[test]
    fn a_read_long_after_the_end_that_shows_the_holder_is_late() {
        broken(
            &["I4"],
            "busy 0s..20s
             0s     ada claim disk -> token=1 for=5s
             20s    eve read disk -> state=active holder=ada assignee=ada",
        );
    }

    #[test]
    fn an_item_that_is_never_freed_is_late_at_the_end() {
        broken(
            &["I4"],
            "busy 0s..60s
             0s     ada claim disk -> token=1 for=5s
             end healed=60s served=61s
             end item disk state=active holder=ada assignee=ada",
        );
    }

    #[test]
    fn a_claim_of_unknown_outcome_may_hold_the_item() {
        kept(
            "busy 0s..20s
             0s     ada claim disk -> token=1 for=5s
             6s     ada claim disk -> unknown
             20s    eve read disk -> state=active holder=ada assignee=ada",
        );
    }
}
