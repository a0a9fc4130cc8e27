//! The report of a run as one self-contained HTML page.

use super::chart::{self, escape};
use super::series::{OUTCOMES, Series};
use super::words::{count, millis, operation};
use super::{Amounts, Report};
use crate::checkers::verdict::{Verdict, seconds};
use std::fmt::Write as _;

/// The number of violations of an invariant that are shown without a click.
const FIRST: usize = 4;

const STYLE: &str = include_str!("page.css");

#[must_use]
pub fn page(report: &Report<'_, '_>) -> String {
    let history = report.facts.history;
    let about = &history.about;
    let series = Series::new(history);
    let mut html = String::with_capacity(200_000);
    let _ = write!(
        html,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{} under {}, seed {}</title><style>{STYLE}</style></head><body>",
        escape(&about.workload),
        escape(&about.nemesis),
        about.seed,
    );
    summary(&mut html, report, &series);
    let soak = super::soak::lines(history);
    if !soak.is_empty() {
        let _ = write!(html, "<h2>Hostile callers</h2><pre class=\"soak\">{}</pre>", escape(&soak.join("\n")));
    }
    html.push_str("<h2>Promises</h2>");
    promises(&mut html, report);
    html.push_str("<h2>Timeline</h2><figure><figcaption>Operations per second <span class=\"key\">");
    for name in OUTCOMES {
        let _ = write!(html, "<i class=\"{name}\"></i>{name} ");
    }
    html.push_str("<i class=\"band\"></i>fault</span></figcaption>");
    html.push_str(&chart::outcomes(&series, history));
    html.push_str("</figure><figure><figcaption>Leaders and faults</figcaption>");
    html.push_str(&chart::lanes(&series, history));
    html.push_str(
        "</figure><figure><figcaption>Latency of successful operations <span class=\"key\"><i class=\"half\"></i>p50 \
         <i class=\"most\"></i>p99</span></figcaption>",
    );
    html.push_str(&chart::latency(&series, history));
    html.push_str("</figure>");
    distributions(&mut html, report);
    coverage(&mut html, report);
    html.push_str("</body></html>\n");
    html
}

fn summary(html: &mut String, report: &Report<'_, '_>, series: &Series) {
    let history = report.facts.history;
    let about = &history.about;
    let broken: Vec<&str> =
        report.verdicts.iter().filter(|verdict| !verdict.holds()).map(|verdict| verdict.id).collect();
    let missing = report.coverage.iter().filter(|covered| covered.is_missing()).count();
    let (class, words) = match report.amounts() {
        Amounts::Kept => ("kept", "Every promise was kept".to_owned()),
        Amounts::Broken => ("broken", format!("Broken: {}", broken.join(", "))),
        Amounts::Worthless => {
            ("worthless", format!("No promise was broken, but {missing} required things did not happen"))
        }
    };
    let _ = write!(
        html,
        "<header><h1>{} <small>under</small> {}</h1><p class=\"verdict {class}\">{words}</p></header><dl>",
        escape(&about.workload),
        escape(&about.nemesis),
    );
    let mut entry = |name: &str, value: String| _ = write!(html, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    entry("Seed", about.seed.to_string());
    entry("Nodes", about.nodes.to_string());
    entry("Duration", seconds(series.end));
    about.broken.iter().for_each(|broken| entry("Broken on purpose", escape(broken)));
    entry("Operations", count(series.all()));
    for (name, times) in OUTCOMES.iter().zip(series.totals) {
        entry(name, count(times));
    }
    entry("Events seen", count(history.seen.len() as u64));
    let leaders = history.leaders.iter().filter(|leader| leader.node.is_some()).count();
    entry("Leader changes", count(leaders as u64));
    entry("Faults", count(history.faults.len() as u64));
    if let Some(end) = &history.end {
        let served = end.served.map_or_else(|| "never".into(), |served| seconds(served.saturating_sub(end.healed)));
        entry("Time to serve after healing", served);
    }
    let _ = write!(html, "</dl><p class=\"again\">Repeat with <code>{}</code></p>", escape(&report.replay));
    for death in history.end.iter().flat_map(|end| &end.deaths) {
        let _ = write!(html, "<p class=\"death\">Unexpected failure: {}</p>", escape(death));
    }
}

fn promises(html: &mut String, report: &Report<'_, '_>) {
    html.push_str("<div class=\"promises\">");
    for verdict in &report.verdicts {
        promise(html, report, verdict);
    }
    html.push_str("</div>");
}

fn promise(html: &mut String, report: &Report<'_, '_>, verdict: &Verdict) {
    let (class, word) = match verdict {
        verdict if !verdict.holds() => ("broken", "broken"),
        verdict if verdict.is_vacuous() => ("nothing", "nothing to check"),
        _ => ("kept", "kept"),
    };
    let is_open = if verdict.holds() { "" } else { " open" };
    let figures = match (verdict.violated, verdict.undecided) {
        (0, 0) => String::new(),
        (0, undecided) => format!("{} not decided", count(undecided)),
        (violated, _) => format!("{} violations", count(violated)),
    };
    let _ = write!(
        html,
        "<details class=\"{class}\"{is_open}><summary><b>{}</b><span class=\"name\">{}</span><span class=\"word\">{word}</span>\
         <span class=\"figure\">{figures}</span><span class=\"figure\">{} facts</span></summary><div class=\"more\">",
        verdict.id,
        escape(verdict.name),
        count(verdict.facts),
    );
    for note in &verdict.notes {
        let _ = write!(html, "<p class=\"note\">{}</p>", escape(note));
    }
    let _ = write!(html, "<p class=\"note\">Checked in {} ms</p>", verdict.took.as_millis());
    for (at, violation) in verdict.violations.iter().enumerate() {
        if at == FIRST {
            let _ = write!(html, "<details class=\"rest\"><summary>{} more</summary>", verdict.violations.len() - at);
        }
        let _ = write!(
            html,
            "<div class=\"violation\"><p><time>{}</time> {}</p>",
            seconds(violation.at),
            escape(&violation.what)
        );
        if !violation.operations.is_empty() || !violation.events.is_empty() {
            html.push_str("<pre>");
            for no in &violation.operations {
                let _ = writeln!(html, "{}", escape(&operation(report.facts, *no)));
            }
            if !violation.events.is_empty() {
                let _ = writeln!(html, "events {}", escape(&violation.events.join(", ")));
            }
            html.push_str("</pre>");
        }
        html.push_str("</div>");
    }
    if verdict.violations.len() > FIRST {
        html.push_str("</details>");
    }
    let more = verdict.violated - verdict.violations.len() as u64;
    if more > 0 {
        let _ = write!(html, "<p class=\"note\">and {} more</p>", count(more));
    }
    html.push_str("</div></details>");
}

fn distributions(html: &mut String, report: &Report<'_, '_>) {
    let measured = report.verdicts.iter().flat_map(|verdict| verdict.measured.iter().map(move |all| (verdict.id, all)));
    let measured: Vec<_> = measured.filter(|(_, all)| !all.millis.is_empty()).collect();
    if measured.is_empty() {
        return;
    }
    html.push_str("<h2>Measured</h2>");
    for (id, all) in measured {
        let at = |percent| all.percentile(percent).map_or_else(String::new, millis);
        let _ = write!(
            html,
            "<figure><figcaption>{id}: {} <span class=\"key\">{} times · p50 {} · p99 {} · max {}</span></figcaption>{}</figure>",
            escape(&all.name),
            count(all.millis.len() as u64),
            at(50),
            at(99),
            at(100),
            chart::distribution(&all.millis),
        );
    }
}

fn coverage(html: &mut String, report: &Report<'_, '_>) {
    html.push_str("<h2>Coverage</h2><table>");
    for covered in &report.coverage {
        let (class, word) = match (covered.is_missing(), covered.least > 0) {
            (true, _) => ("broken", "missing"),
            (false, true) => ("kept", "required"),
            (false, false) => ("nothing", ""),
        };
        let _ = write!(
            html,
            "<tr class=\"{class}\"><td>{}</td><td class=\"figure\">{}</td><td class=\"word\">{word}</td></tr>",
            escape(&covered.what),
            count(covered.times),
        );
    }
    html.push_str("</table>");
}
