//! The page and the lines of a run that kept every promise and of a run that broke one.

use super::*;
use crate::checkers::load::{Breaks, simulate};

fn with_report(breaks: Breaks, look: impl FnOnce(&Report<'_, '_>)) {
    let history = simulate(7, 6_000, breaks);
    let facts = Facts::new(&history);
    look(&Report::new(&facts, "./x jepsen --workload mutex --nemesis mixed --seed 7".into(), |_| {}));
}

#[test]
fn the_page_of_a_kept_run_loads_no_other_file() {
    with_report(Breaks::Nothing, |report| {
        let html = report.html();
        assert_eq!(report.amounts(), Amounts::Kept, "{:#?}", report.lines());
        assert!(html.contains("Every promise was kept") && html.contains("--seed 7"));
        for fetched in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!html.contains(fetched), "{fetched}");
        }
        assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    });
}

#[test]
fn a_broken_promise_is_shown_with_its_operations() {
    with_report(Breaks::EarlyLapse, |report| {
        let html = report.html();
        assert_eq!(report.amounts(), Amounts::Broken);
        assert!(html.contains("<details class=\"broken\" open>") && html.contains("was promised"));
        let lines = report.lines();
        assert!(lines.iter().any(|line| line.starts_with("BROKEN   I3")), "{lines:#?}");
        assert!(lines.last().is_some_and(|line| line.contains("--seed 7")), "{lines:#?}");
    });
}

#[test]
fn texts_of_a_run_are_escaped_in_the_page() {
    let mut history = simulate(1, 200, Breaks::Nothing);
    history.about.workload = "<script>".into();
    let facts = Facts::new(&history);
    let html = Report::new(&facts, "again & again".into(), |_| {}).html();
    assert!(!html.contains("<script>") && html.contains("again &amp; again"));
}

#[test]
fn progress_is_one_line() {
    let line = terminal::progress(12_000_000, 60_000_000, [24_000, 10, 2, 3], Some("kill of node 2"), Some(1));
    assert_eq!(
        line,
        "  12/60 s  24,015 operations (2,001/s): 24,000 ok, 10 refused, 2 unavailable, 3 unknown  node 1 leads  kill of node 2"
    );
}
