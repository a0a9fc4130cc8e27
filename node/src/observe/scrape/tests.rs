//! Dashboards and alerts depend on the names: the document lists all of them, and no others.

use super::queues::{Depth, NAMED, Queues};
use super::sample::{DiskSample, RaftSample, Sample};
use super::*;
use crate::observe::metrics::OK;
use expect_test::expect_file;
use lease::Code;
use lease::names::{QueueName, SpaceName};
use lease::numbers::Time;
use raft_store::histogram::{Histogram as Buckets, SIZES};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const BEGIN: &str = "<!-- names: written by a test -->\n";
const END: &str = "<!-- end of names -->\n";

/// A sample in which every optional value is present.
fn full() -> Sample {
    let queue = (SpaceName::fallback(), QueueName::new("work").unwrap());
    let counted = Buckets::new(SIZES).read();
    let mut sample = Sample {
        raft: RaftSample {
            role: "leader",
            lag: BTreeMap::from([(2, 7)]),
            quorum_acked_before: Some(Duration::ZERO),
            ..RaftSample::default()
        },
        role_changes: vec![("leader", 1)],
        events: vec![("granted", 1)],
        disk: DiskSample { low: BTreeMap::from([(2, true)]), ..DiskSample::default() },
        queues: Queues { named: BTreeMap::from([(queue, Depth::default())]), ..Queues::default() },
        process: process::Process { resident_bytes: Some(1), open_files: Some(1), open_files_max: Some(1) },
        ..Sample::default()
    };
    sample.proposer.batch_commands = counted.clone();
    sample.proposer.commit_nanos = counted.clone();
    sample.log_histograms.entries = counted.clone();
    sample.log_histograms.sync_nanos = counted;
    sample
}

fn touched() -> Metrics {
    let metrics = Metrics::new();
    metrics.call("list", "not_found", Duration::from_millis(2));
    metrics.shed("memory");
    metrics.auth_failed("expired");
    metrics
}

/// Makes the table from a rendered text: a line for each family, with the names of its labels.
fn table(text: &str) -> String {
    let mut table = String::from("| name | kind | labels | meaning |\n|---|---|---|---|\n");
    for family in text.split("# HELP ").skip(1) {
        let (name, rest) = family.split_once(' ').unwrap();
        let (help, rest) = rest.split_once('\n').unwrap();
        let kind = rest.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} "))).unwrap();
        let samples = rest.lines().filter(|line| !line.starts_with('#'));
        let labels: BTreeSet<&str> = samples
            .filter_map(|sample| sample.split_once('{')?.1.split_once('}'))
            .flat_map(|(labels, _)| labels.split(',').filter_map(|label| Some(label.split_once('=')?.0)))
            .filter(|label| *label != "le")
            .collect();
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        let suffix = if kind == "counter" { "_total" } else { "" };
        table += &format!("| `{name}{suffix}` | {kind} | {labels} | {} |\n", help.trim_end_matches('.'));
    }
    table
}

#[test]
fn the_document_lists_every_metric_with_its_labels() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/METRICS.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (before, rest) = document.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let names = table(&text(&touched(), full()));
    expect_file![path].assert_eq(&format!("{before}{BEGIN}\n{names}\n{END}{after}"));
}

#[test]
fn every_metric_has_the_prefix_and_a_help_text() {
    let text = text(&touched(), full());
    assert!(text.ends_with("# EOF\n"));
    assert!(!text.contains("{}"), "{text}");
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            let (name, help) = described.split_once(' ').unwrap();
            assert!(name.starts_with("tenure_") && help.len() > 10, "{line}");
            assert!(seen.insert(name.to_owned()), "{name} twice");
        }
    }
}

#[test]
fn calls_are_timed_by_outcome_and_refusals_are_counted_by_code() {
    let metrics = Metrics::new();
    metrics.call("activate", OK, Duration::from_millis(2));
    metrics.call("view_item", Code::NotFound.name(), Duration::from_secs(60));
    metrics.entry_refused(Code::NotFound);
    let text = text(&metrics, Sample::default());
    for line in [
        "tenure_call_seconds_count{command=\"activate\",outcome=\"ok\"} 1",
        "tenure_call_seconds_bucket{le=\"0.001\",command=\"activate\",outcome=\"ok\"} 0",
        "tenure_call_seconds_bucket{le=\"0.003\",command=\"activate\",outcome=\"ok\"} 1",
        "tenure_call_seconds_bucket{le=\"30.0\",command=\"view_item\",outcome=\"not_found\"} 0",
        "tenure_call_seconds_bucket{le=\"+Inf\",command=\"view_item\",outcome=\"not_found\"} 1",
        "tenure_refusals_total{code=\"not_found\"} 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("code=\"ok\""));
}

#[test]
fn open_streams_requests_and_connections_are_counted_until_closed() {
    let metrics = Metrics::new();
    let count = |name: &str| {
        let text = text(&metrics, Sample::default());
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
        line.unwrap()
    };
    let (stream, other) = (metrics.stream_opened(), metrics.clone().stream_opened());
    let (request, connection) = (metrics.request_began(), metrics.connection_opened());
    assert_eq!(count("tenure_streams_open"), "2");
    drop((stream, request, connection));
    assert_eq!(count("tenure_streams_open"), "1");
    assert_eq!((count("tenure_requests_in_flight"), count("tenure_connections_open")), ("0".into(), "0".into()));
    drop(other);
    metrics.body_read(7);
    metrics.tls_failed();
    assert_eq!(
        (count("tenure_request_body_bytes_total"), count("tenure_tls_handshake_failures_total")),
        ("7".into(), "1".into())
    );
}

#[test]
fn a_histogram_of_nanoseconds_is_shown_in_seconds() {
    let sync = Buckets::new(raft_store::histogram::LATENCY_NANOS);
    sync.observe_time(Duration::from_millis(2));
    sync.observe_time(Duration::from_secs(20));
    let mut sample = Sample::default();
    sample.log_histograms.sync_nanos = sync.read();
    let text = text(&Metrics::new(), sample);
    for line in [
        "tenure_log_sync_seconds_sum 20.002",
        "tenure_log_sync_seconds_count 2",
        "tenure_log_sync_seconds_bucket{le=\"0.001\"} 0",
        "tenure_log_sync_seconds_bucket{le=\"0.003\"} 1",
        "tenure_log_sync_seconds_bucket{le=\"10.0\"} 1",
        "tenure_log_sync_seconds_bucket{le=\"+Inf\"} 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn a_queue_named_other_is_separate_from_the_sum_of_other_queues() {
    let mut queues = Queues::default();
    let space = SpaceName::fallback();
    for number in 0..=NAMED {
        let depth = Depth { leases: 1, oldest_ready_since: Some(Time(number as u64)), ..Depth::default() };
        queues.add((space.clone(), QueueName::new(&format!("z{number:03}")).unwrap()), depth);
    }
    let own = Depth { leases: 5, ..Depth::default() };
    queues.add((space, QueueName::new("other").unwrap()), own);
    let text = text(&Metrics::new(), Sample { queues, ..Sample::default() });
    assert!(text.contains("tenure_queue_leases{space=\"default\",queue=\"other\"} 5\n"), "{text}");
    assert!(text.contains("tenure_queue_leases{space=\"\",queue=\"other\"} 2\n"), "{text}");
    assert!(text.contains("tenure_leases 106\n"), "{text}");
}
