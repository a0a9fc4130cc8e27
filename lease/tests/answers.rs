//! No answer has more bytes than the bound that its command computes.

use lease::answer_size::GRANT_BYTES_MAX;
use lease::bounds::{
    ACTOR_ID_BYTES, BATCH, DEPENDENCIES, ITEM_ID_BYTES, LABEL_BYTES, LABELS, NEXT_COUNT, NOTE_BYTES, PHASE_BYTES,
    QUEUE_NAME_BYTES, SESSION_ID_BYTES, TIME_MAX, TITLE_BYTES,
};
use lease::caller::{Caller, Role};
use lease::command::{
    Cancel, Claim, ClaimMany, Complete, Extend, Next, OnConflict, Release, Renew, RenewAll, Reserve, SetPolicy, Update,
    Write,
};
use lease::encoding::encoded_len;
use lease::item::{Edit, Mode, NewItem, Part};
use lease::names::{ItemId, Label, Phase, QueueName, SessionId};
use lease::numbers::{Span, Time, Token, Wall};
use lease::policy::{AtMaxLeases, Setting};
use lease::{Command, Entry, Outcome, Records, Refusal, Salt, State};
use test_support::names;

/// Every field is as long as it may be.
struct Story {
    state: State,
    records: Records,
    requests: u32,
}

fn long(name: &str, bytes: usize) -> String {
    format!("{name}{}", "x".repeat(bytes - name.len()))
}

fn item(name: impl std::fmt::Display) -> ItemId {
    names::item(&long(&format!("{name}-"), ITEM_ID_BYTES))
}

fn queue(name: &str) -> QueueName {
    names::queue(&long(name, QUEUE_NAME_BYTES))
}

fn phase() -> Phase {
    names::phase(&long("phase", PHASE_BYTES))
}

/// Ada, or an agent that works for ada.
fn caller(name: &str) -> Caller {
    let roles = [Role::Reader, Role::Worker, Role::Dispatcher, Role::Operator, Role::Admin];
    let mut caller = names::caller(&long(name, ACTOR_ID_BYTES), &roles);
    caller.session = Some(SessionId::new(&long("session", SESSION_ID_BYTES)).unwrap());
    caller.parent = Some(names::actor(&long("ada", ACTOR_ID_BYTES)));
    caller
}

fn claim(item: ItemId) -> Claim {
    let note = || Some("n".repeat(NOTE_BYTES));
    Claim { action: note(), field: note(), lease_for: Some(Span::secs(600)), ..Claim::new(item) }
}

fn write(item: ItemId, token: Option<Token>) -> Write {
    Write { item, token, read_at: None }
}

impl Story {
    fn new() -> Self {
        let mut story = Self { state: State::new(Salt([5, 6])), records: Records::default(), requests: 0 };
        story.ask("ada", Command::BeginEpoch { token_floor: Some(Token(1 << 51)) });
        assert_eq!(story.ask("ada", Command::Activate), Outcome::Activated);
        let settings = vec![Setting::Phases(vec![phase()])];
        story.ask("ada", Command::SetPolicy(SetPolicy { queue: queue("work"), settings, version: None }));
        for number in 0..DEPENDENCIES {
            let id = item(format!("dependency-{number}"));
            story.ask("ada", Command::Create(Box::new(NewItem::new(id.clone(), queue("work")))));
            let token = story.ask("ada", Command::Claim(claim(id.clone()))).grant().unwrap().token;
            story.ask("ada", Command::Complete(Complete { write: write(id, Some(token)), result: None }));
        }
        story
    }

    /// Sends the command and checks the length of its answer.
    fn ask(&mut self, who: &str, command: Command) -> Outcome {
        self.requests += 1;
        let request = names::request(caller(who), self.requests, command);
        let mut outcome = None;
        // The second request is a repeat.
        for _ in 0..2 {
            let entry = Entry {
                at: Time(TIME_MAX.0 - 1_000_000_000),
                wall: Wall(1_900_000_000_000 + u64::from(self.requests)),
                commands: vec![request.clone()],
            };
            let mut applied = self.state.apply(&entry, &self.records);
            self.records.write(&applied.changes);
            let answer = applied.outcomes.remove(0);
            let (bytes, max) = (encoded_len(&answer), request.command.answer_bytes_max());
            assert!(bytes <= max, "{bytes} bytes, at most {max} were said: {:?}", request.command);
            outcome.get_or_insert(answer);
        }
        outcome.unwrap()
    }

    fn largest(&self, name: &str) -> NewItem {
        let labels = |kind: &str| -> Vec<Label> {
            (0..LABELS).map(|number| names::label(&long(&format!("{kind}-{number}-"), LABEL_BYTES))).collect()
        };
        NewItem {
            title: "t".repeat(TITLE_BYTES),
            labels: labels("label"),
            needs: labels("need"),
            parent: Some(item("dependency-0")),
            target: Some(item("dependency-1")),
            depends_on: (0..DEPENDENCIES).map(|number| item(format!("dependency-{number}"))).collect(),
            not_before: Some(Wall(1_900_000_000_000)),
            mode: Mode::Local { owner: caller("ada").actor },
            phase: Some(phase()),
            body: Part::ALL.iter().filter(|part| !part.is_holders()).map(|part| (*part, "b".repeat(9_000))).collect(),
            ..NewItem::new(item(name), queue("work"))
        }
    }

    fn create(&mut self, name: &str, count: usize) -> Vec<ItemId> {
        let items: Vec<_> = (0..count).map(|number| self.largest(&format!("{name}-{number}"))).collect();
        let ids = items.iter().map(|item| item.id.clone()).collect();
        let created = self.ask("ada", Command::CreateMany(items));
        let Outcome::CreatedMany(created) = created else { panic!("{created:?}") };
        assert!(created.iter().all(|one| matches!(one, Outcome::Created { created: true, .. })), "{created:?}");
        ids
    }

    fn next(&mut self, who: &str, count: u32) -> Outcome {
        let mut next = Next { count, lease_for: Some(Span::secs(600)), ..Next::new(queue("work")) };
        next.filter.capabilities = Some(self.largest("any").needs);
        self.ask(who, Command::Next(next))
    }
}

#[test]
fn the_largest_grant_is_within_its_size_bound_and_near_to_it() {
    let mut story = Story::new();
    let ids = story.create("a", 3);
    let granted = story.ask("ada", Command::Claim(claim(ids[0].clone())));
    assert!(granted.grant().is_some(), "{granted:?}");
    let bytes = encoded_len(&granted);
    assert!(bytes * 20 > GRANT_BYTES_MAX * 19, "{bytes} of {GRANT_BYTES_MAX}: the bound is of something else");
    let started =
        story.ask("ada", Command::Update(Update { write: write(ids[1].clone(), None), edits: vec![], start: true }));
    assert_eq!(started.grants().len(), 1, "{started:?}");
    // Releasing one lease makes room for the other.
    let settings = vec![Setting::MaxLeases(2), Setting::AtMaxLeases(AtMaxLeases::ReleaseOldest)];
    story.ask("ada", Command::SetPolicy(SetPolicy { queue: queue("work"), settings, version: None }));
    let granted = story.ask("ada", Command::Claim(claim(ids[2].clone())));
    assert_eq!(granted.grant().unwrap().released, Some(ids[0].clone()));
}

#[test]
fn many_grants_and_many_refusals_are_within_their_size_bound() {
    let mut story = Story::new();
    let ids = story.create("a", 400);
    for (who, count) in [("ada", NEXT_COUNT), ("bob", 1), ("bob", 99)] {
        assert_eq!(story.next(who, count).grants().len(), count as usize);
    }
    let many = |claims: &[ItemId], releases: &[ItemId], all_or_none| {
        Command::ClaimMany(ClaimMany {
            claims: claims.iter().cloned().map(claim).collect(),
            releases: releases
                .iter()
                .map(|item| Release { item: item.clone(), token: None, keep_assignment: false })
                .collect(),
            all_or_none,
        })
    };
    let claimed = story.ask("ada", many(&ids[100..400], &ids[..100], false));
    let Outcome::ClaimedMany { claims, releases } = claimed else { panic!("{claimed:?}") };
    assert_eq!(claims.iter().filter(|claim| claim.grant().is_some()).count(), 200);
    assert_eq!(releases.len(), 100);
    // Each refusal names the holder.
    let refused = story.ask("bob", many(&ids[200..400], &ids[100..200], true));
    let Outcome::ClaimedMany { claims, .. } = refused else { panic!("{refused:?}") };
    let is_named = |claim: &&Outcome| {
        matches!(claim, Outcome::Refused(Refusal::AlreadyClaimed(conflict))
        if conflict.holder.as_ref().is_some_and(|holder| holder.named.is_some()))
    };
    assert_eq!(claims.iter().filter(is_named).count(), 200);
    let again = (0..BATCH).map(|number| {
        let mut new = story.largest(&format!("b-{number}"));
        new.depends_on.truncate(0);
        new.depends_on.push(item(format!("missing-{number}")));
        new
    });
    let refused = story.ask("ada", Command::CreateMany(again.collect()));
    assert!(matches!(refused, Outcome::CreatedMany(_)), "{refused:?}");
}

#[test]
fn a_heartbeat_that_has_lost_everything_is_within_its_size_bound() {
    let mut story = Story::new();
    let ids = story.create("a", 64);
    story.next("ada", 64);
    for id in &ids {
        story.ask("bob", Command::Cancel(Cancel { item: id.clone(), reason: "r".repeat(NOTE_BYTES), force: false }));
    }
    let expected = (0..BATCH).map(|number| (item(format!("lost-{number}")), Token(1 << 52))).collect();
    let renewed = story.ask("ada", Command::RenewAll(RenewAll { lease_for: None, expected }));
    let Outcome::RenewedAll(all) = renewed else { panic!("{renewed:?}") };
    assert_eq!((all.renewed, all.cancel_requested.len(), all.lost.len()), (64, 64, BATCH));
}

#[test]
fn every_other_answer_is_within_its_size_bound() {
    let mut story = Story::new();
    let ids = story.create("a", 6);
    let held = ids[0].clone();
    let token = story.ask("ada", Command::Claim(claim(held.clone()))).grant().unwrap().token;
    let wait = OnConflict::Wait { wait_for: Some(Span::secs(600)), line_max: None };
    let waiting = story.ask("bob", Command::Claim(Claim { on_conflict: wait, ..claim(held.clone()) }));
    assert!(matches!(waiting, Outcome::Waiting { .. }), "{waiting:?}");
    let named = story.ask("bob", Command::Renew(Renew { item: held.clone(), token: Token(1), lease_for: None }));
    assert!(matches!(named, Outcome::Refused(Refusal::LeaseLost { holder: Some(_) })), "{named:?}");
    let edits = vec![Edit::Title("u".repeat(TITLE_BYTES)), Edit::Priority(9), Edit::Body(Part::Plan, "plan".into())];
    let update = |token, read_at| {
        let write = Write { item: held.clone(), token, read_at };
        Command::Update(Update { write, edits: edits.clone(), start: false })
    };
    for command in [
        Command::Renew(Renew { item: held.clone(), token, lease_for: None }),
        Command::Extend(Extend { item: held.clone(), token, by: Span::secs(10 * 24 * 3600) }),
        update(Some(token), None),
        update(Some(token), Some(lease::numbers::Revision::default())),
        Command::Reorder { item: held.clone(), actors: vec![caller("bob").actor] },
        Command::Withdraw { item: held.clone() },
        Command::Reserve(Reserve { item: held.clone(), token, span: None }),
        Command::Assign { item: ids[1].clone(), actor: caller("bob").actor },
        Command::Unassign { item: ids[1].clone(), actor: caller("bob").actor },
        Command::Cancel(Cancel { item: ids[2].clone(), reason: "r".repeat(NOTE_BYTES), force: true }),
        Command::Reopen { item: ids[2].clone() },
        Command::Pause { queue: queue("work") },
        Command::Create(Box::new(story.largest("a-0"))),
    ] {
        story.ask("ada", command);
    }
}
