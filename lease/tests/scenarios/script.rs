//! A script: its steps in order, and the actors in it.

use super::sentence::{Sentence, actor_id, item_id, span_of, wall_of};
use super::verbs::command;
use lease::caller::{ActorKind, Caller, QueueScope, Right, Role, Verified};
use lease::command::{Attempt, ClaimMany, Release};
use lease::names::{ActorId, QueueName, RequestId, SessionId, SpaceName};
use lease::numbers::{Time, Wall};
use lease::{Command, Request};
use std::collections::{BTreeMap, VecDeque};

/// Midnight of 2026-03-01, where the wall clock starts.
pub(crate) const MIDNIGHT: u64 = 1_772_323_200_000;
pub(crate) struct Step {
    pub(crate) line: String,
    /// As it is written in the script.
    pub(crate) time: String,
    pub(crate) at: Time,
    pub(crate) wall: Wall,
    pub(crate) kind: StepKind,
}

pub(crate) enum StepKind {
    Entry(Vec<Request>),
    Watch(Caller),
    Wakes,
    Queues,
}

/// The steps of a script, in order. A setup line applies to the steps after it.
pub(crate) struct Script<'a> {
    lines: VecDeque<&'a str>,
    roles: BTreeMap<&'a str, Vec<Right>>,
    kinds: BTreeMap<&'a str, (ActorKind, Option<ActorId>)>,
    verified: BTreeMap<&'a str, Verified>,
    requests: u32,
}

impl<'a> Script<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        Self { lines, roles: BTreeMap::new(), kinds: BTreeMap::new(), verified: BTreeMap::new(), requests: 0 }
    }

    fn set_up(&mut self, line: &mut Sentence<'a>) {
        let (what, who) = (line.word(), line.word());
        match what {
            "roles" => {
                let rest = line.rest();
                let rights = rest.split(" + ").filter(|right| *right != "none").map(|right| {
                    let (role, queues) = right.split_once(' ').unwrap_or((right, ""));
                    let queues = match queues.strip_prefix('=') {
                        Some(name) => QueueScope::exactly(&QueueName::new(name).expect("a queue")),
                        None => QueueScope::prefix(queues),
                    };
                    Right { role: role_of(role), queues }
                });
                self.roles.insert(who, rights.collect());
            }
            "kind" => {
                let kind = match line.word() {
                    "user" => ActorKind::User,
                    "agent" => ActorKind::Agent,
                    "system" => ActorKind::System,
                    other => line.fail(&format!("no kind: {other}")),
                };
                let parent = line.says("of").then(|| actor_id(line.word()));
                self.kinds.insert(who, (kind, parent));
            }
            "verified" => {
                let how = match line.word() {
                    "checked" => Verified::Checked,
                    "cached" => Verified::FromCache,
                    "self_reported" => Verified::SelfReported,
                    other => line.fail(&format!("no verification: {other}")),
                };
                self.verified.insert(who, how);
            }
            other => line.fail(&format!("neither a time nor a setup line: {other}")),
        }
        line.done();
    }

    fn caller(&self, who: &str) -> (SpaceName, Caller) {
        let (who, space) = who.split_once('@').unwrap_or((who, "default"));
        let (actor, session) = who.split_once('/').map_or((who, None), |(actor, session)| (actor, Some(session)));
        let right = |role| Right { role, queues: QueueScope::every() };
        let rights = self.roles.get(actor).cloned().unwrap_or_else(|| match actor {
            "op" => vec![right(Role::Operator)],
            "root" => vec![right(Role::Admin)],
            _ => vec![right(Role::Worker), right(Role::Dispatcher)],
        });
        let (kind, parent) = self.kinds.get(actor).cloned().unwrap_or((ActorKind::User, None));
        let caller = Caller {
            actor: actor_id(actor),
            kind,
            parent,
            session: session.map(|session| SessionId::new(session).expect("a session")),
            verified: self.verified.get(actor).copied().unwrap_or(Verified::Checked),
            rights,
        };
        (SpaceName::new(space).expect("a space"), caller)
    }

    fn requests(&mut self, mut line: Sentence<'_>) -> Vec<Request> {
        let who = line.word();
        if let Some(callers) = crowd(who) {
            let said = line.behind(who);
            let mut of = |who: &String| {
                let text = format!("{who}{}", said.replace('%', who));
                self.requests(Sentence::new(&text, &text))
            };
            return callers.iter().flat_map(&mut of).collect();
        }
        let (space, caller) = self.caller(who);
        if line.says("fills") {
            return self.fill(&space, &caller, line.rest());
        }
        self.requests += 1;
        let (id, attempt) = line.request.take().unwrap_or((format!("line-{}", self.requests), Attempt::First));
        let command = command(&mut line);
        line.done();
        vec![Request { space, caller, request_id: RequestId::new(&id).expect("a request id"), attempt, command }]
    }

    /// `mob@nowhere fills 4000 batches`: 4,000 requests of a thousand entries each, which have no effect.
    fn fill(&mut self, space: &SpaceName, caller: &Caller, rest: &str) -> Vec<Request> {
        let count: u32 = rest.split(' ').next().and_then(|count| count.parse().ok()).expect("how many batches");
        let release = Release { item: item_id("nothing"), token: None, keep_assignment: false };
        let batch = ClaimMany { claims: Vec::new(), releases: vec![release; 1_000], all_or_none: false };
        (0..count)
            .map(|number| {
                self.requests += 1;
                Request {
                    space: space.clone(),
                    caller: caller.clone(),
                    request_id: RequestId::new(&format!("fill-{}-{number}", self.requests)).expect("a request id"),
                    attempt: Attempt::First,
                    command: Command::ClaimMany(batch.clone()),
                }
            })
            .collect()
    }
}

impl Iterator for Script<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            let text = self.lines.pop_front()?;
            if !text.starts_with(|c: char| c.is_ascii_digit()) {
                self.set_up(&mut Sentence::new(text, text));
                continue;
            }
            let mut line = Sentence::new(text, text);
            let time = line.word();
            let at = Time(span_of(time).unwrap_or_else(|| line.fail("begins with no time")).0);
            let wall = if line.says("wall") { wall_of(line.word()) } else { Wall(MIDNIGHT + at.0) };
            let step = |kind| Step { line: text.to_owned(), time: time.to_owned(), at, wall, kind };
            if line.words.get(1) == Some(&"watches") {
                return Some(step(StepKind::Watch(self.caller(line.word()).1)));
            }
            if line.says("wakes") {
                return Some(step(StepKind::Wakes));
            }
            if line.says("queues") {
                return Some(step(StepKind::Queues));
            }
            let mut requests = if line.says("tick") { Vec::new() } else { self.requests(line) };
            while let Some(more) = self.lines.front().and_then(|line| line.strip_prefix('&')) {
                self.lines.pop_front();
                requests.extend(self.requests(Sentence::new(more, more.trim())));
            }
            return Some(step(StepKind::Entry(requests)));
        }
    }
}

/// `mob*3` is `mob1`, `mob2` and `mob3`; `op@s*3` is `op` in three spaces; `3*ada` is ada, three times. `%` in their
/// command stands for the name of each.
fn crowd(who: &str) -> Option<Vec<String>> {
    let (before, behind) = who.split_once('*')?;
    if let Ok(count) = before.parse() {
        return Some(vec![behind.to_owned(); count]);
    }
    let (count, rest) = behind.split_at(behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len()));
    let count: u32 = count.parse().expect("how many");
    Some((1..=count).map(|n| format!("{before}{n}{rest}")).collect())
}

fn role_of(name: &str) -> Role {
    match name {
        "reader" => Role::Reader,
        "worker" => Role::Worker,
        "dispatcher" => Role::Dispatcher,
        "operator" => Role::Operator,
        "admin" => Role::Admin,
        other => panic!("no role: {other}"),
    }
}
