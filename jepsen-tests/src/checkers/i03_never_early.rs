//! I3. Nobody else is granted an item before the moment until which its holder was promised it: `expires_in_ms` after
//! the answered request was sent. This does not apply if its holder, a revoke, a takeover or a cancel ended it;
//! attempts of unknown outcome count, too. An expiry that a watcher saw before that moment is also a violation.
//!
//! The same for the holder's belief: nobody else has the item while its holder relies on it, with a clock that neither
//! jumped nor stopped.

use super::facts::{Facts, Grant, OpNo};
use super::promise::GRAIN;
use super::verdict::{Measured, Verdict, seconds};
use crate::history::{Asked, Belief, Micros, Outcome};

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let mut margins = Vec::new();
    for grant in &facts.grants {
        let Some(promised) = grant.promised else { continue };
        if let Some(next) = facts.next_grant(grant).filter(|next| !facts.is_same_actor(next.holder, grant.holder)) {
            verdict.fact();
            if !facts.ends.may_have_ended(grant, next.upper) {
                margins.push((next.upper.cast_signed() - promised.cast_signed()) / 1_000);
                if next.upper < promised {
                    let what = format!(
                        "{} was promised {} until {} (token {}), but {} was known to have it at {} (token {})",
                        facts.holders[grant.holder],
                        facts.items[grant.item],
                        seconds(promised),
                        grant.token,
                        facts.holders[next.holder],
                        seconds(next.upper),
                        next.token,
                    );
                    let ops: Vec<_> = grant.promised_by.into_iter().chain(next.told_by).collect();
                    let event = next.event.map(|at| facts.stream.events[at].name());
                    verdict.violate_with(next.upper, what, &ops, event.into_iter().collect());
                }
            }
        }
        let ended = facts.ends.in_stream(grant.token).map(|at| &facts.stream.events[at]);
        if let Some(event) = ended.filter(|event| matches!(event.kind, "expired" | "not_picked_up")) {
            verdict.fact();
            if event.seen < promised {
                let what = format!(
                    "{} was promised {} until {} (token {}), but its expiry was seen at {}",
                    facts.holders[grant.holder],
                    facts.items[grant.item],
                    seconds(promised),
                    grant.token,
                    seconds(event.seen),
                );
                let ops: Vec<_> = grant.promised_by.into_iter().collect();
                verdict.violate_with(event.seen, what, &ops, vec![event.name()]);
            }
        }
    }
    refusals(facts, &mut verdict);
    reservations(facts, &mut verdict);
    beliefs(facts, &mut verdict);
    verdict.measured.push(Measured { name: "from the promised end to another's grant".into(), millis: margins });
    verdict
}

/// A holder that renews before its promised end does not get the answer that the lease is gone.
fn refusals(facts: &Facts<'_>, verdict: &mut Verdict) {
    for (no, op) in facts.ops() {
        let (Asked::Renew { token, .. } | Asked::Extend { token, .. }, Outcome::Refused { code }) =
            (&op.asked, &op.outcome)
        else {
            continue;
        };
        let Some(grant) = facts.grant(*token).filter(|grant| grant.holder == facts.holder_of[no]) else { continue };
        let (Some(promised), Some(completed)) = (grant.promised, op.completed) else { continue };
        let is_other = |next: &&Grant| !facts.is_same_actor(next.holder, grant.holder);
        let is_taken_over = facts.next_grant(grant).is_some_and(|next| !is_other(&next));
        if !matches!(code.as_str(), "lease_lost" | "stale_token" | "not_holder") || is_taken_over {
            continue;
        }
        verdict.fact();
        if completed < promised && !facts.ends.may_have_ended(grant, completed) {
            let what = format!(
                "{} was promised {} until {} (token {token}), but got {code} at {}",
                facts.holders[grant.holder],
                facts.items[grant.item],
                seconds(promised),
                seconds(completed),
            );
            let ops: Vec<_> = grant.promised_by.into_iter().chain([no]).collect();
            verdict.violate(completed, what, &ops);
        }
    }
}

/// An item that is reserved for an actor is not granted to another actor before the reservation ends.
fn reservations(facts: &Facts<'_>, verdict: &mut Verdict) {
    for (no, op) in facts.ops() {
        let (Asked::Reserve { token, .. }, Some(answered)) = (&op.asked, op.answered()) else { continue };
        let (Some(grant), Some(for_ms)) = (facts.grant(*token), answered.expires_in_ms) else { continue };
        let Some(next) = facts.next_grant(grant).filter(|next| !facts.is_same_actor(next.holder, grant.holder)) else {
            continue;
        };
        // The answer to a retry describes the first answer.
        let sent = facts.begin(no);
        let until = facts.promises.end(sent, sent.saturating_add(for_ms * 1_000));
        verdict.fact();
        if next.upper < until && !facts.ends.may_have_been_revoked(grant, next.upper) {
            let what = format!(
                "{} was reserved for {} until {}, but {} was known to have it at {} (token {})",
                facts.items[grant.item],
                op.actor,
                seconds(until),
                facts.holders[next.holder],
                seconds(next.upper),
                next.token,
            );
            let ops: Vec<_> = [no].into_iter().chain(next.told_by).collect();
            verdict.violate(next.upper, what, &ops);
        }
    }
}

fn beliefs(facts: &Facts<'_>, verdict: &mut Verdict) {
    let believed = |(no, op): (OpNo, &crate::history::Operation)| match op.asked {
        Asked::Write { token, belief: Some(belief), .. } => Some((no, token, belief)),
        _ => None,
    };
    let mut misled = 0_u64;
    for (no, token, Belief { at, is_steady }) in facts.ops().filter_map(believed) {
        let Some(grant) = facts.grant(token) else { continue };
        if !is_steady {
            misled += u64::from(is_misled(grant, at));
            continue;
        }
        verdict.fact();
        let next = facts.next_grant(grant).filter(|next| !facts.is_same_actor(next.holder, grant.holder));
        let Some(next) = next.filter(|next| next.upper + GRAIN < at) else { continue };
        if !facts.ends.may_have_ended(grant, next.upper) {
            let what = format!(
                "{} relied on {} at {} (token {token}), with a correct clock, but {} was known to have it at {} (token {})",
                facts.holders[grant.holder],
                facts.items[grant.item],
                seconds(at),
                facts.holders[next.holder],
                seconds(next.upper),
                next.token,
            );
            let ops: Vec<_> = grant.promised_by.into_iter().chain(next.told_by).chain([no]).collect();
            verdict.violate(at, what, &ops);
        }
    }
    verdict
        .notes
        .push(format!("{misled} times a clock that had jumped or stopped made a holder rely on a lease that was over"));
}

/// The lease was over when its holder relied on it.
#[must_use]
pub fn is_misled(grant: &Grant, at: Micros) -> bool {
    grant.promised.is_some_and(|promised| promised < at)
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of, kept};

    #[test]
    fn an_expiry_after_the_promised_end_is_no_violation() {
        let story = "
            0s   ada claim disk -> token=1 for=5s
            3s   ada renew disk token=1 -> for=5s
            9s   bob claim disk -> token=2 for=5s";
        assert_eq!(facts_of("I3", story), 1);
    }

    #[test]
    fn a_release_of_unknown_outcome_may_have_happened() {
        kept(
            "0s   ada claim disk -> token=1 for=30s
             1s   ada release disk token=1 -> unknown
             9s   bob claim disk -> token=2 for=5s",
        );
    }

    #[test]
    fn a_revoke_and_a_completion_end_it_too() {
        kept(
            "0s   ada claim disk -> token=1 for=30s
             1s   eve revoke disk -> unknown
             9s   bob claim disk -> token=2 for=30s
             10s  bob fail disk token=2 -> ok
             11s  cid claim disk -> token=3 for=30s",
        );
    }

    #[test]
    fn a_renewal_of_unknown_outcome_promises_nothing() {
        kept(
            "0s   ada claim disk -> token=1 for=5s
             4s   ada renew disk token=1 -> unknown
             6s   bob claim disk -> token=2 for=5s",
        );
    }

    #[test]
    fn a_retry_after_the_end_promises_nothing() {
        kept(
            "0s   ada claim disk id=a -> token=1 for=5s
             6s   bob claim disk -> token=2 for=5s
             7s   ada claim disk id=a again -> token=1 for=0s",
        );
    }

    #[test]
    fn time_counts_from_the_attempt_that_was_answered() {
        kept(
            "0s..4s   ada claim disk -> token=1 for=5s sent=1s
             6.1s     bob claim disk -> token=2 for=5s",
        );
        broken(
            &["I3"],
            "0s..4s   ada claim disk -> token=1 for=5s sent=3s
             6.1s     bob claim disk -> token=2 for=5s",
        );
    }

    #[test]
    fn a_grant_before_the_promised_end_is_found() {
        broken(
            &["I3"],
            "0s   ada claim disk -> token=1 for=5s
             3s   ada renew disk token=1 -> for=5s
             6s   bob claim disk -> token=2 for=5s",
        );
    }

    #[test]
    fn a_release_that_was_refused_is_no_excuse() {
        broken(
            &["I3"],
            "0s   ada claim disk -> token=1 for=30s
             1s   ada release disk token=1 -> unavailable
             9s   bob claim disk -> token=2 for=5s",
        );
    }

    #[test]
    fn a_renewal_refused_before_the_promised_end_is_found() {
        broken(
            &["I3"],
            "0s   ada claim disk -> token=1 for=9s
             5s   ada renew disk token=1 -> refused lease_lost",
        );
        kept(
            "0s   ada claim disk -> token=1 for=9s
             4s   ada/other claim disk takeover -> unknown
             5s   ada renew disk token=1 -> refused lease_lost
             0s   bob claim tape -> token=2 for=4s
             5s   bob renew tape token=2 -> refused lease_lost",
        );
    }

    #[test]
    fn a_grant_of_a_reserved_item_to_another_actor_is_found() {
        broken(
            &["I3"],
            "0s   ada claim disk -> token=1 for=9s
             1s   ada reserve disk token=1 -> for=9s
             5s   bob claim disk -> token=2 for=9s",
        );
        kept(
            "0s   ada claim disk -> token=1 for=9s
             1s   ada reserve disk token=1 -> for=3s
             5s   bob claim disk -> token=2 for=9s",
        );
    }

    #[test]
    fn a_hundredth_is_not_promised_while_clocks_drift() {
        kept(
            "fault drift 0s..9s
             0s      ada claim disk -> token=1 for=5s
             4.96s   bob claim disk -> token=2 for=5s",
        );
        broken(
            &["I3"],
            "fault drift 0s..9s
             0s      ada claim disk -> token=1 for=5s
             4.90s   bob claim disk -> token=2 for=5s",
        );
        broken(
            &["I3"],
            "fault drift 8s..9s
             0s      ada claim disk -> token=1 for=5s
             4.96s   bob claim disk -> token=2 for=5s",
        );
    }

    #[test]
    fn time_without_a_quorum_is_not_charged_to_a_holder() {
        broken(
            &["I3"],
            "fault isolate-all 10s..50s
             5s      ada claim disk -> token=1 for=20s
             51s     bob claim disk -> token=2 for=5s",
        );
        kept(
            "fault isolate-all 10s..50s
             5s      ada claim disk -> token=1 for=20s
             62s     bob claim disk -> token=2 for=5s",
        );
    }

    #[test]
    fn an_expiry_before_the_promised_end_is_found() {
        broken(
            &["I3"],
            "0s   ada claim disk -> token=1 for=30s
             0s   sees 0.1 granted disk ada token=1
             9s   sees 0.2 expired disk ada token=1",
        );
    }

    #[test]
    fn a_holder_that_relies_on_an_item_of_another_holder_is_found() {
        broken(
            &["I3"],
            "0s   ada claim disk -> token=1 for=5s
             6s   bob claim disk -> token=2 for=5s
             7s   ada write disk token=1 believing -> refused stale_token",
        );
    }

    #[test]
    fn a_holder_whose_clock_jumped_may_rely_on_a_lease_that_is_over_and_is_fenced() {
        let story = "
            0s   ada claim disk -> token=1 for=5s
            4s   ada write disk token=1 value=1 believing -> ok
            6s   bob claim disk -> token=2 for=5s
            7s   bob write disk token=2 value=2 believing -> ok
            7s   ada write disk token=1 value=3 misled -> refused stale_token";
        let verdicts = kept(story);
        let notes = &verdicts.iter().find(|verdict| verdict.id == "I3").unwrap().notes;
        assert!(notes.iter().any(|note| note.starts_with("1 times a clock")), "{notes:?}");
    }

    #[test]
    fn a_grant_that_only_a_watcher_saw_counts() {
        broken(
            &["I3"],
            "0s   ada claim disk -> token=1 for=30s
             7s   bob claim disk -> unknown
             9s   sees 0.9 granted disk bob token=2",
        );
    }
}
