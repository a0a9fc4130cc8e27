//! I11. Reads are linearizable. Three independent checks: the order of revisions must agree with the order of time
//! (everything, exactly); the stream shows the item's states at the positions that a read can have seen; and a search
//! for a linearization, item by item, over values and over leases (as much as its time allows; the report shows the
//! undecided part).

pub mod lease;
pub mod register;
pub mod search;
pub mod versions;

use super::facts::Facts;
use super::i04_bounded_late::is_shown;
use super::standing::{possible, standings};
use super::verdict::{Verdict, seconds};
use crate::history::Asked;
use search::Search;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    for item in 0..facts.items.len() {
        versions::check(facts, item, &mut verdict);
        against_stream(facts, item, &mut verdict);
    }
    let mut search = Search::new(facts.history.operations.len());
    let open_next = lease::open_next(facts);
    for item in 0..facts.items.len() {
        register::check(facts, item, &mut search, &mut verdict);
        lease::check(facts, item, &open_next, &mut search, &mut verdict);
    }
    verdict.undecided = search.undecided;
    verdict.searched = Some(search.decided + search.undecided);
    verdict.notes.push(format!("{} segments searched, {} not decided in time", search.decided, search.undecided));
    verdict
}

/// A read shows a state that the item had at one of the positions that the read can have seen.
fn against_stream(facts: &Facts<'_>, item: usize, verdict: &mut Verdict) {
    let standings = standings(facts, item);
    if standings.is_empty() {
        return;
    }
    for no in &facts.of_item[item] {
        let op = facts.op(*no);
        let shown = op.answered().and_then(|answered| answered.item.as_ref());
        let (Asked::Read { .. }, Some(shown), Some(completed)) = (&op.asked, shown, op.completed) else { continue };
        let possible = possible(facts, item, &standings, (op.invoked, completed));
        let Some(first) = possible.first() else { continue };
        verdict.fact();
        if let (Some(least), Some(revision)) = (first.revision, super::facts::number(&shown.revision))
            && revision < least
        {
            let what = format!(
                "a read of {} sent at {} shows revision {}, but {}.{} was known before",
                facts.items[item],
                seconds(op.invoked),
                shown.revision,
                least.0,
                least.1,
            );
            verdict.violate(op.invoked, what, &[*no]);
        }
        let is_possible = |standing: &super::standing::Standing<'_>| match (standing.holder, shown.holder.as_deref()) {
            (None, _) | (Some(None), None) => true,
            (Some(Some(holder)), Some(name)) => is_shown(facts, holder, name),
            _ => false,
        };
        if !possible.iter().any(is_possible) {
            let what = format!(
                "a read of {} at {} shows the holder {}; according to the events it is {}",
                facts.items[item],
                seconds(op.invoked),
                shown.holder.as_deref().unwrap_or("nobody"),
                first.holder.flatten().map_or_else(|| "nobody".into(), |holder| facts.holders[holder].to_string()),
            );
            verdict.violate(op.invoked, what, &[*no]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of, kept};

    #[test]
    fn reads_and_updates_in_the_order_of_time() {
        let story = "
            0s  ada create disk -> rev=0.1 did
            1s  ada update disk read_at=0.1 value=1 -> rev=0.2
            2s..9s  bob update disk read_at=0.2 value=2 -> rev=0.3
            3s  eve read disk -> rev=0.2 value=1
            4s  eve read disk -> rev=0.3 value=2
            10s cid update disk read_at=0.2 value=3 -> refused stale_write";
        assert!(facts_of("I11", story) > 3);
    }

    #[test]
    fn an_update_of_unknown_outcome_may_take_effect_late_or_never() {
        kept(
            "0s  ada create disk -> rev=0.1 did
             1s  ada update disk read_at=0.1 value=1 -> unknown
             2s  eve read disk -> rev=0.1
             8s  eve read disk -> rev=0.2 value=1
             9s  bob update disk read_at=0.2 value=2 -> unknown
             10s cid update disk read_at=0.2 value=3 -> refused stale_write",
        );
    }

    #[test]
    fn a_stale_read_is_found() {
        broken(
            &["I11"],
            "0s  ada create disk -> rev=0.1 did
             1s  ada update disk read_at=0.1 value=1 -> rev=0.2
             2s  eve read disk -> rev=0.1",
        );
    }

    #[test]
    fn a_read_from_the_future_is_found() {
        broken(
            &["I11"],
            "1s  eve read disk -> rev=0.2 value=1
             2s  ada update disk value=1 -> rev=0.2",
        );
    }

    #[test]
    fn a_lost_update_is_found() {
        broken(
            &["I11"],
            "1s..9s  ada update disk read_at=0.1 value=1 -> rev=0.2
             1s..9s  bob update disk read_at=0.1 value=2 -> rev=0.3",
        );
    }

    #[test]
    fn an_unexplained_refusal_is_found() {
        broken(
            &["I11"],
            "1s  ada update disk value=1 -> rev=0.2
             2s  bob update disk read_at=0.2 value=2 -> refused stale_write
             3s  eve read disk -> rev=0.2 value=1",
        );
    }

    #[test]
    fn values_without_a_valid_order_are_found_without_revisions() {
        broken(
            &["I11"],
            "1s  ada update disk value=1 -> ok
             2s  bob update disk value=2 -> ok
             3s  eve read disk -> rev=none value=1",
        );
    }

    #[test]
    fn a_read_that_shows_a_holder_who_is_gone_is_found() {
        broken(
            &["I11"],
            "0s  ada claim disk -> token=1 for=90s
             1s  ada release disk token=1 -> did
             2s  bob claim disk -> token=2 for=90s
             3s  eve read disk -> state=active holder=ada assignee=bob",
        );
    }

    #[test]
    fn a_read_that_shows_nobody_while_it_is_held_is_found() {
        broken(
            &["I11"],
            "0s  ada claim disk -> token=1 for=90s
             2s  eve read disk -> state=queued assignee=ada
             3s  ada renew disk token=1 -> for=90s",
        );
    }

    #[test]
    fn a_waiting_claim_that_is_refused_may_have_been_granted_meanwhile() {
        let story = |refused: &str| {
            format!(
                "0s      ada claim disk -> token=1 for=90s
                 1s..8s  bob claim disk {refused} -> refused lease_lost
                 2s      ada release disk token=1 -> did
                 4s      eve read disk -> state=active holder=bob
                 9s      eve read disk -> state=queued"
            )
        };
        kept(&story("wait"));
        broken(&["I11"], &story(""));
    }

    #[test]
    fn a_lease_expires_only_after_its_time() {
        kept(
            "0s  ada claim disk -> token=1 for=5s
             6s  eve read disk -> state=stale assignee=ada
             7s  bob claim disk -> token=2 for=5s",
        );
    }

    #[test]
    fn a_lease_may_expire_a_hundredth_early_while_clocks_drift() {
        let story = |fault: &str| {
            format!(
                "{fault}
                 0s     ada claim disk -> token=1 for=5s
                 4.97s  eve read disk -> state=stale assignee=ada"
            )
        };
        kept(&story("fault drift 0s..9s"));
        broken(&["I11"], &story("fault pause 0s..9s"));
    }

    #[test]
    fn the_stream_finds_a_stale_holder() {
        broken(
            &["I11"],
            "1s   sees 0.1 created disk
             1s   sees 0.2 granted disk ada token=1
             2s   sees 0.3 released disk ada token=1
             3s   sees 0.4 created tape
             5s   eve create book -> rev=0.5 did
             5s   sees 0.5 created book
             4s   eve read disk -> state=active holder=ada rev=0.1",
        );
    }
}
