//! Histories as short stories, one line each:
//!
//! ```text
//! 0s      ada claim disk -> token=1 for=30s
//! 1s..4s  bob/run claim disk wait id=b -> place=0
//! 2s      ada renew disk token=1 -> unknown
//! 5s      sees 0.4 granted disk bob token=2 line
//! ```
//!
//! `busy 0s..9s` makes the cluster serve calls all the time. A moment is `5s`, `5.2s` or `500ms`; an operation without
//! an end takes a millisecond, one of unknown outcome has none.

use super::facts::Facts;
use super::verdict::Verdict;
use crate::history::soak::{Bounds, Intruder, Phase, Sample, Soak, Tally};
use crate::history::{
    Answered, Asked, Batch, Belief, Burst, Change, ChangeOf, Death, End, Fault, Granted, History, Leader, Micros,
    Operation, Outcome, QueueSet, Restored, Seen, SeenItem, SeenMembers, WatcherSet,
};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The story keeps every invariant.
pub fn kept(story: &str) -> Vec<Verdict> {
    broken(&[], story)
}

/// The story breaks these invariants and no others.
pub fn broken(ids: &[&str], story: &str) -> Vec<Verdict> {
    let history = tell(story);
    let verdicts = super::check_facts(&Facts::new(&history), |_| {});
    let found: Vec<_> = verdicts.iter().filter(|verdict| !verdict.holds()).map(|verdict| verdict.id).collect();
    let why: Vec<_> = verdicts.iter().flat_map(|verdict| &verdict.violations).map(|found| &found.what).collect();
    assert_eq!(found, ids, "{why:#?}");
    verdicts
}

/// The number of facts that an invariant checked in a story that keeps them all.
pub fn facts_of(id: &str, story: &str) -> u64 {
    kept(story).iter().find(|verdict| verdict.id == id).expect("an invariant").facts
}

#[must_use]
pub fn tell(story: &str) -> History {
    let mut history = History::default();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (told, outcome) =
            line.split_once("->").map_or((line, None), |(told, outcome)| (told, Some(outcome.trim())));
        let words: Vec<&str> = told.split_whitespace().collect();
        tell_line(&mut history, &words, outcome, line);
    }
    history.operations.sort_by_key(|op| op.invoked);
    history.seen.sort_by_key(|seen| seen.at);
    history
}

fn tell_line(history: &mut History, words: &[&str], outcome: Option<&str>, line: &str) {
    let given = Given::new(words);
    match words {
        ["busy", span] => {
            let (from, to) = span.split_once("..").expect("a span");
            for at in (moment(from)..moment(to)).step_by(100_000) {
                let renew = operation(&format!("{}ms", at / 1_000), "bee", "renew_all", &[], &given, "ok", line);
                history.operations.push(renew);
            }
        }
        ["leader", at, node] => {
            let term = history.leaders.len() as u64 + 1;
            history.leaders.push(Leader { at: moment(at), node: node.parse().ok(), term });
        }
        ["fault", kind, span, ..] => {
            let (began, ended) = span.split_once("..").expect("a span");
            history.faults.push(Fault {
                kind: (*kind).to_owned(),
                what: line.to_owned(),
                nodes: vec![1],
                began: moment(began),
                ended: Some(moment(ended)),
                took_hold: !words.contains(&"missed"),
                in_force: Some((moment(began), moment(ended))),
            });
        }
        ["queue", name, ..] => history.about.queues.push(QueueSet {
            queue: (*name).to_owned(),
            lease_for_ms: given.millis("lease_for").unwrap_or(900_000),
            lock_delay_ms: given.millis("lock_delay").unwrap_or(0),
            concurrency: given.parsed("concurrency"),
            max_leases: given.parsed("max_leases"),
            line_max: given.parsed("line_max"),
        }),
        ["run", workload, nemesis] => {
            history.about.workload = (*workload).to_owned();
            history.about.nemesis = (*nemesis).to_owned();
        }
        ["member", span, what, node] => {
            let (asked, answered) = span.split_once("..").map_or((*span, None), |(from, to)| (from, Some(to)));
            let what = match *what {
                "join" => ChangeOf::Join,
                "vote" => ChangeOf::Vote,
                "learn" => ChangeOf::Learn,
                "remove" => ChangeOf::Remove,
                _ => panic!("no change: {line}"),
            };
            let node = node.parse().expect("a node");
            history.members.changes.push(Change { node, what, asked: moment(asked), answered: answered.map(moment) });
        }
        ["members", span, ..] => {
            let (asked, answered) = span.split_once("..").expect("a span");
            let ids = |name: &str| -> Vec<u64> {
                let ids = given.text(name).unwrap_or_default();
                ids.split(',').filter(|id| !id.is_empty()).map(|id| id.parse().expect("a node")).collect()
            };
            let (asked, answered) = (moment(asked), moment(answered));
            let (voters, learners) = (ids("voters"), ids("learners"));
            history.members.seen.push(SeenMembers { asked, answered, voters, learners });
        }
        ["burst", span, ..] => {
            let (began, ended) = span.split_once("..").expect("a span");
            let (began, ended) = (moment(began), moment(ended));
            let number = |name: &str| given.parsed(name).expect("a number");
            history.bursts.push(Burst { began, ended, calls: number("calls"), forwarded: number("forwarded") });
        }
        ["watcher", watcher, ..] => history.about.watchers.push(WatcherSet {
            watcher: watcher.parse().expect("a watcher"),
            queue: given.text("queue"),
            item: given.text("item"),
        }),
        ["hash", node, index, hash] => {
            let of = (node.parse().expect("a node"), index.parse().expect("an index"), (*hash).to_owned());
            history.end.get_or_insert_default().hashes.push(of);
        }
        ["bounds", ..] | ["phase", ..] | ["node", ..] | ["stopped", ..] | ["intruder", ..] | ["tally", ..] => {
            tell_soak(history.soak.get_or_insert_default(), words, &given);
        }
        ["dies", at, ..] => history.deaths.push(Death { at: moment(at), what: line.to_owned() }),
        ["death", ..] => history.end.get_or_insert_default().deaths.push(line.to_owned()),
        ["end", "item", item, ..] => {
            history.end.get_or_insert_default().items.push(((*item).to_owned(), given.item()));
        }
        ["end", ..] => {
            let end = history.end.take().unwrap_or_default();
            history.end = Some(End {
                healed: given.text("healed").map_or(0, |at| moment(&at)),
                served: given.text("served").map(|at| moment(&at)),
                created: given.parsed("created").unwrap_or(0),
                live: given.parsed("live").unwrap_or(0),
                terminal: given.parsed("terminal").unwrap_or(0),
                purged: given.parsed("purged").unwrap_or(0),
                ..end
            });
        }
        ["restored", "item", item, ..] => {
            history.restored.get_or_insert_default().items.push(((*item).to_owned(), given.item()));
        }
        ["restored", ..] => {
            history.restored = Some(Restored {
                began: given.text("began").map_or(0, |at| moment(&at)),
                ended: given.text("ended").map_or(0, |at| moment(&at)),
                before_activation: given.text("before").into_iter().collect(),
                token: given.parsed("token").unwrap_or(0),
                refused: given.text("refused"),
                items: history.restored.take().unwrap_or_default().items,
            });
        }
        [at, "sees", number, kind, rest @ ..] => {
            let watcher = given.parsed("by").unwrap_or(1);
            history.seen.push(Seen { watcher, at: moment(at), event: event(number, kind, rest, &given, line) });
        }
        [span, who, verb, rest @ ..] => {
            history.operations.push(operation(span, who, verb, rest, &given, outcome.unwrap_or("ok"), line));
        }
        _ => panic!("no story: {line}"),
    }
}

/// The measurements of a run with hostile callers.
fn tell_soak(soak: &mut Soak, words: &[&str], given: &Given<'_>) {
    let number = |name: &str| given.parsed::<u64>(name).unwrap_or(0);
    let span = |span: &str| span.split_once("..").map(|(from, to)| (moment(from), moment(to))).expect("a span");
    match words {
        ["bounds", ..] => {
            soak.bounds = Bounds {
                latency_times: given.parsed("latency").unwrap_or(0.0),
                memory_mib: number("memory"),
                disk_mib: number("disk"),
                log_mib: number("log"),
            };
        }
        ["phase", within, name, ..] => {
            let (began, ended) = span(within);
            let kinds = if words.contains(&"hostile") { vec![(*name).to_owned()] } else { Vec::new() };
            soak.phases.push(Phase { name: (*name).to_owned(), kinds, began, ended });
        }
        ["node", seat, at, ..] => soak.samples.push(Sample {
            at: moment(at),
            seat: seat.parse().expect("a seat"),
            resident_kib: number("memory") * 1024,
            disk_kib: number("disk") * 1024,
            log_kib: number("log") * 1024,
            ..Sample::default()
        }),
        ["intruder", node, within, ..] => {
            let (began, ended) = span(within);
            soak.intruders.push(Intruder {
                node: node.parse().expect("a node"),
                began,
                ended,
                was_member: words.contains(&"member"),
                was_let_in: words.contains(&"told"),
                ..Intruder::default()
            });
        }
        ["tally", phase, kind, ..] => soak.tallies.push(Tally {
            phase: (*phase).to_owned(),
            kind: (*kind).to_owned(),
            seat: 1,
            asked: number("times"),
            answers: [(given.text("answer").unwrap_or_default().replacen('_', " ", 1), number("times"))].into(),
            ..Tally::default()
        }),
        _ => soak.stopped = Some(words.join(" ")),
    }
}

fn operation(
    span: &str,
    who: &str,
    verb: &str,
    rest: &[&str],
    given: &Given<'_>,
    outcome: &str,
    line: &str,
) -> Operation {
    let (invoked, completed) = match span.split_once("..") {
        Some((from, to)) => (moment(from), moment(to)),
        None => (moment(span), moment(span) + 1_000),
    };
    let item = rest.first().map_or(String::new(), |item| (*item).to_owned());
    let token = given.parsed("token");
    let named = token.unwrap_or(0);
    let asked = match verb {
        "create" => Asked::Create {
            item,
            queue: given.text("queue").unwrap_or_else(|| "jobs".into()),
            depends_on: given.list("after"),
            needs: given.list("needs"),
        },
        "claim" => Asked::Claim {
            item,
            lease_for_ms: None,
            waits: rest.contains(&"wait"),
            takeover: rest.contains(&"takeover"),
        },
        "next" => Asked::Next {
            queue: item,
            count: 1,
            lease_for_ms: None,
            wait_ms: given.millis("wait"),
            capabilities: given.text("able").map(|_| given.list("able")),
        },
        "renew" => Asked::Renew { item, token: named },
        "renew_all" => Asked::RenewAll,
        "extend" => Asked::Extend { item, token: named, by_ms: 1_000 },
        "release" => Asked::Release { item, token: named },
        "reserve" => Asked::Reserve { item, token: named },
        "hand_on" => Asked::HandOn { item, token: named },
        "cancel" => Asked::Cancel { item, force: rest.contains(&"force") },
        "read_locally" => Asked::ReadLocally { item },
        "withdraw" => Asked::Withdraw { item },
        "revoke" => Asked::Revoke { item },
        "assign" => Asked::Assign { item, to: given.text("to").expect("whom") },
        "unassign" => Asked::Unassign { item },
        "update" => {
            Asked::Update { item, token, read_at: given.text("read_at"), value: given.parsed("value").unwrap_or(0) }
        }
        "read" => Asked::Read { item },
        "line" => Asked::Line { item },
        "complete" => Asked::Complete { item, token: named },
        "fail" => Asked::Fail { item, token: named },
        "write" => {
            let believes = |word: &&str| matches!(*word, "believing" | "misled");
            let belief = |word: &&str| Belief { at: invoked, is_steady: *word == "believing" };
            let belief = rest.iter().find(|word| believes(word)).map(belief);
            Asked::Write { item, token: named, value: given.parsed("value").unwrap_or(0), belief }
        }
        _ => panic!("no verb: {line}"),
    };
    let outcome = answer(outcome, &asked, invoked);
    let (actor, session) = who.split_once('/').map_or((who, None), |(actor, session)| (actor, Some(session)));
    Operation {
        process: 0,
        actor: actor.to_owned(),
        session: session.map(str::to_owned),
        node: Some(1),
        request_id: given.text("id"),
        is_repeat: rest.contains(&"again"),
        invoked,
        completed: (outcome != Outcome::Unknown).then_some(completed),
        asked,
        outcome,
        batch: given.parsed("batch").map(|no| Batch { no, all_or_none: true }),
        due: given.text("due").map(|at| moment(&at)),
    }
}

fn answer(told: &str, asked: &Asked, sent: Micros) -> Outcome {
    let words: Vec<&str> = told.split_whitespace().collect();
    let given = Given::new(&words);
    match words[..] {
        ["unknown"] => return Outcome::Unknown,
        ["unavailable"] => return Outcome::Unavailable,
        ["refused", code] => return Outcome::Refused { code: code.to_owned() },
        _ => {}
    }
    let lasts = given.millis("for");
    let mut answered = Answered {
        sent: given.text("sent").map_or(sent, |at| moment(&at)),
        place: given.parsed("place"),
        revision: given.text("rev"),
        did: words.iter().find_map(|word| match *word {
            "did" => Some(true),
            "did_not" => Some(false),
            _ => None,
        }),
        line: given.text("line").map(|line| line.split(',').map(str::to_owned).collect()),
        ..Answered::default()
    };
    match asked {
        Asked::Claim { item, .. } => {
            answered.grants.extend(given.parsed("token").map(|token| Granted {
                item: item.clone(),
                token,
                expires_in_ms: lasts.unwrap_or(0),
                renewed: words.contains(&"renewed"),
            }));
        }
        Asked::Next { .. } => {
            for (item, token) in words.iter().filter_map(|word| word.split_once(':')) {
                answered.grants.push(Granted {
                    item: item.to_owned(),
                    token: token.parse().expect("a token"),
                    expires_in_ms: lasts.unwrap_or(0),
                    renewed: false,
                });
            }
        }
        Asked::Read { .. } => answered.item = Some(given.item()),
        Asked::ReadLocally { .. } => {
            answered.item = Some(given.item());
            answered.age_ms = given.millis("age");
            answered.applied = given.parsed("applied");
        }
        _ => answered.expires_in_ms = lasts,
    }
    Outcome::Ok(answered)
}

fn event(number: &str, kind: &str, rest: &[&str], given: &Given<'_>, line: &str) -> api::event::Event {
    let mut what = serde_json::Map::new();
    let named: Vec<&&str> = rest.iter().filter(|word| !word.contains('=')).collect();
    if let Some(holder) = named.get(1).filter(|word| !matches!(***word, "line" | "late" | "final")) {
        let (actor, session) =
            holder.split_once('/').map_or((**holder, None), |(actor, session)| (actor, Some(session)));
        if kind.ends_with("assigned") {
            what.insert("actor".into(), json!(actor));
        } else {
            what.insert("holder".into(), json!({"actor": actor, "session": session}));
        }
    }
    for key in ["token", "place"] {
        if let Some(value) = given.parsed::<u64>(key) {
            what.insert(key.into(), json!(value));
        }
    }
    if let Some(lasts) = given.millis("for") {
        what.insert("expires_at_ms".into(), json!(given.millis("cluster").unwrap_or(0) + lasts));
    }
    for (word, key) in [("line", "from_line"), ("late", "late"), ("final", "final")] {
        if rest.contains(&word) {
            what.insert(key.into(), json!(true));
        }
    }
    let mut event = json!({
        "number": number,
        "at_ms": given.millis("cluster").unwrap_or(0),
        "at": "2026-11-01T00:00:00.000Z",
        "kind": kind,
        "item": named.first(),
        "queue": given.text("queue"),
    });
    if !what.is_empty() {
        event["what"] = Value::Object(what);
    }
    serde_json::from_value(event).unwrap_or_else(|why| panic!("{why}: {line}"))
}

/// The `name=value` parts of a line.
struct Given<'w>(HashMap<&'w str, &'w str>);

impl<'w> Given<'w> {
    fn new(words: &[&'w str]) -> Self {
        Self(words.iter().filter_map(|word| word.split_once('=')).collect())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| (*value).to_owned())
    }

    fn parsed<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.0.get(name).map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
    }

    fn millis(&self, name: &str) -> Option<u64> {
        self.0.get(name).map(|span| moment(span) / 1_000)
    }

    fn list(&self, name: &str) -> Vec<String> {
        self.text(name).map_or_else(Vec::new, |list| list.split(',').map(str::to_owned).collect())
    }

    fn item(&self) -> SeenItem {
        SeenItem {
            state: self.text("state").unwrap_or_else(|| "queued".into()),
            revision: self.text("rev").unwrap_or_else(|| "0.1".into()),
            value: self.parsed("value"),
            holder: self.text("holder"),
            token: self.parsed("token"),
            assignee: self.text("assignee"),
        }
    }
}

fn moment(text: &str) -> Micros {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(millis), _) => (millis, 1_000.0),
        (None, Some(seconds)) => (seconds, 1_000_000.0),
        _ => panic!("no moment: {text}"),
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "stories are short")]
    let micros = (number.parse::<f64>().expect("a number") * unit) as Micros;
    micros
}
