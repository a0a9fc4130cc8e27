//! I2. If one grant was known before another was requested, the later one has the greater token, over all items of the
//! space and every change of leader; and in the stream tokens only increase. A cluster that is restored from a backup
//! continues above all of them.

use super::facts::Facts;
use super::i01_mutual_exclusion::{Span, overtaken};
use super::restored;
use super::verdict::{Verdict, seconds};

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict { facts: facts.grants.len() as u64, ..Verdict::default() };
    let span = |(no, grant): (usize, &super::facts::Grant)| Span {
        begin: grant.lower,
        end: grant.upper,
        value: grant.token,
        no,
    };
    let mut spans: Vec<Span> = facts.grants.iter().enumerate().map(span).collect();
    for (before, after) in overtaken(&mut spans) {
        let (one, two) = (&facts.grants[before.no], &facts.grants[after.no]);
        let what = format!(
            "token {} of {} was known at {}, but then {}, requested at {}, was granted with the lower token {}",
            one.token,
            facts.items[one.item],
            seconds(one.upper),
            facts.items[two.item],
            seconds(two.lower),
            two.token,
        );
        let ops: Vec<usize> = one.told_by.into_iter().chain(two.told_by).collect();
        verdict.violate(two.upper, what, &ops);
    }
    let mut newest: Option<(u64, String)> = None;
    for event in facts.stream.events.iter().filter(|event| event.kind == "granted") {
        let Some(token) = event.token else { continue };
        if let Some((last, number)) = &newest
            && *last >= token
        {
            let what = format!("event {} grants token {token}, after event {number} granted {last}", event.name());
            verdict.violate_with(event.seen, what, &[], vec![number.clone(), event.name()]);
        }
        newest = Some((token, event.name()));
    }
    restored::tokens(facts, &mut verdict);
    let terms = facts.history.leaders.iter().filter(|leader| leader.node.is_some()).count();
    verdict.notes.push(format!("across {} changes of leader", terms.saturating_sub(1)));
    verdict
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, kept};

    #[test]
    fn a_waiting_claim_counts_from_when_it_joined_the_line() {
        kept(
            "0s   ada claim disk -> token=1 for=60s
             1s   bob claim disk wait id=b -> place=0
             2s   ada release disk token=1 -> did
             3s   cid claim tape -> token=3 for=9s
             4s   bob claim disk wait id=b again -> token=2 for=10s",
        );
    }

    #[test]
    fn a_retried_claim_counts_from_its_first_request() {
        kept(
            "0s   ada claim disk id=a -> unknown
             1s   bob claim tape -> token=2 for=9s
             2s   ada claim disk id=a again -> token=1 for=9s",
        );
    }

    #[test]
    fn a_lower_token_after_a_change_of_leader_is_found() {
        broken(
            &["I2"],
            "leader 0s 1
             0s   ada claim disk -> token=7 for=5s
             leader 2s 2
             3s   bob claim tape -> token=6 for=5s",
        );
    }

    #[test]
    fn a_lower_token_in_the_stream_is_found() {
        broken(
            &["I2"],
            "1s sees 0.1 granted disk ada token=7
             1s sees 0.2 granted tape bob token=6",
        );
    }
}
