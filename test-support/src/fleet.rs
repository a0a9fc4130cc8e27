//! A small fleet: requests as an edge would build them, and whole histories of entries.

use crate::names;
use lease::caller::{Caller, Role};
use lease::command::{Activity, Cancel, Claim, Complete, Release, SetPolicy, Write};
use lease::item::{ActivityKind, NewItem, Part};
use lease::names::{ItemId, QueueName, RequestId, SessionId, SpaceName};
use lease::numbers::{Span, Time, Token, Wall};
use lease::policy::Setting;
use lease::{Attempt, Command, Entry, Request};

pub fn queue() -> QueueName {
    names::queue("work")
}

pub fn item(id: &str) -> ItemId {
    names::item(id)
}

/// A caller with all rights in every queue.
pub fn caller(actor: &str) -> Caller {
    let roles = [Role::Reader, Role::Worker, Role::Dispatcher, Role::Operator, Role::Admin];
    Caller { session: Some(SessionId::new("run-1").unwrap()), ..names::caller(actor, &roles) }
}

pub fn request(actor: &str, id: &str, command: Command) -> Request {
    Request {
        space: SpaceName::fallback(),
        caller: caller(actor),
        request_id: RequestId::new(id).unwrap(),
        attempt: Attempt::First,
        command,
    }
}

pub fn create(id: &str) -> Command {
    let mut new = NewItem::new(item(id), queue());
    new.body = vec![(Part::Plan, format!("the plan of {id}"))];
    Command::Create(Box::new(new))
}

pub fn claim(id: &str, lease_for: Span) -> Command {
    Command::Claim(Claim { lease_for: Some(lease_for), ..Claim::new(item(id)) })
}

pub fn write(id: &str, token: Option<Token>) -> Write {
    Write { item: item(id), token, read_at: None }
}

pub fn complete(id: &str, token: Token) -> Command {
    Command::Complete(Complete { write: write(id, Some(token)), result: None })
}

pub fn release(id: &str, token: Token) -> Command {
    Command::Release(Release { item: item(id), token: Some(token), keep_assignment: false })
}

pub fn retention(span: Span) -> Command {
    Command::SetPolicy(SetPolicy { queue: queue(), settings: vec![Setting::Retention(span)], version: None })
}

/// A pseudo-random generator with the same numbers on every machine.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Entries in which a few items are created, held, ended, reopened and created again many times, so that many are archived,
/// restored from the archive and purged from it.
pub fn history(seed: u64, entries: usize) -> Vec<Entry> {
    let mut dice = Dice(seed);
    let mut at = 1_000;
    let mut number = 0;
    let mut commands = vec![create("seed"), retention(Span::secs(60))];
    let mut history = Vec::new();
    for _ in 0..entries {
        for _ in 0..=dice.roll(4) {
            let id = format!("item-{}", dice.roll(12));
            commands.push(match dice.roll(8) {
                0 | 1 => create(&id),
                2 => claim(&id, Span::secs(1 + dice.roll(20))),
                3 => Command::Cancel(Cancel { item: item(&id), reason: "enough".into(), force: true }),
                4 => Command::Reopen { item: item(&id) },
                5 => Command::Complete(Complete { write: write(&id, None), result: Some("done".into()) }),
                6 => Command::Activity(Activity {
                    write: write(&id, None),
                    kind: ActivityKind::Progress,
                    note: "on it".into(),
                }),
                _ => Command::Release(Release { item: item(&id), token: None, keep_assignment: false }),
            });
        }
        at += dice.roll(9_000);
        let commands = std::mem::take(&mut commands)
            .into_iter()
            .map(|command| {
                number += 1;
                request(["ada", "bob", "cy"][number % 3], &format!("r{number}"), command)
            })
            .collect();
        history.push(Entry { at: Time(at), wall: Wall(1_800_000_000_000 + at), commands });
    }
    history
}
