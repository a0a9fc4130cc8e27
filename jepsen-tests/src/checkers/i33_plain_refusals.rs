//! I33. Nodes answer hostile callers with a success or with a code of the closed list and its status, or close the
//! connection; never with an internal error.

use super::facts::Facts;
use super::verdict::Verdict;
use api::Code;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(soak) = &facts.history.soak else { return verdict };
    for tally in &soak.tallies {
        for (answer, times) in &tally.answers {
            verdict.facts += times;
            if let Some(why) = wrong(answer) {
                let at = soak.phases.iter().find(|phase| phase.name == tally.phase).map_or(0, |phase| phase.began);
                let what = format!("{} at node {}: {times} times {answer}, {why}", tally.kind, tally.seat);
                verdict.violate(at, what, &[]);
            }
        }
    }
    verdict
}

/// What is wrong with an answer: either a status with an optional code, or text for a request without an answer.
fn wrong(answer: &str) -> Option<&'static str> {
    let (status, code) = answer.split_once(' ').map_or((answer, None), |(status, code)| (status, Some(code)));
    let status: u16 = status.parse().ok()?;
    match code.map(|name| Code::ALL.iter().find(|code| code.name() == name)) {
        Some(None) => Some("an unknown code"),
        Some(Some(Code::Internal)) => Some("an internal error of the node"),
        Some(Some(code)) if code.status() != status => Some("a code that belongs to another status"),
        // Before a request is parsed there is nothing to refuse with a code.
        None if status >= 500 => Some("without a code"),
        Some(Some(_)) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::wrong;
    use crate::checkers::story::{broken, facts_of};

    #[test]
    fn answers_with_a_known_code_and_its_status_are_right() {
        for right in ["200", "403 forbidden", "429 rate_limited", "503 overloaded", "408", "closed", "not answered"] {
            assert_eq!(wrong(right), None, "{right}");
        }
        for bad in ["500 internal", "500", "403 rate_limited", "418 teapot", "502"] {
            assert!(wrong(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn an_undocumented_answer_is_found() {
        let story = |answer: &str| format!("phase 0s..9s flood\ntally flood flood times=3 answer={answer}");
        assert_eq!(facts_of("I33", &story("403_forbidden")), 3);
        broken(&["I33"], &story("500_internal"));
    }
}
