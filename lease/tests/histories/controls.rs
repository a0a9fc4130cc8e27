//! A check that was never seen to fail checks nothing, so each check gets a falsified answer here.

use crate::play;
use crate::run::{Failure, Honest, Liar, Name, Watch};
use crate::shrink::{replay, shrink};
use lease::caller::{Holder, Role};
use lease::command::{Command, Entry, Request};
use lease::encoding::{decode, encode};
use lease::event::{Event, What, Who};
use lease::names::{ActorId, ItemId, SpaceName};
use lease::numbers::{Span, Time, Token};
use lease::outcome::{Grant, Outcome, Renewal};
use lease::policy::Setting;
use lease::record::{PLACE, STANDING};
use lease::standing::Standing;
use lease::{Applied, Attempt, Code, Records, Refusal, Salt, State, StateHash};
use std::collections::BTreeMap;

const ALL: Watch =
    Watch { violations_every: 20, witness: true, oracle: true, trace: true, parked: false, rights: false, chunk: 17 };
const WITNESS_ALONE: Watch = Watch { oracle: false, trace: false, ..ALL };
const ORACLE_ALONE: Watch = Watch { witness: false, trace: false, ..ALL };
const TRACE_ALONE: Watch = Watch { witness: false, oracle: false, ..ALL };
const PARKED_ALONE: Watch = Watch { witness: false, oracle: false, trace: false, parked: true, ..ALL };
const RIGHTS_ALONE: Watch = Watch { witness: false, oracle: false, trace: false, rights: true, ..ALL };

/// What a lie needs to know of the history.
#[derive(Debug, Default)]
struct Memory {
    now: Time,
    /// Holder, token and expiry of each held item.
    held: BTreeMap<(SpaceName, ItemId), (Holder, Token, Time)>,
    dispatched: Vec<(Request, Grant)>,
    answered: BTreeMap<String, Request>,
}

type Lie = fn(&Memory, &Entry, &mut Applied) -> bool;

/// Tells one lie, the first time it can, on one replica or on both.
struct Teller {
    lie: Lie,
    on_both: bool,
    memory: Memory,
    said: Option<Applied>,
    is_told: bool,
}

impl Teller {
    fn new(lie: Lie, on_both: bool) -> Self {
        Self { lie, on_both, memory: Memory::default(), said: None, is_told: false }
    }
}

impl Liar for Teller {
    fn falsify(&mut self, replica: Name, entry: &Entry, applied: &mut Applied) {
        if replica == Name::B {
            match self.said.take() {
                Some(said) if self.on_both => *applied = said,
                Some(_) => _ = (self.lie)(&self.memory, entry, applied),
                None => {}
            }
            return;
        }
        self.memory.now = self.memory.now.max(entry.at);
        let truth = applied.clone();
        if !self.is_told && (self.lie)(&self.memory, entry, applied) {
            self.is_told = true;
            self.said = Some(applied.clone());
            if !self.on_both {
                *applied = truth.clone();
            }
        }
        self.memory.learn(entry, &truth);
    }
}

impl Memory {
    fn learn(&mut self, entry: &Entry, applied: &Applied) {
        for event in &applied.events {
            let Some(item) = &event.item else { continue };
            let place = (event.space.clone(), item.clone());
            if event.what.ended_lease().is_some() {
                self.held.remove(&place);
            }
            if let What::Granted { holder, token, expires_at, .. } = &event.what {
                self.held.insert(place, (holder.clone(), *token, *expires_at));
            }
        }
        for (request, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            self.answered.insert(name_of(request), request.clone());
            if let Outcome::Dispatched(grants) = outcome {
                self.dispatched.extend(grants.iter().map(|grant| (request.clone(), grant.clone())));
            }
        }
    }
}

fn name_of(request: &Request) -> String {
    format!("{} {:?} {}", request.space, request.caller.holder(), request.request_id)
}

/// Plays histories until the lie was told, and returns the failure.
fn caught(watch: Watch, on_both: bool, lie: Lie) -> Failure {
    for seed in 0..400 {
        let mut liar = Teller::new(lie, on_both);
        let result = play(seed, 400, watch, &mut liar, &mut Vec::new());
        match (liar.is_told, result) {
            (true, Err(failure)) => return failure,
            (true, Ok(_)) => panic!("seed {seed}: the lie was believed"),
            (false, Err(failure)) => panic!("seed {seed} fails by itself: {failure:?}"),
            (false, Ok(_)) => {}
        }
    }
    panic!("no history gave an occasion for this lie");
}

fn assert_caught(watch: Watch, kind: &str, lie: Lie) {
    let failure = caught(watch, true, lie);
    assert_eq!(failure.kind, kind, "{}", failure.why);
}

/// For lies that not every history catches: some history catches it, with this kind of failure.
fn assert_caught_once(watch: Watch, kind: &str, lie: Lie) {
    let mut kinds = Vec::new();
    for seed in 0..300 {
        let mut liar = Teller::new(lie, true);
        match play(seed, 400, watch, &mut liar, &mut Vec::new()) {
            Err(failure) if failure.kind == kind => return,
            Err(failure) => kinds.push(failure.kind),
            Ok(_) => {}
        }
    }
    panic!("no history was caught with {kind:?}, but with {kinds:?}");
}

/// Adds one more event after the others.
fn add_event(applied: &mut Applied, like: &Event, what: What, by: Option<Who>) {
    let last = applied.events.iter().rev().find(|event| event.space == like.space).expect("one like it");
    let mut number = last.number;
    number.seq += 1;
    let (space, queue, item) = (like.space.clone(), like.queue.clone(), like.item.clone());
    applied.events.push(Event { space, number, at: like.at, wall: like.wall, by, queue, item, local_to: None, what });
}

/// Another actor.
fn stranger() -> Holder {
    Holder::new(ActorId::new("mallory").expect("a name"), None)
}

fn find_event(applied: &Applied, is_it: impl Fn(&What) -> bool) -> Option<usize> {
    applied.events.iter().position(|event| is_it(&event.what))
}

#[test]
fn another_outcome_on_one_replica_is_caught() {
    let failure = caught(ALL, false, |_, _, applied| {
        let granted = applied.outcomes.iter_mut().find(|outcome| outcome.grant().is_some());
        granted.map(|outcome| *outcome = Outcome::Refused(Refusal::NotFound)).is_some()
    });
    assert_eq!(failure.kind, "replicas: outcomes");
}

#[test]
fn an_event_missing_on_one_replica_is_caught() {
    let failure = caught(ALL, false, |_, _, applied| applied.events.pop().is_some());
    assert_eq!(failure.kind, "replicas: events");
}

#[test]
fn other_changes_on_one_replica_are_caught() {
    let failure = caught(ALL, false, |_, entry, applied| {
        applied.changes = State::new(Salt([1, 2])).dump();
        !entry.commands.is_empty()
    });
    assert_eq!(failure.kind, "replicas: changes");
}

#[test]
fn another_hash_on_one_replica_is_caught() {
    struct Forger;
    impl Liar for Forger {
        fn hash(&mut self, hash: StateHash) -> StateHash {
            StateHash(hash.0 ^ 1)
        }
    }
    let failure = play(1, 400, ALL, &mut Forger, &mut Vec::new()).expect_err("a lie");
    assert_eq!(failure.kind, "replicas: hash");
}

#[test]
fn a_lost_record_is_caught_on_either_replica() {
    struct Loser(Name, u8, u32);
    impl Liar for Loser {
        fn loses(&mut self, replica: Name, key: &[u8]) -> bool {
            let is_mine = replica == self.0 && key[0] == self.1;
            self.2 += u32::from(is_mine);
            // All from the fifth on, so that no later write restores it.
            is_mine && self.2 > 5
        }
    }
    for replica in [Name::A, Name::B] {
        for kind in [STANDING, lease::record::META, lease::record::REQUEST, lease::record::SPACE] {
            let failure = play(1, 400, ALL, &mut Loser(replica, kind, 0), &mut Vec::new()).expect_err("a lie");
            assert_eq!(failure.kind, "records", "{}", char::from(kind));
        }
    }
    let lost_place = play(3, 1_000, ALL, &mut Loser(Name::B, PLACE, 0), &mut Vec::new());
    assert_eq!(lost_place.expect_err("a lie").kind, "records");
}

#[test]
fn a_lost_archive_record_shows_when_the_replicas_look_it_up() {
    struct Loser;
    impl Liar for Loser {
        fn loses(&mut self, replica: Name, key: &[u8]) -> bool {
            replica == Name::B && key[0] == lease::record::ARCHIVED
        }
    }
    let failures = (0..10).filter_map(|seed| play(seed, 600, ALL, &mut Loser, &mut Vec::new()).err());
    let kinds: Vec<_> = failures.map(|failure| failure.kind).collect();
    assert!(kinds.iter().any(|kind| kind.starts_with("replicas: ")), "{kinds:?}");
}

#[test]
fn a_panic_is_a_failure_like_any_other() {
    struct Bomb;
    impl Liar for Bomb {
        fn falsify(&mut self, _: Name, entry: &Entry, _: &mut Applied) {
            assert!(entry.commands.len() < 10, "boom");
        }
    }
    let failure = play(1, 400, ALL, &mut Bomb, &mut Vec::new()).expect_err("a panic");
    assert!(failure.why.contains("boom"), "{failure:?}");
}

/// A second grant while the first lease lives.
fn grant_twice(memory: &Memory, _: &Entry, applied: &mut Applied) -> bool {
    let Some(index) = find_event(applied, |what| matches!(what, What::Granted { .. })) else { return false };
    let like = applied.events[index].clone();
    let What::Granted { token, expires_at, .. } = like.what else { unreachable!("found so") };
    let is_last = applied.events.iter().rev().find(|event| event.space == like.space) == Some(&like);
    if !is_last || memory.now > expires_at {
        return false;
    }
    let token = Token(token.0 + 1);
    let what = What::Granted { holder: stranger(), token, expires_at, from_line: false, was_assigned_to: None };
    add_event(applied, &like, what, like.by.clone());
    true
}

#[test]
fn a_second_grant_is_caught_by_the_witness() {
    assert_caught(WITNESS_ALONE, "witness I18", grant_twice);
}

#[test]
fn a_second_grant_is_caught_by_the_oracle() {
    assert_caught(ORACLE_ALONE, "oracle I18", grant_twice);
}

/// A lapse before its time.
fn lapse_early(memory: &Memory, _: &Entry, applied: &mut Applied) -> bool {
    let Some(last) = applied.events.last().cloned() else { return false };
    let live = memory.held.iter().find(|((space, item), (_, token, until))| {
        *space == last.space
            && *until > Time(memory.now.0 + 1)
            && memory.dispatched.iter().any(|(_, grant)| grant.token == *token)
            && applied.events.iter().all(|event| event.item.as_ref() != Some(item))
    });
    let Some(((_, item), (holder, token, _))) = live else { return false };
    let like = Event { item: Some(item.clone()), ..last };
    add_event(applied, &like, What::Expired { holder: holder.clone(), token: *token, attempt: true }, None);
    true
}

#[test]
fn a_lapse_before_its_time_is_caught_by_the_witness() {
    assert_caught(WITNESS_ALONE, "witness I3", lapse_early);
}

#[test]
fn a_lapse_before_its_time_is_caught_by_the_oracle() {
    assert_caught(ORACLE_ALONE, "oracle I3", lapse_early);
}

#[test]
fn one_item_for_two_callers_of_next_is_caught() {
    assert_caught(ORACLE_ALONE, "oracle I6", |memory, entry, applied| {
        for (request, outcome) in entry.commands.iter().zip(&mut applied.outcomes) {
            let asked_anew = !memory.answered.contains_key(&name_of(request));
            if matches!(request.command, Command::Next(_)) && matches!(outcome, Outcome::Empty { .. }) && asked_anew {
                let same = |of: &Request| of.space == request.space && of.caller.holder() != request.caller.holder();
                if let Some((_, grant)) = memory.dispatched.iter().rev().find(|(of, _)| same(of)) {
                    *outcome = Outcome::Dispatched(vec![grant.clone()]);
                    return true;
                }
            }
        }
        false
    });
}

#[test]
fn another_answer_to_a_repeated_request_is_caught() {
    assert_caught(ORACLE_ALONE, "oracle I10", |memory, entry, applied| {
        for (request, outcome) in entry.commands.iter().zip(&mut applied.outcomes) {
            let earlier = memory.answered.get(&name_of(request));
            if earlier.is_some_and(|earlier| earlier.command == request.command)
                && matches!(request.command, Command::Claim(_))
                && matches!(outcome, Outcome::Granted(grant) if !grant.renewed && grant.claimed_at < memory.now)
            {
                *outcome = Outcome::Refused(Refusal::LeaseRequired);
                return true;
            }
        }
        false
    });
}

#[test]
fn a_used_request_id_that_is_taken_is_caught() {
    assert_caught(ORACLE_ALONE, "oracle I10", |_, _, applied| {
        let reused = |outcome: &&mut Outcome| outcome.refusal().map(Refusal::code) == Some(Code::RequestIdReused);
        let reused = applied.outcomes.iter_mut().find(reused);
        reused.map(|outcome| *outcome = Outcome::Refused(Refusal::NotHolder)).is_some()
    });
}

/// An event of an actor whose request was refused before its verb.
fn break_in(_: &Memory, entry: &Entry, applied: &mut Applied) -> bool {
    let [request] = entry.commands.as_slice() else { return false };
    let Some(like) = applied.events.last().cloned() else { return false };
    if applied.outcomes[0].refusal() != Some(&Refusal::RejectedByPolicy) {
        return false;
    }
    add_event(applied, &like, What::Updated { fields: Vec::new() }, Some(Who::from(&request.caller)));
    true
}

#[test]
fn an_event_of_a_refused_command_is_caught() {
    assert_caught(ORACLE_ALONE, "oracle I13", break_in);
}

#[test]
fn a_trace_of_a_refused_command_is_caught() {
    // A command that was carried out is answered as refused.
    fn deny(_: &Memory, entry: &Entry, applied: &mut Applied) -> bool {
        let [request] = entry.commands.as_slice() else { return false };
        let by_itself = applied.events.iter().any(|event| event.by.is_none());
        let is_meant = matches!(request.command, Command::Claim(_)) && applied.outcomes[0].grant().is_some();
        if is_meant && !by_itself {
            applied.outcomes[0] = Outcome::Refused(Refusal::RejectedByPolicy);
        }
        is_meant && !by_itself
    }
    assert_caught_once(TRACE_ALONE, "I13: events of a refused command", deny);
    assert_caught_once(TRACE_ALONE, "I13: records of a refused command", deny);
}

/// A renewal of a lease that is gone.
fn revive(_: &Memory, entry: &Entry, applied: &mut Applied) -> bool {
    let now = entry.at;
    if entry.commands.len() > 1 {
        // An earlier command of this entry may have ended it.
        return false;
    }
    for (request, outcome) in entry.commands.iter().zip(&mut applied.outcomes) {
        let Command::Renew(renew) = &request.command else { continue };
        if !matches!(outcome, Outcome::Refused(Refusal::LeaseLost { .. })) {
            continue;
        }
        *outcome = Outcome::Renewed(Renewal {
            item: renew.item.clone(),
            token: renew.token,
            expires_at: now.after(Span(5_000)),
            expires_in: Span(5_000),
            renew_after: Span(1_000),
            line_length: 0,
            cancel_requested: false,
            drain: false,
        });
        return true;
    }
    false
}

#[test]
fn a_revived_lease_is_caught() {
    assert_caught(ORACLE_ALONE, "oracle I14", revive);
}

#[test]
fn an_extension_that_shortens_is_caught() {
    assert_caught(ORACLE_ALONE, "oracle I12", |memory, entry, applied| {
        for (request, outcome) in entry.commands.iter().zip(&mut applied.outcomes) {
            let is_new = !memory.answered.contains_key(&name_of(request));
            if let Outcome::Extended { expires_at, .. } = outcome
                && is_new
            {
                *expires_at = Time(1);
                return true;
            }
        }
        false
    });
}

fn lose_an_event(_: &Memory, _: &Entry, applied: &mut Applied) -> bool {
    let lost = applied.events.len() > 1;
    if lost {
        applied.events.remove(0);
    }
    lost
}

#[test]
fn a_gap_in_the_events_is_caught() {
    assert_caught(ORACLE_ALONE, "oracle I16", lose_an_event);
    assert_caught(WITNESS_ALONE, "witness I16", lose_an_event);
}

/// A creation that never happened.
fn create_again(_: &Memory, _: &Entry, applied: &mut Applied) -> bool {
    let Some(like) = applied.events.last().filter(|event| event.item.is_some()).cloned() else { return false };
    add_event(applied, &like, What::Created, like.by.clone());
    true
}

#[test]
fn an_item_from_nowhere_is_caught() {
    assert_caught(ORACLE_ALONE, "oracle I19", create_again);
    assert_caught(WITNESS_ALONE, "witness I19", create_again);
}

#[test]
fn an_item_purged_while_it_lives_is_caught() {
    assert_caught(ORACLE_ALONE, "oracle I19", |_, _, applied| {
        let created = find_event(applied, |what| *what == What::Created);
        let Some(like) = created.map(|index| applied.events[index].clone()) else { return false };
        let what = What::Purged { state: lease::standing::StateKind::Complete };
        add_event(applied, &like, what, None);
        true
    });
}

/// The grant goes to a waiter that is not the head of the line.
fn jump_the_line(_: &Memory, _: &Entry, applied: &mut Applied) -> bool {
    for event in &mut applied.events {
        if let What::Granted { holder, from_line: true, .. } = &mut event.what {
            *holder = stranger();
            return true;
        }
    }
    false
}

#[test]
fn a_grant_out_of_line_is_caught() {
    assert_caught(ORACLE_ALONE, "oracle I8", jump_the_line);
    assert_caught(WITNESS_ALONE, "witness I8", jump_the_line);
}

#[test]
fn a_token_that_does_not_rise_is_caught() {
    fn lower(memory: &Memory, _: &Entry, applied: &mut Applied) -> bool {
        let any = !memory.held.is_empty();
        for event in &mut applied.events {
            if let What::Granted { token, .. } = &mut event.what
                && any
            {
                *token = Token(1);
                return true;
            }
        }
        false
    }
    assert_caught(ORACLE_ALONE, "oracle I2", lower);
    assert_caught(WITNESS_ALONE, "witness I2", lower);
}

#[test]
fn a_second_end_is_caught() {
    fn end_again(_: &Memory, _: &Entry, applied: &mut Applied) -> bool {
        let Some(like) = applied.events.last().cloned() else { return false };
        let is_end = matches!(like.what, What::Cancelled { token: None, .. });
        if is_end {
            add_event(applied, &like, like.what.clone(), like.by.clone());
        }
        is_end
    }
    assert_caught(ORACLE_ALONE, "oracle I7", end_again);
    assert_caught(WITNESS_ALONE, "witness I7", end_again);
}

#[test]
fn a_write_with_another_token_is_caught() {
    fn other_token(_: &Memory, _: &Entry, applied: &mut Applied) -> bool {
        for event in &mut applied.events {
            if let What::Extended { token, .. } = &mut event.what {
                *token = Token(token.0 + 1);
                return true;
            }
        }
        false
    }
    assert_caught(ORACLE_ALONE, "oracle I1", other_token);
    assert_caught(WITNESS_ALONE, "witness I1", other_token);
}

#[test]
fn a_grant_to_a_dead_waiter_is_caught() {
    fn wake_the_dead(memory: &Memory, _: &Entry, applied: &mut Applied) -> bool {
        let Some(first) = applied.events.first_mut() else { return false };
        let What::LeftLine { holder, answer: Some(Code::WaitTimeout) } = &first.what else { return false };
        let Some(item) = first.item.clone() else { return false };
        if memory.held.contains_key(&(first.space.clone(), item)) {
            return false;
        }
        let (holder, token, expires_at) = (holder.clone(), Token(1 << 52), Time(u64::MAX));
        first.what = What::Granted { holder, token, expires_at, from_line: true, was_assigned_to: None };
        true
    }
    assert_caught_once(ORACLE_ALONE, "oracle I9", wake_the_dead);
    assert_caught_once(WITNESS_ALONE, "witness I9", wake_the_dead);
}

#[test]
fn a_batch_granted_in_part_is_caught() {
    assert_caught(ORACLE_ALONE, "oracle all_or_none", |memory, entry, applied| {
        let [request] = entry.commands.as_slice() else { return false };
        let Command::ClaimMany(many) = &request.command else { return false };
        let Some(Outcome::ClaimedMany { claims, .. }) = applied.outcomes.first_mut() else { return false };
        let is_all = many.all_or_none && claims.len() > 1 && claims.iter().all(|claim| claim.grant().is_some());
        let is_new = !memory.answered.contains_key(&name_of(request)) && !applied.events.is_empty();
        if is_all && is_new {
            claims[0] = Outcome::Refused(Refusal::NotFound);
        }
        is_all && is_new
    });
}

#[test]
fn a_caller_that_nobody_wakes_is_caught() {
    struct Silent;
    impl Liar for Silent {
        fn falsify(&mut self, _: Name, _: &Entry, applied: &mut Applied) {
            applied.openings.clear();
        }
    }
    let failure = play(1, 400, PARKED_ALONE, &mut Silent, &mut Vec::new()).expect_err("somebody waited");
    assert_eq!(failure.kind, "a parked caller is not woken", "{}", failure.why);
}

#[test]
fn a_late_repeat_that_runs_is_caught() {
    assert_caught(ORACLE_ALONE, "oracle I10", |_, _, applied| {
        let forgotten = |outcome: &&mut Outcome| outcome.refusal() == Some(&Refusal::RequestForgotten);
        let Some(outcome) = applied.outcomes.iter_mut().find(forgotten) else { return false };
        *outcome = Outcome::Activated;
        true
    });
}

#[test]
fn growing_over_a_cap_is_caught() {
    assert_caught_once(ORACLE_ALONE, "oracle I21", |_, entry, applied| {
        // The oracle gets a cap that nobody set, and the next grants break it.
        for (request, outcome) in entry.commands.iter().zip(&mut applied.outcomes) {
            let Command::SetPolicy(set) = &request.command else { continue };
            let is_tight = |setting: &Setting| matches!(setting, Setting::Concurrency(1) | Setting::MaxLeases(1));
            if outcome.refusal().map(Refusal::code) == Some(Code::Forbidden) && set.settings.iter().any(is_tight) {
                *outcome = Outcome::PolicySet { queue: set.queue.clone(), version: 1 };
                return true;
            }
        }
        false
    });
}

#[test]
fn a_dependent_that_does_not_wait_is_caught() {
    assert_caught(ORACLE_ALONE, "oracle dependencies", |_, entry, applied| {
        for (request, outcome) in entry.commands.iter().zip(applied.outcomes.clone()) {
            let Command::Create(new) = &request.command else { continue };
            let pending = lease::standing::StateKind::Pending;
            if !new.depends_on.is_empty()
                && new.delay.is_none()
                && new.not_before.is_none()
                && matches!(outcome, Outcome::Created { created: true, state, .. } if state == pending)
                && let Some(index) = applied.events.iter().position(|event| {
                    event.what == What::Created && event.item.as_ref() == Some(&new.id) && event.space == request.space
                })
            {
                let like = applied.events[index].clone();
                if index + 1 < applied.events.len() {
                    // Its dependency may have ended in this entry.
                    return false;
                }
                add_event(applied, &like, What::Queued, None);
                return true;
            }
        }
        false
    });
}

#[test]
fn a_state_from_doctored_records_has_violations() {
    let mut history = Vec::new();
    play(1, 400, ALL, &mut Honest, &mut history).expect("a good history");
    let mut store = Records::default();
    let mut state = State::new(Salt([7, 11]));
    for entry in &history {
        let applied = state.apply(entry, &store);
        store.write(&applied.changes);
    }
    assert_eq!(state.violations(), Vec::<String>::new());
    let mut doctored = 0;
    for (key, value) in &store.0 {
        if key[0] != STANDING {
            continue;
        }
        let mut standing: Standing = decode(value).expect("a record");
        standing.newest_token = Token(u64::MAX / 2);
        let mut records = store.clone();
        records.0.insert(key.clone(), encode(&standing));
        let state = State::load(records.live(), StateHash(0)).expect("whole");
        assert_ne!(state.violations(), Vec::<String>::new(), "{standing:?}");
        doctored += 1;
    }
    assert!(doctored > 0);
}

#[test]
fn a_shrunk_history_still_fails_and_is_small() {
    let is_bad = |request: &Request| matches!(request.command, Command::Reorder { .. });
    // A made-up rule, broken by the first reorder: the shrinker does not care what fails.
    let mut history = Vec::new();
    play(2, 600, ALL, &mut Honest, &mut history).expect("a good history");
    let fails = |history: &[Entry]| history.iter().any(|entry| entry.commands.iter().any(is_bad));
    assert!(fails(&history));
    let shrunk = crate::shrink::shrink_while(history, fails);
    assert_eq!(shrunk.len(), 1);
    assert_eq!(shrunk[0].commands.len(), 1);
    // A correct history fails no check.
    assert_eq!(replay(2, ALL, &shrunk, &mut Honest), Ok(()));
    assert!(!shrink(2, shrunk, "nothing").is_empty());
}

/// Claims that a caller lacked a right that it had, or the other way round.
fn deny_a_right(_: &Memory, entry: &Entry, applied: &mut Applied) -> bool {
    let (Some(request), Some(outcome)) = (entry.commands.first(), applied.outcomes.first_mut()) else { return false };
    let is_new = request.attempt == Attempt::First && matches!(request.command, Command::Pause { .. });
    if is_new && outcome.refusal().is_none() {
        *outcome = Outcome::Refused(Refusal::Forbidden { needs: Role::Operator });
        return true;
    }
    false
}

fn grant_a_right(_: &Memory, entry: &Entry, applied: &mut Applied) -> bool {
    let (Some(request), Some(outcome)) = (entry.commands.first(), applied.outcomes.first_mut()) else { return false };
    let is_refused = matches!(outcome, Outcome::Refused(Refusal::Forbidden { .. }));
    if request.attempt == Attempt::First && is_refused {
        *outcome = Outcome::Refused(Refusal::Blocked);
        return true;
    }
    false
}

#[test]
fn a_right_that_is_checked_in_one_place_only_is_caught() {
    assert_caught_once(RIGHTS_ALONE, "rights: not foreseen", deny_a_right);
    assert_caught_once(RIGHTS_ALONE, "rights: not as foreseen", grant_a_right);
}
