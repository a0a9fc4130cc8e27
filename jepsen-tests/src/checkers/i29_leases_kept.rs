//! I29. With hostile callers, no honest holder loses a lease: a renewal that is sent in time is not refused because the
//! lease is gone, and is answered before the lease ends.

use super::facts::{Facts, token_of};
use super::verdict::{Verdict, seconds};
use crate::history::soak::Soak;
use crate::history::{Answered, Asked, Micros, Operation, Outcome};
use std::collections::BTreeMap;

/// The codes that a holder gets when its lease is gone.
const LOST: [&str; 3] = ["lease_lost", "not_holder", "stale_token"];

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(soak) = &facts.history.soak else { return verdict };
    let mut leases: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (no, op) in facts.ops() {
        let granted = op.answered().into_iter().flat_map(|answered| &answered.grants).map(|grant| grant.token);
        for token in granted.chain(token_of(&op.asked)) {
            leases.entry(token).or_default().push(no);
        }
    }
    for (token, ops) in leases {
        lease(facts, soak, token, &ops, &mut verdict);
    }
    verdict
}

/// One lease over time, in the order of its holder's requests.
fn lease(facts: &Facts<'_>, soak: &Soak, token: u64, ops: &[usize], verdict: &mut Verdict) {
    let mut until: Option<Micros> = None;
    // The first attempt that was made in time without success.
    let mut waits: Option<usize> = None;
    for no in ops {
        let op = facts.op(*no);
        let answered = op.completed.unwrap_or(Micros::MAX);
        let ends = until.unwrap_or(0);
        if waits.is_some_and(|first| answered > ends && facts.op(first).invoked < ends) {
            return overdue(facts, soak, token, ends, waits, verdict);
        }
        match &op.outcome {
            Outcome::Ok(said) => {
                if until.is_some() {
                    verdict.fact();
                    if answered > ends && op.invoked < ends {
                        return overdue(facts, soak, token, ends, Some(*no), verdict);
                    }
                }
                match prolonged(op, said, token) {
                    Some(lasts) => until = Some(lasts),
                    // The lease was released.
                    None => return,
                }
                waits = None;
            }
            Outcome::Refused { code } if LOST.contains(&code.as_str()) => {
                verdict.fact();
                if op.invoked < ends {
                    let left = seconds(ends - op.invoked);
                    let what = format!(
                        "{} called with token {token} with {left} left{}, and got {code}",
                        op.actor,
                        during(soak, op.invoked)
                    );
                    verdict.violate(answered, what, &[*no]);
                }
                return;
            }
            Outcome::Refused { .. } | Outcome::Unavailable | Outcome::Unknown => {
                if op.invoked < ends && !matches!(op.asked, Asked::Claim { .. } | Asked::Next { .. }) {
                    waits = waits.or(Some(*no));
                }
            }
        }
    }
    let ended = soak.phases.last().map_or(0, |phase| phase.ended);
    if let (Some(ends), Some(_)) = (until.filter(|ends| *ends < ended), waits) {
        overdue(facts, soak, token, ends, waits, verdict);
    }
}

fn overdue(facts: &Facts<'_>, soak: &Soak, token: u64, ends: Micros, first: Option<usize>, verdict: &mut Verdict) {
    verdict.fact();
    let Some(first) = first else { return };
    let op = facts.op(first);
    let left = seconds(ends.saturating_sub(op.invoked));
    let what = format!(
        "{} called with token {token} with {left} left{}, and got no answer before the lease ended",
        op.actor,
        during(soak, op.invoked)
    );
    verdict.violate(ends, what, &[first]);
}

/// The end of a lease according to an answer. `None`: it is over.
fn prolonged(op: &Operation, said: &Answered, token: u64) -> Option<Micros> {
    let granted = said.grants.iter().find(|grant| grant.token == token).map(|grant| grant.expires_in_ms);
    let lasts_ms = granted.or(said.expires_in_ms)?;
    (!matches!(op.asked, Asked::Reserve { .. })).then_some(said.sent + lasts_ms * 1_000)
}

fn during(soak: &Soak, at: Micros) -> String {
    soak.phase_at(at).map_or_else(String::new, |phase| format!(" ({})", phase.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::story::{broken, facts_of, tell};

    #[test]
    fn a_lease_that_is_renewed_and_released_is_kept() {
        let story = "
            phase 0s..20s calm
            0s   ada claim disk -> token=1 for=3s
            1s   ada renew disk token=1 -> unavailable
            1.2s ada renew disk token=1 -> for=3s
            2s   ada renew disk token=1 -> for=3s
            3s   ada complete disk token=1
            9s   bob claim tape -> token=2 for=3s";
        assert_eq!(facts_of("I29", story), 3);
    }

    #[test]
    fn a_lease_lost_despite_a_renewal_in_time_is_found() {
        for code in ["lease_lost", "not_holder", "stale_token"] {
            let story = format!(
                "phase 0s..20s flood
                0s   ada claim disk -> token=1 for=3s
                1s   ada renew disk token=1 -> refused {code}"
            );
            // Other invariants may be violated, too.
            let history = tell(&story);
            assert_eq!(check(&Facts::new(&history)).violated, 1, "{code}");
        }
    }

    #[test]
    fn a_lease_lost_by_a_late_renewal_is_no_violation() {
        let story = "
            phase 0s..20s flood
            0s   ada claim disk -> token=1 for=3s
            4s   ada renew disk token=1 -> refused lease_lost";
        assert_eq!(facts_of("I29", story), 1);
    }

    #[test]
    fn a_renewal_without_an_answer_until_the_end_is_found() {
        let never = "
            phase 0s..20s flood
            0s   ada claim disk -> token=1 for=3s
            1s   ada renew disk token=1 -> unavailable
            2s   ada renew disk token=1 -> unknown";
        broken(&["I29"], never);
        let late = "
            phase 0s..20s flood
            0s       ada claim disk -> token=1 for=3s
            1s..3.5s ada renew disk token=1 -> for=3s";
        broken(&["I29"], late);
        let late_at_last = "
            phase 0s..20s flood
            0s         ada claim disk -> token=1 for=3s
            1s         ada renew disk token=1 -> unavailable
            2.8s..3.5s ada complete disk token=1";
        broken(&["I29"], late_at_last);
    }

    #[test]
    fn a_holder_that_stopped_at_the_end_of_the_run_lost_nothing() {
        let story = "
            phase 0s..4s flood
            0s   ada claim disk -> token=1 for=5s
            1s   ada renew disk token=1 -> unavailable";
        assert_eq!(facts_of("I29", story), 0);
    }
}
