//! Checks `cluster-scripts` against the code: names and labels of metrics, options, and the remedies that alerts name.
//! It reads files and starts nothing.

use node::daemon::config::Options;
use node::daemon::ending::Ending;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use test_support::documents::root;

/// Every series has these, from Prometheus.
const SCRAPED: [&str; 2] = ["job", "instance"];
/// The suffixes of a histogram's series.
const PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

struct Metric {
    is_histogram: bool,
    labels: BTreeSet<String>,
}

type Metrics = BTreeMap<String, Metric>;

/// As `docs/METRICS.md` lists them, which a test compares with what the code renders.
fn metrics() -> Metrics {
    let document = read("docs/METRICS.md");
    let rows = document.lines().filter(|line| line.starts_with("| `tenure_"));
    let metrics: Metrics = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let labels = cells[3].split(',').map(|label| label.trim().trim_matches('`').to_owned());
            let labels = labels.filter(|label| !label.is_empty()).collect();
            (cells[1].trim_matches('`').to_owned(), Metric { is_histogram: cells[2] == "histogram", labels })
        })
        .collect();
    assert!(metrics.len() > 50, "the table of names is not where it was");
    metrics
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn names_in(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Checks an expression: returns the error, or the labels that its result may have.
fn checked(expression: &str, metrics: &Metrics) -> Result<BTreeSet<String>, String> {
    let mut known: BTreeSet<String> = SCRAPED.map(str::to_owned).into();
    let mut rest = expression;
    while let Some(at) = rest.find("tenure_") {
        let end = rest[at..].find(|c| !is_word(c)).map_or(rest.len(), |length| at + length);
        let (name, after) = (&rest[at..end], &rest[end..]);
        rest = after;
        let part = PARTS.iter().find_map(|part| Some((name.strip_suffix(part)?, *part)));
        let (metric, part) = match (metrics.get(name), part) {
            (Some(metric), _) if metric.is_histogram => return Err(format!("{name} is a histogram: say which part")),
            (Some(metric), _) => (metric, ""),
            (None, Some((base, part))) => match metrics.get(base) {
                Some(metric) if metric.is_histogram => (metric, part),
                Some(_) => return Err(format!("{base} is no histogram: it has no {part}")),
                None => return Err(format!("there is no {base}")),
            },
            (None, None) => return Err(format!("there is no {name}")),
        };
        let mut own: BTreeSet<String> = metric.labels.iter().cloned().chain(SCRAPED.map(str::to_owned)).collect();
        if part == "_bucket" {
            own.insert("le".to_owned());
        }
        if let Some((matchers, _)) = after.strip_prefix('{').and_then(|after| after.split_once('}')) {
            for matcher in names_in(matchers) {
                let label = matcher.split(|c| !is_word(c)).next().unwrap_or_default();
                if !own.contains(label) {
                    return Err(format!("{name} has no label {label}"));
                }
            }
        }
        known.append(&mut own);
    }
    let lists = expression.split("by (").skip(1).filter_map(|after| after.split_once(')'));
    let grouped: BTreeSet<String> = lists.flat_map(|(list, _)| names_in(list)).map(str::to_owned).collect();
    if let Some(unknown) = grouped.iter().find(|label| !known.contains(*label)) {
        return Err(format!("nothing in it has the label {unknown}"));
    }
    if expression.contains("histogram_quantile") && !grouped.contains("le") {
        return Err("a quantile needs its buckets: by (le)".to_owned());
    }
    Ok(if grouped.is_empty() { known } else { grouped })
}

/// Labels that a text for people names, as `{{instance}}` or `{{ $labels.instance }}`.
fn labels_shown(text: &str) -> impl Iterator<Item = &str> {
    let shown = text.split("{{").skip(1).filter_map(|after| after.split_once("}}"));
    let names = shown.map(|(inside, _)| inside.split('|').next().unwrap_or_default().trim());
    names.filter(|name| *name != "$value").map(|name| name.trim_start_matches("$labels."))
}

#[derive(Default)]
struct Alert {
    name: String,
    expression: String,
    summary: String,
    cure: String,
}

/// The file is written by one pattern: a key a line, words in single quotes.
fn alerts() -> Vec<Alert> {
    let mut alerts: Vec<Alert> = Vec::new();
    for line in read("cluster-scripts/monitoring/alerts.yaml").lines() {
        let Some((key, value)) = line.trim_start_matches([' ', '-']).split_once(": ") else { continue };
        let value = value.trim().trim_matches('\'').replace("''", "'");
        match (key, alerts.last_mut()) {
            ("alert", _) => alerts.push(Alert { name: value, ..Alert::default() }),
            ("expr", Some(alert)) => alert.expression = value,
            ("summary", Some(alert)) => alert.summary = value,
            ("cure", Some(alert)) => alert.cure = value,
            _ => {}
        }
    }
    assert!(alerts.len() > 20, "the rules are not written as they were");
    alerts
}

/// Every expression of the dashboard, with the text of its legend.
fn expressions(value: &Value, found: &mut Vec<(String, String)>) {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    match value {
        Value::Object(fields) => {
            if fields.contains_key("expr") {
                found.push((text(fields.get("expr")), text(fields.get("legendFormat"))));
            }
            fields.values().for_each(|value| expressions(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

#[test]
fn alerts_use_metrics_and_labels_that_exist() {
    let metrics = metrics();
    for alert in alerts() {
        if !alert.expression.contains("tenure_") {
            continue;
        }
        let known = checked(&alert.expression, &metrics).unwrap_or_else(|why| panic!("{}: {why}", alert.name));
        for label in labels_shown(&alert.summary) {
            assert!(known.contains(label), "{}: nothing in it has the label {label}", alert.name);
        }
    }
}

#[test]
fn every_alert_has_a_unique_name_and_a_documented_remedy() {
    let operations = read("docs/OPERATIONS.md");
    let mut names = BTreeSet::new();
    for alert in alerts() {
        assert!(!alert.expression.is_empty() && !alert.summary.is_empty(), "{} says too little", alert.name);
        let cure = alert.cure.strip_prefix("docs/OPERATIONS.md, ").unwrap_or_default();
        assert!(
            operations.contains(&format!("\n| **{cure}** |")),
            "{}: no row **{cure}** in OPERATIONS.md",
            alert.name
        );
        assert!(names.insert(alert.name.clone()), "{} is there twice", alert.name);
    }
}

#[test]
fn the_dashboard_uses_metrics_and_labels_that_exist() {
    let metrics = metrics();
    let dashboard: Value = serde_json::from_str(&read("cluster-scripts/monitoring/dashboard.json")).unwrap();
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    assert!(found.len() > 30, "the panels are not where they were");
    for (expression, legend) in found {
        let known = checked(&expression, &metrics).unwrap_or_else(|why| panic!("{expression}: {why}"));
        for label in labels_shown(&legend) {
            assert!(known.contains(label), "{expression}: nothing in it has the label {label}");
        }
    }
}

#[test]
fn the_checks_find_unknown_metrics_and_labels() {
    let metrics = metrics();
    let why = |expression: &str| checked(expression, &metrics).unwrap_err();
    assert_eq!(why("tenure_cows == 1"), "there is no tenure_cows");
    assert_eq!(why("rate(tenure_cows_total[5m])"), "there is no tenure_cows_total");
    assert_eq!(why("tenure_leases_sum"), "tenure_leases is no histogram: it has no _sum");
    assert_eq!(why("rate(tenure_commit_seconds[5m])"), "tenure_commit_seconds is a histogram: say which part");
    assert_eq!(why("tenure_items{colour=\"red\"}"), "tenure_items has no label colour");
    assert_eq!(why("tenure_items{state=\"queued\", le=\"1\"}"), "tenure_items has no label le");
    assert_eq!(why("sum by (colour) (tenure_items)"), "nothing in it has the label colour");
    assert!(why("histogram_quantile(0.5, rate(tenure_commit_seconds_bucket[5m]))").contains("by (le)"));
    let fine = checked("sum by (job, state) (tenure_items{job=\"x\", state=~\"a|b\"})", &metrics).unwrap();
    assert_eq!(fine, ["job", "state"].map(str::to_owned).into());
}

#[test]
fn the_example_config_file_has_valid_options_and_starts_no_cluster() {
    let options: Options = toml::from_str(&read("cluster-scripts/systemd/tenured.toml")).unwrap();
    assert_eq!((options.bootstrap, options.join), (None, None), "the operator must choose");
    let (peers, callers) = (options.peer_listen.unwrap(), options.listen.unwrap());
    assert_eq!((peers.as_str(), callers.as_str()), ("0.0.0.0:7401", "0.0.0.0:7400"));
}

/// Exit codes by `tenured --help`: after these a node is not started again by itself.
const STAYS_DOWN: [(u8, Ending); 3] = [(1, Ending::Failed), (2, Ending::Usage), (3, Ending::Diverged)];

#[test]
fn only_exit_codes_of_temporary_causes_are_restarted() {
    for (code, ending) in STAYS_DOWN {
        assert_eq!(ending.code(), code);
    }
    let unit = read("cluster-scripts/systemd/tenured.service");
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default();
    assert_eq!(value("Restart"), "on-failure");
    assert_eq!(value("RestartPreventExitStatus"), STAYS_DOWN.map(|(code, _)| code.to_string()).join(" "));
    assert!(!STAYS_DOWN.iter().any(|(code, _)| *code == Ending::Passing.code()));
    assert!(!value("RestartSec").is_empty() && !value("StartLimitBurst").is_empty());
    let operations = read("docs/OPERATIONS.md");
    for code in [0, 1, 2, 3, 75, 101] {
        assert!(operations.contains(&format!("\n| {code} | ")), "OPERATIONS.md does not say what {code} is");
    }
}

/// Runs the start of a pod with a daemon that ends with this code at once.
fn start_pod(folder: &Path, code: u8) -> Command {
    let etc = folder.join("etc");
    for part in ["nodes", "bin"] {
        fs::create_dir_all(etc.join(part)).unwrap();
    }
    fs::write(etc.join("nodes/tenure-0"), "1").unwrap();
    let daemon = etc.join("bin/tenured");
    fs::write(&daemon, format!("#!/bin/sh\necho ran >>{}/ran\nexit {code}\n", folder.display())).unwrap();
    fs::set_permissions(&daemon, fs::Permissions::from_mode(0o755)).unwrap();
    let mut start = Command::new(root().join("cluster-scripts/kubernetes/start"));
    start.env("TENURE_ETC", &etc).env("TENURE_DATA", folder.join("data")).env("POD_NAME", "tenure-0");
    start.env("POD_NAMESPACE", "test").stdin(Stdio::null()).stderr(Stdio::null());
    start.env("PATH", format!("{}:{}", etc.join("bin").display(), std::env::var("PATH").unwrap()));
    start
}

#[test]
fn a_diverged_pod_is_held_and_any_other_is_restarted() {
    for code in [0, 1, 75] {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(start_pod(folder.path(), code).status().unwrap().code(), Some(i32::from(code)));
        assert!(!folder.path().join("data.held").exists(), "after {code}");
    }
    let folder = tempfile::tempdir().unwrap();
    let runs = || fs::read_to_string(folder.path().join("ran")).unwrap().lines().count();
    assert_eq!(start_pod(folder.path(), 3).status().unwrap().code(), Some(3));
    assert_eq!(runs(), 1);
    let mut held = start_pod(folder.path(), 0).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(held.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("differs from that of others, so it is not started"), "{said}");
    assert!(held.try_wait().unwrap().is_none() && runs() == 1, "it was started");
    fs::remove_file(folder.path().join("data.held")).unwrap();
    assert!(held.wait().unwrap().success());
    assert_eq!(runs(), 2);
}

#[test]
fn pods_never_bootstrap_a_cluster_by_ordinal() {
    let pods = read("cluster-scripts/kubernetes/statefulset.yaml");
    assert!(!pods.contains("bootstrap"), "a pod that lost its volume would begin a second cluster");
    let start = read("cluster-scripts/kubernetes/start");
    assert_eq!(start.matches("--bootstrap)").count(), 1, "one place where a cluster begins");
    assert!(start.contains("begin/until"), "and only for a while");
    let liveness = pods.split_once("livenessProbe:").unwrap().1.split_once("readinessProbe:").unwrap().0;
    assert!(liveness.contains("path: /healthz"), "without a quorum all would be killed");
}

fn yaml_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            yaml_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
}

#[test]
fn yaml_files_are_valid() {
    let mut files = Vec::new();
    yaml_files(&root().join("cluster-scripts"), &mut files);
    assert!(files.len() >= 6, "{files:?}");
    for path in &files {
        let text = fs::read_to_string(path).unwrap();
        assert!(!text.contains('\t') && text.ends_with('\n'), "{}", path.display());
    }
    let python = |script: &str, files: &[PathBuf]| {
        let mut command = Command::new("python3");
        command.args(["-c", script]).args(files).stdin(Stdio::null()).output()
    };
    // Without a YAML parser only the checks above are done.
    if !python("import yaml", &[]).is_ok_and(|output| output.status.success()) {
        return;
    }
    let parsed = python("import yaml, sys\nfor name in sys.argv[1:]: list(yaml.safe_load_all(open(name)))", &files);
    let parsed = parsed.unwrap();
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
}
