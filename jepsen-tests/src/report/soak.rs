//! A run with hostile callers as a table: for each phase the latency of honest callers and the resources that nodes
//! used, and the answers that each kind of hostile callers got.

use super::words::count;
use crate::checkers::i30_bounded_latency::{CALLS, latencies, percentile};
use crate::history::History;
use crate::history::soak::{Phase, Sample, Soak};
use std::collections::BTreeMap;

/// Empty for other runs.
#[must_use]
pub fn lines(history: &History) -> Vec<String> {
    let Some(soak) = &history.soak else { return Vec::new() };
    let latencies = latencies(soak, history.operations.iter());
    let mut lines = Vec::new();
    let calls: Vec<String> = CALLS.iter().map(|call| format!("{:>21}", format!("{call}: p50/p99/max"))).collect();
    lines.push(format!(
        "{:<18} {:>5} {} {:>9} {:>9} {:>9} {:>22}",
        "phase",
        "s",
        calls.join(" "),
        "memory",
        "disk",
        "log",
        "CPU: nodes/hostile/us"
    ));
    for (nth, phase) in soak.phases.iter().enumerate() {
        let cell = |call: &&'static str| {
            let at = |percent| percentile(&latencies, (nth, *call), percent, 1);
            match (at(50), at(99), at(100)) {
                (Some(half), Some(most), Some(last)) => format!("{:>21}", format!("{half:.1}/{most:.1}/{last:.0}")),
                _ => format!("{:>21}", "none"),
            }
        };
        let calls: Vec<String> = CALLS.iter().map(cell).collect();
        let lasted = (phase.ended - phase.began) / 1_000_000;
        let most = |of: fn(&Sample) -> u64| {
            let all = soak.seats().into_iter().flat_map(|seat| soak.samples_of(seat, phase).map(of));
            format!("{:>9}", format!("{} MiB", all.max().unwrap_or(0) / 1024))
        };
        let nodes: f64 = soak.seats().into_iter().map(|seat| cores(soak, seat, phase)).sum();
        let (hostile, suite) = (cores(soak, Sample::HOSTILE, phase), cores(soak, Sample::SUITE, phase));
        lines.push(format!(
            "{:<18} {lasted:>5} {} {} {} {} {:>22}",
            phase.name,
            calls.join(" "),
            most(|sample| sample.resident_kib),
            most(|sample| sample.disk_kib),
            most(|sample| sample.log_kib),
            format!("{nodes:.2}/{hostile:.2}/{suite:.2}")
        ));
    }
    lines.extend(hostile(soak));
    lines
}

/// The average number of processor cores that it used.
fn cores(soak: &Soak, seat: u32, phase: &Phase) -> f64 {
    let mut all = soak.samples_of(seat, phase);
    let (Some(first), Some(last)) = (all.next(), all.last()) else { return 0.0 };
    let (used, passed) = (last.cpu_ms.saturating_sub(first.cpu_ms), last.at.saturating_sub(first.at).max(1));
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    let share = used as f64 * 1_000.0 / passed as f64;
    share
}

/// The answers to each kind of hostile callers, over all phases and nodes.
fn hostile(soak: &Soak) -> Vec<String> {
    let mut kinds: BTreeMap<&str, (u64, u64, BTreeMap<&str, u64>)> = BTreeMap::new();
    for tally in &soak.tallies {
        let (asked, sent, answers) = kinds.entry(&tally.kind).or_default();
        *asked += tally.asked;
        *sent += tally.sent;
        for (answer, times) in &tally.answers {
            *answers.entry(answer).or_default() += times;
        }
    }
    let line = |(kind, (asked, sent, answers)): (&str, (u64, u64, BTreeMap<&str, u64>))| {
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        let answers: Vec<_> =
            answers.into_iter().map(|(answer, times)| format!("{answer}: {}", count(times))).collect();
        format!(
            "hostile  {kind:<16} {:>10} times, {:>7} MiB  {}",
            count(asked),
            count(sent / 1024 / 1024),
            answers.join(", ")
        )
    };
    let mut lines: Vec<String> = kinds.into_iter().map(line).collect();
    if !soak.intruders.is_empty() {
        let members = soak.intruders.iter().filter(|one| one.was_member).count();
        let told = soak.intruders.iter().filter(|one| one.was_let_in).count();
        lines.push(format!(
            "hostile  {:<16} {:>10} times: {members} became members, {told} learned about the cluster",
            "intruders",
            soak.intruders.len()
        ));
    }
    lines.extend(soak.stopped.iter().map(|why| format!("hostile callers were stopped: {why}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::story::tell;

    #[test]
    fn a_run_is_shown_phase_by_phase() {
        let history = tell(
            "bounds latency=3 memory=100 disk=100 log=100
            phase 0s..10s undisturbed
            phase 10s..20s views hostile
            1s..1.004s ada renew disk token=1 due=1s -> for=60s
            11s..11.020s ada renew disk token=1 due=10.5s -> for=60s
            node 1 5s memory=50 disk=60 log=20
            node 1 15s memory=70 disk=80 log=30
            tally views views times=1200 answer=429_rate_limited
            intruder 9000 11s..19s member",
        );
        let lines = lines(&history);
        assert!(lines[1].starts_with("undisturbed") && lines[1].contains("4.0/4.0/4 "), "{lines:#?}");
        assert!(lines[2].contains("520.0/520.0/520") && lines[2].contains("70 MiB    80 MiB    30 MiB"), "{lines:#?}");
        assert!(lines[3].contains("views") && lines[3].contains("429 rate_limited: 1,200"), "{lines:#?}");
        assert!(lines[4].contains("1 became members"), "{lines:#?}");
    }
}
