//! Lines for a terminal.

use super::words::{count, millis};
use super::{Amounts, Report};
use crate::checkers::coverage::Covered;
use crate::checkers::verdict::{Verdict, seconds};
use crate::history::Micros;
use std::fmt::Write as _;

/// The number of violations of an invariant that are shown in a terminal; the page shows more.
const SHOWN: usize = 3;

#[must_use]
pub fn lines(report: &Report<'_, '_>) -> Vec<String> {
    let mut lines = super::soak::lines(report.facts.history);
    for verdict in &report.verdicts {
        lines.push(line(verdict));
        for violation in verdict.violations.iter().take(SHOWN) {
            lines.push(format!("         {}: {}", seconds(violation.at), violation.what));
        }
    }
    for covered in report.coverage.iter().filter(|covered| covered.is_missing()) {
        lines.push(format!("missing  {}: {}, required: {}", covered.what, covered.times, covered.least));
    }
    lines.push(match report.amounts() {
        Amounts::Kept => "every promise was kept".into(),
        Amounts::Broken => format!("a promise was broken; repeat with: {}", report.replay),
        Amounts::Worthless => {
            let missing = report.coverage.iter().filter(|covered: &&Covered| covered.is_missing()).count();
            format!("no promise was broken, but the run is inconclusive: {missing} required things did not happen")
        }
    });
    lines
}

/// One invariant.
#[must_use]
pub fn line(verdict: &Verdict) -> String {
    let word = match verdict {
        verdict if !verdict.holds() => "BROKEN",
        verdict if verdict.is_vacuous() => "nothing",
        _ => "kept",
    };
    let mut text = format!("{word:<8} {:<4} {:<38} {:>11} facts", verdict.id, verdict.name, count(verdict.facts));
    if verdict.violated > 0 {
        let _ = write!(text, ", {} violations", count(verdict.violated));
    }
    if verdict.undecided > 0 {
        let _ = write!(text, ", {} undecided", count(verdict.undecided));
    }
    for measured in &verdict.measured {
        if let (Some(half), Some(most)) = (measured.percentile(50), measured.percentile(100)) {
            let _ = write!(text, "; {}: p50 {}, max {}", measured.name, millis(half), millis(most));
        }
    }
    text
}

/// The progress of a run, in one line.
#[must_use]
pub fn progress(now: Micros, of: Micros, outcomes: [u64; 4], fault: Option<&str>, leader: Option<u32>) -> String {
    let [ok, refused, unavailable, unknown] = outcomes;
    let all = ok + refused + unavailable + unknown;
    let per_second = all * 1_000_000 / now.max(1);
    let leader = leader.map_or_else(|| "no leader".into(), |node| format!("node {node} leads"));
    format!(
        "{:>4}/{} s  {} operations ({}/s): {} ok, {} refused, {} unavailable, {} unknown  {leader}  {}",
        now / 1_000_000,
        of / 1_000_000,
        count(all),
        count(per_second),
        count(ok),
        count(refused),
        count(unavailable),
        count(unknown),
        fault.unwrap_or("no fault"),
    )
}
