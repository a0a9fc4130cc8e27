//! The views, and what each viewer sees in them: docs/RULES.md section 19.

use lease::caller::{Caller, QueueScope, Right, Role};
use lease::command::{
    Claim, ClaimMany, Next, OnConflict, Registration, Release, Renew, RenewAll, Reserve, SetPolicy, Update, Write,
};
use lease::event::What;
use lease::item::{Mode, NewItem, RunsIn};
use lease::names::{ItemId, SessionId, SpaceName};
use lease::numbers::{Epoch, ItemNo, QueueNo, SpaceNo, Span, Time, Token, Wall};
use lease::past_holder::{PastHolder, PastHolderSearch};
use lease::policy::{Disclosure, Setting};
use lease::standing::StateKind;
use lease::views::{Carrying, ClaimStatus, ClaimSummary, IfClaimed, ItemView, Query};
use lease::worker::Liveness;
use lease::{Applied, Code, Command, Entry, Event, NextDeadlines, Outcome, Records, Refusal, Salt, State};
use test_support::names::{self, actor, caller, item, label, queue};

struct Story {
    state: State,
    records: Records,
    events: Vec<Event>,
    requests: u32,
}

impl Story {
    fn new() -> Self {
        Self { state: State::new(Salt([5, 6])), records: Records::default(), events: Vec::new(), requests: 0 }
    }

    fn at(&mut self, at: u64, caller: &Caller, command: Command) -> Outcome {
        self.at_in(at, &space(), caller, command)
    }

    fn at_in(&mut self, at: u64, space: &SpaceName, caller: &Caller, command: Command) -> Outcome {
        self.requests += 1;
        let mut request = names::request(caller.clone(), self.requests, command);
        request.space = space.clone();
        let commands = vec![request];
        let mut applied = self.step(Entry { at: Time(at), wall: Wall(at), commands });
        applied.outcomes.remove(0)
    }

    fn step(&mut self, entry: Entry) -> Applied {
        let applied = self.state.apply(&entry, &self.records);
        self.records.write(&applied.changes);
        self.events.extend(applied.events.clone());
        applied
    }

    fn create(&mut self, id: &str, change: impl FnOnce(&mut NewItem)) {
        let mut new = NewItem::new(item(id), queue("ops"));
        change(&mut new);
        let outcome = self.at(0, &dee(), Command::Create(Box::new(new)));
        assert!(matches!(outcome, Outcome::Created { created: true, .. }), "{outcome:?}");
    }

    fn claim(&mut self, at: u64, who: &Caller, id: &str) -> Token {
        let outcome = self.at(at, who, Command::Claim(Claim::new(item(id))));
        outcome.grant().unwrap_or_else(|| panic!("{outcome:?}")).token
    }

    fn wait(&mut self, at: u64, who: &Caller, id: &str) -> Outcome {
        let mut claim = Claim::new(item(id));
        claim.action = Some("canary action".into());
        claim.on_conflict = OnConflict::Wait { wait_for: None, line_max: None };
        self.at(at, who, Command::Claim(claim))
    }

    fn view(&self, viewer: &Caller, id: &str) -> Result<ItemView, Refusal> {
        self.state.view_item(&self.records, viewer, &space(), &item(id), IfClaimed::Return)
    }

    fn list(&self, viewer: &Caller, query: &Query) -> Vec<ItemId> {
        self.state.list(&self.records, viewer, &space(), query).items.into_iter().map(|view| view.id).collect()
    }

    fn carrying(&self, viewer: &Caller, of: &str, limit: usize) -> Carrying {
        self.state.carrying(&self.records, viewer, &space(), &actor(of), limit)
    }
}

fn dee() -> Caller {
    caller("dee", &[Role::Dispatcher])
}

fn op() -> Caller {
    caller("op", &[Role::Operator])
}

fn worker(name: &str) -> Caller {
    caller(name, &[Role::Worker])
}

fn space() -> SpaceName {
    SpaceName::fallback()
}

fn everything() -> Query {
    Query { limit: 100, ..Query::default() }
}

#[test]
fn next_deadlines_name_the_moment_of_the_next_change() {
    let mut story = Story::new();
    let next = |story: &Story| story.state.next_deadlines(&story.records);
    assert_eq!(next(&story), NextDeadlines::default());
    story.create("disk", |_| {});
    story.create("later", |new| new.not_before = Some(Wall(9_000)));
    assert_eq!(next(&story), NextDeadlines { time: None, wall: Some(Wall(9_000)) });
    assert!(!story.state.has_leases());
    let token = story.claim(1, &worker("ada"), "disk");
    assert!(story.state.has_leases());
    assert_eq!(next(&story).time, Some(Time(900_001)));
    story.at(
        2,
        &worker("ada"),
        Command::Release(Release { item: item("disk"), token: Some(token), keep_assignment: false }),
    );
    assert!(!story.state.has_leases());
    // Never too late, but perhaps too early: the deadline of the ended lease may still be listed.
    assert!(next(&story).time.is_none_or(|time| time == Time(900_001)));
}

#[test]
fn an_outcome_names_every_lease_that_it_hands_out() {
    let mut story = Story::new();
    for id in ["a", "b", "c", "d", "e", "f"] {
        story.create(id, |_| {});
    }
    let ada = worker("ada");
    let ids = |outcome: &Outcome| outcome.grants().iter().map(|grant| grant.item.to_string()).collect::<String>();
    assert_eq!(ids(&story.at(1, &ada, Command::Claim(Claim::new(item("f"))))), "f");
    assert_eq!(ids(&story.at(1, &ada, Command::Next(Next { count: 2, ..Next::new(queue("ops")) }))), "ab");
    let claims = ["c", "gone", "d"].map(|id| Claim::new(item(id))).to_vec();
    let many = ClaimMany { claims, releases: vec![], all_or_none: false };
    assert_eq!(ids(&story.at(1, &ada, Command::ClaimMany(many))), "cd");
    let write = Write { item: item("e"), token: None, read_at: None };
    assert_eq!(ids(&story.at(1, &ada, Command::Update(Update { write, edits: vec![], start: true }))), "e");
    assert_eq!(ids(&story.at(1, &ada, Command::RenewAll(RenewAll::default()))), "");
}

#[test]
fn a_list_is_filtered_and_paged_and_survives_changes() {
    let mut story = Story::new();
    for n in 0..6 {
        story.create(&format!("item-{n}"), |new| {
            new.title = format!("Title {n}");
            new.labels = if n % 2 == 0 { vec![label("even")] } else { vec![] };
            new.parent = (n > 2).then(|| item("item-0"));
        });
    }
    story.claim(1, &worker("ada"), "item-1");
    let ids = |ids: &[usize]| ids.iter().map(|n| item(&format!("item-{n}"))).collect::<Vec<_>>();
    let all = everything();
    assert_eq!(story.list(&dee(), &all), ids(&[0, 1, 2, 3, 4, 5]));
    assert_eq!(story.list(&dee(), &Query { labels: vec![label("even")], ..all.clone() }), ids(&[0, 2, 4]));
    assert_eq!(story.list(&dee(), &Query { parent: Some(item("item-0")), ..all.clone() }), ids(&[3, 4, 5]));
    assert_eq!(story.list(&dee(), &Query { state: Some(StateKind::Active), ..all.clone() }), ids(&[1]));
    assert_eq!(story.list(&dee(), &Query { text: Some("TLE 4".into()), ..all.clone() }), ids(&[4]));
    assert_eq!(story.list(&dee(), &Query { text: Some("M-5".into()), ..all.clone() }), ids(&[5]));
    assert_eq!(story.list(&dee(), &Query { queue: Some(queue("other")), ..all.clone() }), ids(&[]));
    let by_claim = |claim| Query { claim: Some(claim), ..everything() };
    assert_eq!(story.list(&dee(), &by_claim(ClaimStatus::Claimed)), ids(&[1]));
    assert_eq!(story.list(&dee(), &by_claim(ClaimStatus::Unclaimed)), ids(&[0, 2, 3, 4, 5]));
    assert_eq!(story.list(&dee(), &by_claim(ClaimStatus::Expired)), ids(&[]));

    let first = story.state.list(&story.records, &dee(), &space(), &Query { limit: 2, ..everything() });
    assert_eq!(first.items.iter().map(|view| view.id.clone()).collect::<Vec<_>>(), ids(&[0, 1]));
    let cancel = lease::command::Cancel { item: item("item-0"), reason: String::new(), force: false };
    story.at(2, &dee(), Command::Cancel(cancel));
    story.create("item-6", |_| {});
    let rest = story.state.list(&story.records, &dee(), &space(), &Query { after: first.next, ..everything() });
    assert_eq!(rest.items.iter().map(|view| view.id.clone()).collect::<Vec<_>>(), ids(&[2, 3, 4, 5, 6]));
    assert_eq!(rest.next, None, "nothing is left");

    story.step(Entry { at: Time(901_000), ..Entry::default() });
    assert_eq!(story.list(&dee(), &by_claim(ClaimStatus::Expired)), ids(&[1]));
    assert_eq!(
        story.state.list(&story.records, &dee(), &SpaceName::new("elsewhere").unwrap(), &everything()).items,
        []
    );
}

#[test]
fn one_list_call_examines_a_bounded_number_and_all_calls_find_everything_in_order() {
    let mut story = Story::new();
    let ids: Vec<_> = (0..2_500).map(|n| format!("item-{n}")).collect();
    for (n, id) in ids.iter().enumerate() {
        story.create(id, |new| new.queue = queue(&format!("q-{}", n * 7 % 40)));
    }
    let (mut found, mut looks, mut query) = (Vec::new(), 0, Query { limit: 10_000, ..everything() });
    loop {
        let page = story.state.list(&story.records, &dee(), &space(), &query);
        looks += 1;
        assert!(page.steps <= 1_000 + 40, "{}", page.steps);
        found.extend(page.items.into_iter().map(|view| view.id.to_string()));
        if page.next.is_none() {
            break;
        }
        query.after = page.next;
    }
    assert_eq!((found, looks), (ids, 3));
}

#[test]
fn a_walk_through_many_items_is_made_in_parts_and_counts_all_of_them() {
    let mut story = Story::new();
    story.create("root", |_| {});
    for n in 0..2_000 {
        story.create(&format!("child-{n}"), |new| new.parent = Some(item("root")));
    }
    for n in 0..100 {
        story.create(&format!("grandchild-{n}"), |new| new.parent = Some(item(&format!("child-{n}"))));
        story.claim(1, &worker("ada"), &format!("grandchild-{n}"));
    }
    let mut walk = story.state.begin_claim_walk(&dee(), &space(), &item("root")).unwrap();
    let mut parts = 1;
    let summary = loop {
        if let Some(summary) = story.state.walk_claims(&dee(), &mut walk) {
            break summary;
        }
        parts += 1;
    };
    assert_eq!(summary, ClaimSummary { active: 100, expired: 0, unclaimed: 2_001 });
    assert_eq!(story.state.claims_under(&dee(), &space(), &item("root")), Ok(summary));
    assert!(parts >= 3, "{parts}");
}

#[test]
fn a_list_stays_in_its_space_and_queue() {
    let mut story = Story::new();
    let elsewhere = SpaceName::new("elsewhere").unwrap();
    story.create("here", |_| {});
    story.create("other", |new| new.queue = queue("other"));
    let there = Command::Create(Box::new(NewItem::new(item("there"), queue("ops"))));
    story.at_in(0, &elsewhere, &dee(), there);
    assert_eq!(story.list(&dee(), &everything()), [item("here"), item("other")]);
    assert_eq!(story.list(&dee(), &Query { queue: Some(queue("other")), ..everything() }), [item("other")]);
    let listed = story.state.list(&story.records, &dee(), &elsewhere, &everything()).items;
    assert_eq!(listed.iter().map(|view| view.id.as_str()).collect::<Vec<_>>(), ["there"]);
    let mut narrow = dee();
    narrow.rights[0].queues = QueueScope::prefix("oth");
    assert_eq!(story.list(&narrow, &everything()), [item("other")]);
    let queues = |viewer: &Caller| {
        story.state.queues(viewer, &space()).into_iter().map(|stats| stats.queue.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(queues(&dee()), ["ops", "other"]);
    assert_eq!(queues(&narrow), ["other"]);
    assert_eq!(story.state.spaces().len(), 2);
}

#[test]
fn a_state_says_its_epoch_its_newest_date_and_the_numbers_of_its_spaces() {
    let mut story = Story::new();
    let elsewhere = SpaceName::new("elsewhere").unwrap();
    assert_eq!((story.state.epoch(), story.state.newest_wall()), (Epoch(0), Wall(0)));
    story.create("here", |_| {});
    let there = Command::Create(Box::new(NewItem::new(item("there"), queue("ops"))));
    story.at_in(0, &elsewhere, &dee(), there);
    let number = |name: &SpaceName| story.state.space_no(name);
    assert_eq!([number(&space()), number(&elsewhere)], [Some(SpaceNo(0)), Some(SpaceNo(1))]);
    assert_eq!(number(&SpaceName::new("nowhere").unwrap()), None);
    let later = lease::bounds::EPOCH_ORIGIN_MS + 7_000;
    story.at(later, &caller("root", &[Role::Admin]), Command::BeginEpoch { token_floor: None });
    story.at(later - 5, &dee(), Command::Activate);
    assert_eq!((story.state.epoch(), story.state.newest_wall()), (Epoch(7), Wall(later)));
    // A clock that is this much earlier was set back.
    story.at(5, &dee(), Command::Activate);
    assert_eq!((story.state.epoch(), story.state.newest_wall()), (Epoch(7), Wall(5)));
}

#[test]
fn a_state_says_where_the_events_of_a_space_end_and_which_rules_it_knows() {
    let mut story = Story::new();
    let seq = |story: &Story| story.state.last_event(&space()).seq;
    assert_eq!(seq(&story), 0);
    story.create("disk", |_| {});
    story.create("tape", |_| {});
    assert_eq!((seq(&story), story.events.last().unwrap().number.seq), (2, 2));
    assert_eq!(story.state.known_rules(), lease::bounds::RULES_VERSION);
    assert_eq!(story.state.knowing(9).known_rules(), 9);
}

#[test]
fn a_viewer_sees_all_of_a_queue_only_if_it_may_see_holders() {
    for (policy, workers_see) in [(Disclosure::Open, true), (Disclosure::Fleet, false), (Disclosure::CrossOrg, false)] {
        let (story, _) = canaries(policy);
        let sees = |viewer: &Caller, name: &str| story.state.sees_all_of(viewer, &space(), &queue(name));
        assert_eq!(sees(&worker("eve"), "ops"), workers_see, "{policy:?}");
        assert!(sees(&op(), "ops") && !sees(&op(), "no-such-queue"));
    }
}

#[test]
fn archived_items_are_still_visible() {
    let mut story = Story::new();
    story.create("done", |_| {});
    let cancel = lease::command::Cancel { item: item("done"), reason: String::new(), force: false };
    story.at(1, &dee(), Command::Cancel(cancel));
    assert_eq!(story.view(&dee(), "done").unwrap().state, StateKind::Cancelled);
    assert_eq!(story.view(&dee(), "never"), Err(Refusal::NotFound));
}

#[test]
fn an_item_that_the_viewer_may_not_see_is_not_found() {
    let mut story = Story::new();
    story.create("public", |_| {});
    story.create("mine", |new| new.mode = Mode::Local { owner: actor("dee") });
    let mut elsewhere = worker("eve");
    elsewhere.rights = vec![Right { role: Role::Worker, queues: QueueScope::prefix("other") }];
    assert_eq!(story.view(&elsewhere, "public"), Err(Refusal::NotFound));
    assert_eq!(story.list(&elsewhere, &everything()), []);
    assert_eq!(story.state.line(&elsewhere, &space(), &item("public")), Err(Refusal::NotFound));
    assert_eq!(story.state.queues(&elsewhere, &space()), []);
    assert_eq!(story.state.claims_under(&elsewhere, &space(), &item("public")), Err(Refusal::NotFound));
    assert_eq!(
        story.state.peek(&story.records, &elsewhere, &space(), &Next::new(queue("ops"))),
        Err(Refusal::NotFound)
    );

    let outsider = worker("eve");
    assert_eq!(story.list(&outsider, &everything()), [item("public")], "a local item is listed for its owner only");
    let mut hers = worker("dees-agent");
    hers.parent = Some(actor("dee"));
    assert_eq!(story.list(&hers, &everything()), [item("public"), item("mine")]);
    assert_eq!(story.list(&op(), &everything()), [item("public"), item("mine")], "the operator sees all");
}

#[test]
fn a_view_says_what_an_item_waits_for_and_what_blocks_it() {
    let mut story = Story::new();
    story.create("first", |_| {});
    story.create("later", |new| {
        new.depends_on = vec![item("first")];
        new.not_before = Some(Wall(9_000));
        new.delay = Some(Span(500));
    });
    let view = story.view(&dee(), "later").unwrap();
    assert_eq!((view.content.depends_on(), view.content.not_before()), (&[item("first")][..], Some(Wall(9_000))));
    let waits_for = view.waits_for.unwrap();
    assert_eq!(
        (waits_for.dependencies, waits_for.not_before, waits_for.until),
        (1, Some(Wall(9_000)), Some(Time(500)))
    );
    let cancel = lease::command::Cancel { item: item("first"), reason: String::new(), force: false };
    story.at(1, &dee(), Command::Cancel(cancel));
    let view = story.view(&dee(), "later").unwrap();
    assert_eq!((view.waits_for, view.blocked_by), (None, Some(lease::standing::BlockedBy::Dependency)));
    assert_eq!(story.view(&dee(), "first").unwrap().blocked_by, None);
    assert_eq!((story.state.rules_version(), story.state.remembered_requests()), (1, 3));
    assert_eq!((story.state.live_items(), story.state.is_activated()), (1, true));
}

#[test]
fn a_reader_may_ask_to_fail_when_the_item_is_claimed() {
    let mut story = Story::new();
    story.create("disk", |_| {});
    let read = |story: &Story| story.state.view_item(&story.records, &dee(), &space(), &item("disk"), IfClaimed::Fail);
    assert!(read(&story).is_ok());
    story.claim(1_000, &worker("ada"), "disk");
    let refusal = read(&story).unwrap_err();
    assert_eq!((refusal.code(), refusal.retry_after()), (Code::AlreadyClaimed, Some(Span(900_000))));
    assert!(story.view(&dee(), "disk").unwrap().claimed, "reading is never blocked");
}

#[test]
fn what_an_actor_carries_is_shown_where_its_holdings_are_disclosed() {
    let mut story = Story::new();
    for id in ["held", "given", "free"] {
        story.create(id, |_| {});
    }
    let (ada, bob) = (worker("ada"), worker("bob"));
    story.claim(1, &ada, "held");
    story.at(2, &dee(), Command::Assign { item: item("given"), actor: actor("ada") });
    let by = |change: fn(&mut Query)| {
        let mut query = everything();
        change(&mut query);
        query
    };
    let held_by_ada = by(|query| query.holder = Some(actor("ada")));
    let given_to_ada = by(|query| query.assignee = Some(actor("ada")));
    let in_a_session = by(|query| query.session = Some(SessionId::new("run").unwrap()));
    // A fleet queue: others see no holders, so a filter finds nothing by them.
    assert_eq!(story.carrying(&bob, "ada", 10), Default::default());
    assert_eq!((story.list(&bob, &held_by_ada), story.list(&bob, &given_to_ada)), (vec![], vec![]));
    assert_eq!(story.list(&ada, &held_by_ada), [item("held")]);
    for viewer in [&op(), &ada] {
        let carrying = story.carrying(viewer, "ada", 10);
        let ids = |views: Vec<ItemView>| views.into_iter().map(|view| view.id).collect::<Vec<_>>();
        assert_eq!(ids(carrying.leased), [item("held")]);
        assert_eq!(ids(carrying.assigned), [item("held"), item("given")]);
        assert_eq!(story.list(viewer, &given_to_ada), [item("held"), item("given")]);
        assert_eq!(story.list(viewer, &in_a_session), []);
    }
    let run = Caller { session: Some(SessionId::new("run").unwrap()), ..bob.clone() };
    story.claim(3, &run, "free");
    assert_eq!(story.list(&op(), &in_a_session), [item("free")]);
    assert_eq!(story.list(&ada, &in_a_session), []);
}

#[test]
fn carrying_lists_assigned_leased_and_reserved_items() {
    let mut story = Story::new();
    for id in ["held", "kept", "given", "others"] {
        story.create(id, |_| {});
    }
    let ada = worker("ada");
    story.claim(1, &ada, "held");
    let token = story.claim(2, &ada, "kept");
    story.at(3, &ada, Command::Reserve(Reserve { item: item("kept"), token, span: None }));
    story.at(4, &dee(), Command::Assign { item: item("given"), actor: actor("ada") });
    story.claim(5, &worker("bob"), "others");
    let carrying = story.carrying(&ada, "ada", 10);
    let ids = |views: Vec<ItemView>| views.into_iter().map(|view| view.id).collect::<Vec<_>>();
    assert_eq!(ids(carrying.leased), [item("held")]);
    assert_eq!(ids(carrying.reserved), [item("kept")]);
    assert_eq!(ids(carrying.assigned), [item("held"), item("kept"), item("given")]);
    assert_eq!(ids(story.carrying(&ada, "ada", 1).assigned), [item("held")]);
    assert_eq!(story.carrying(&worker("eve"), "eve", 10), Default::default());
    let until = |id: &str| story.view(&ada, id).unwrap().reserved_until;
    assert_eq!((until("kept"), until("held")), (Some(Time(3).after(Span::secs(2 * 24 * 3600))), None));
    let view = story.view(&ada, "held").unwrap();
    assert_eq!((view.token, view.claimed_at, view.assignee), (Some(Token(1)), Some(Time(1)), Some(actor("ada"))));
    assert_eq!(story.view(&op(), "held").unwrap().token, None, "a token is its holder's alone");
}

#[test]
fn stats_count_by_state_and_by_claim() {
    let mut story = Story::new();
    for id in ["root", "a", "b", "c"] {
        story.create(id, |new| new.parent = (id != "root").then(|| item("root")));
    }
    story.create("below", |new| new.parent = Some(item("c")));
    let ada = worker("ada");
    story.claim(1_000, &ada, "a");
    story.wait(2_000, &worker("bob"), "a");
    let mut short = Claim::new(item("b"));
    short.lease_for = Some(Span(1_000));
    story.at(2_000, &ada, Command::Claim(short));
    story.step(Entry { at: Time(4_000), ..Entry::default() });
    let [stats] = story.state.queues(&dee(), &space()).try_into().unwrap();
    assert_eq!(stats.claims, ClaimSummary { active: 1, expired: 1, unclaimed: 3 });
    assert_eq!((stats.leases, stats.ready, stats.items_with_line, stats.unsettled), (1, 4, 1, 0));
    assert_eq!(stats.by_state[&StateKind::Queued], 3);
    assert_eq!(stats.oldest_ready_since, Some(Time(0)));
    let under = |id: &str| story.state.claims_under(&dee(), &space(), &item(id)).unwrap();
    assert_eq!(under("root"), ClaimSummary { active: 1, expired: 1, unclaimed: 3 });
    assert_eq!(under("c"), ClaimSummary { active: 0, expired: 0, unclaimed: 2 });
    let [space_stats] = story.state.spaces().try_into().unwrap();
    assert_eq!((space_stats.counts.created, space_stats.counts.live), (5, 5));
}

#[test]
fn all_queues_and_all_lines_can_be_walked_in_parts() {
    let mut story = Story::new();
    for id in ["a", "b", "c"] {
        story.create(id, |_| {});
        story.claim(1_000, &worker("ada"), id);
    }
    for (who, id) in [("bob", "a"), ("cy", "a"), ("bob", "c")] {
        story.wait(2_000, &worker(who), id);
    }
    let (no, in_space, stats) = story.state.queue_from(QueueNo(0)).unwrap();
    assert_eq!((no, in_space, stats.leases, stats.items_with_line), (QueueNo(0), &space(), 3, 2));
    assert_eq!(story.state.queue_from(QueueNo(1)), None);
    let waiting = |after, limit| story.state.waiting_behind(QueueNo(0), after, limit);
    assert_eq!(waiting(ItemNo(0), 10), (3, None));
    let (first, more) = waiting(ItemNo(0), 1);
    let (second, end) = waiting(more.unwrap(), 1);
    assert_eq!((first, second), (2, 1));
    assert_eq!(waiting(end.unwrap(), 1), (0, None));
    assert_eq!(story.state.waiting_behind(QueueNo(1), ItemNo(0), 10), (0, None));
}

#[test]
fn workers_are_alive_then_quiet_then_gone() {
    let mut story = Story::new();
    let ada = worker("ada");
    let registration =
        Registration { capabilities: vec![], labels: vec![], mode: RunsIn::Any, alive_for: Span::secs(60) };
    story.at(0, &ada, Command::RegisterWorker(registration));
    story.create("disk", |_| {});
    story.claim(0, &ada, "disk");
    let see = |story: &Story, viewer: &Caller| {
        story.state.workers(viewer, &space()).into_iter().map(|view| (view.liveness, view.leases)).collect::<Vec<_>>()
    };
    assert_eq!(see(&story, &op()), [(Liveness::Alive, 1)]);
    assert_eq!(see(&story, &ada), [(Liveness::Alive, 1)], "a worker sees itself");
    assert_eq!(see(&story, &worker("eve")), []);
    for (at, liveness) in [(59_999, Liveness::Alive), (60_000, Liveness::Quiet), (659_999, Liveness::Quiet)] {
        story.step(Entry { at: Time(at), ..Entry::default() });
        assert_eq!(see(&story, &op()), [(liveness, 1)], "at {at}");
    }
    story.step(Entry { at: Time(660_000), ..Entry::default() });
    assert_eq!(see(&story, &op()), [(Liveness::Gone, 1)]);
    story.step(Entry { at: Time(660_000 + 24 * 3_600_000), ..Entry::default() });
    assert_eq!(see(&story, &op()), []);
}

#[test]
fn events_tell_who_held_an_item_at_a_time() {
    let mut story = Story::new();
    story.create("disk", |_| {});
    let token = story.claim(1_000, &worker("ada"), "disk");
    story.at(
        5_000,
        &worker("ada"),
        Command::Release(Release { item: item("disk"), token: Some(token), keep_assignment: false }),
    );
    story.claim(7_000, &worker("bob"), "disk");
    let (disk, newest_first) = (item("disk"), story.events.iter().rev().cloned().collect::<Vec<_>>());
    for page in 1..=newest_first.len() {
        let at = |time: u64| {
            let mut search = PastHolderSearch::new(&disk, Time(time), newest_first[0].number);
            let mut pages = newest_first.chunks(page).peekable();
            let found = std::iter::from_fn(|| {
                let page = pages.next().expect("the last page has the answer").to_vec();
                Some(search.examine(page, pages.peek().is_none()))
            });
            match found.flatten().next() {
                Some(PastHolder::Granted(event)) => match event.what {
                    What::Granted { holder, .. } => Some(holder.actor.to_string()),
                    other => panic!("{other:?}"),
                },
                other => {
                    assert_eq!(other, Some(PastHolder::Nobody), "at {time} in pages of {page}");
                    None
                }
            }
        };
        assert_eq!(at(999), None);
        assert_eq!(at(1_000).as_deref(), Some("ada"));
        assert_eq!(at(4_999).as_deref(), Some("ada"));
        assert_eq!(at(5_000), None);
        assert_eq!(at(7_000).as_deref(), Some("bob"));
    }
}

fn of_prefix(name: &str, prefix: &str, roles: &[Role]) -> Caller {
    let mut narrow = caller(name, roles);
    for right in &mut narrow.rights {
        right.queues = QueueScope::prefix(prefix);
    }
    narrow
}

/// `shown` refers in every possible way to an item of another queue, to a local one and to a finished one there.
fn links() -> Story {
    let mut story = Story::new();
    let secret = |new: &mut NewItem| new.queue = queue("secret");
    story.create("canary-parent", secret);
    story.create("canary-target", |new| {
        secret(new);
        new.depends_on = vec![item("canary-parent")];
    });
    story.create("canary-done", secret);
    story.create("canary-mine", |new| new.mode = Mode::Local { owner: actor("dee") });
    story.create("open", |_| {});
    story.create("shown", |new| {
        new.parent = Some(item("canary-parent"));
        new.target = Some(item("canary-target"));
        new.depends_on = ["canary-done", "open", "canary-mine"].map(item).to_vec();
        new.not_before = Some(Wall(9_000));
    });
    let cancel = lease::command::Cancel { item: item("canary-done"), reason: String::new(), force: false };
    story.at(1, &dee(), Command::Cancel(cancel));
    story
}

#[test]
fn an_item_names_no_other_item_that_is_hidden() {
    let mut story = links();
    let eve = of_prefix("eve", "ops", &[Role::Worker]);
    let seen = story.view(&eve, "shown").unwrap();
    assert_eq!((seen.content.parent(), seen.content.target()), (None, None));
    assert_eq!((seen.content.depends_on(), seen.content.not_before()), (&[item("open")][..], Some(Wall(9_000))));
    let seen = format!("{seen:?} {:?}", story.state.list(&story.records, &eve, &space(), &everything()));
    assert!(!seen.contains("canary"), "{seen}");
    let below = |viewer: &Caller| story.list(viewer, &Query { parent: Some(item("canary-parent")), ..everything() });
    assert_eq!((below(&eve), below(&dee())), (vec![], vec![item("shown")]));

    // A viewer that sees the items sees the links. An operator of the space also sees links to purged items.
    for viewer in [dee(), op()] {
        let seen = story.view(&viewer, "shown").unwrap();
        assert_eq!(seen.content.parent(), Some(&item("canary-parent")));
        assert_eq!((seen.content.target(), seen.content.depends_on().len()), (Some(&item("canary-target")), 3));
    }
    story.step(Entry { at: Time(30 * 24 * 3_600_000), ..Entry::default() });
    assert_eq!(story.view(&dee(), "canary-done"), Err(Refusal::NotFound), "its retention is over");
    let left = |viewer: &Caller| story.view(viewer, "shown").unwrap().content.depends_on().len();
    assert_eq!((left(&dee()), left(&op())), (2, 3), "what is gone is not told from what is hidden");
}

#[test]
fn links_are_looked_up_in_bounded_parts() {
    let mut story = Story::new();
    for n in 0..64 {
        story.create(&format!("first-{n}"), |_| {});
    }
    for n in 0..40 {
        story.create(&format!("then-{n}"), |new| {
            new.depends_on = (0..64).map(|n| item(&format!("first-{n}"))).collect()
        });
    }
    let page = story.state.list(&story.records, &dee(), &space(), &everything());
    assert!(page.steps < 1_200 && page.next.is_some(), "{} steps", page.steps);
    let (mut query, mut seen) = (everything(), page.items.len());
    query.after = page.next;
    while query.after.is_some() {
        let page = story.state.list(&story.records, &dee(), &space(), &query);
        (seen, query.after) = (seen + page.items.len(), page.next);
    }
    assert_eq!(seen, 104);
}

#[test]
fn cross_org_hides_who_created_an_item_and_when_it_was_claimed() {
    for (policy, sees_creator, sees_since) in
        [(Disclosure::Open, true, true), (Disclosure::Fleet, true, false), (Disclosure::CrossOrg, false, false)]
    {
        let (story, canary) = canaries(policy);
        let seen = |viewer: &Caller| {
            let view = story.view(viewer, "disk").unwrap();
            (view.content.created_by, view.since)
        };
        let (by, since) = seen(&worker("eve"));
        assert_eq!((by.is_some(), since.is_some()), (sees_creator, sees_since), "{policy:?}");
        assert_eq!(seen(&canary), (by, Some(Time(3))), "the holder knows when, and no more");
        for viewer in [dee(), op()] {
            assert_eq!(seen(&viewer).0, Some(actor("dee")), "{policy:?}");
        }
        let free = story.view(&worker("eve"), "free").unwrap();
        assert_eq!(free.since, Some(Time(0)), "nobody holds it");
        let content = &story.view(&op(), "disk").unwrap().content;
        let snapshot = std::sync::Arc::new(lease::item::Content::clone(content));
        let shown = |viewer: &Caller| {
            story.state.view_content(&story.records, viewer, &space(), &queue("ops"), &snapshot).unwrap().created_by
        };
        assert_eq!((shown(&canary).is_some(), shown(&dee())), (sees_creator, Some(actor("dee"))), "{policy:?}");
    }
}

/// I15. Holders and waiters are called canaries; nothing that this crate shows an outsider contains that name.
#[test]
fn no_view_answer_or_event_names_a_holder_to_an_outsider() {
    for policy in [Disclosure::Fleet, Disclosure::CrossOrg, Disclosure::Open] {
        let (mut story, canary) = canaries(policy);
        let eve = worker("eve");
        let mut seen = Vec::new();
        seen.push(format!("{:?}", story.view(&eve, "disk")));
        seen.push(format!("{:?}", story.view(&eve, "lapsed")));
        seen.push(format!("{:?}", story.view(&eve, "reserved")));
        seen.push(format!("{:?}", story.state.list(&story.records, &eve, &space(), &everything())));
        seen.push(format!("{:?}", story.state.line(&eve, &space(), &item("disk"))));
        seen.push(format!("{:?}", story.state.queues(&eve, &space())));
        seen.push(format!("{:?}", story.state.claims_under(&eve, &space(), &item("disk"))));
        seen.push(format!("{:?}", story.state.workers(&eve, &space())));
        seen.push(format!("{:?}", story.state.peek(&story.records, &eve, &space(), &Next::new(queue("ops")))));
        seen.push(format!("{:?}", story.carrying(&eve, "eve", 10)));
        seen.push(format!("{:?}", story.carrying(&eve, "canary", 10)));
        let whose = Query { holder: Some(actor("canary")), assignee: Some(actor("canary")), ..everything() };
        seen.push(format!("{:?}", story.list(&eve, &whose)));
        let if_claimed = story.state.view_item(&story.records, &eve, &space(), &item("disk"), IfClaimed::Fail);
        seen.push(format!("{if_claimed:?}"));
        for event in &story.events {
            seen.push(format!("{:?}", story.state.view_event(&story.records, &eve, event)));
        }
        let renew = Command::Renew(Renew { item: item("disk"), token: Token(1), lease_for: None });
        let release = Command::Release(Release { item: item("disk"), token: None, keep_assignment: false });
        for command in
            [Command::Claim(Claim::new(item("disk"))), renew, release, Command::Claim(Claim::new(item("reserved")))]
        {
            let outcome = story.at(10_000, &eve, command);
            seen.push(format!("{outcome:?}"));
        }
        let outcome = story.wait(10_001, &eve, "disk");
        seen.push(format!("{outcome:?}"));
        let sings = seen.iter().filter(|text| text.contains("canary")).count();
        if policy == Disclosure::Open {
            assert!(sings > 5, "an open queue shows its holders, so this test can fail");
        } else {
            let singer = seen.iter().find(|text| text.contains("canary"));
            assert_eq!(singer, None, "under {policy:?}");
        }
        // The holder and the operator see everything.
        assert!(format!("{:?}", story.view(&canary, "disk")).contains("canary"));
        assert!(format!("{:?}", story.view(&op(), "disk")).contains("canary"));
        assert!(format!("{:?}", story.state.line(&op(), &space(), &item("disk"))).contains("canary-2"));
        let granted = story.events.iter().find(|event| event.what.kind() == "granted").unwrap();
        let shown = story.state.view_event(&story.records, &canary, granted).unwrap();
        assert_eq!(shown.what.as_ref(), Some(&granted.what), "one's own lease is seen");
    }
}

/// A queue in which canaries hold, wait, let a lease lapse, reserve, and cause every kind of event.
fn canaries(policy: Disclosure) -> (Story, Caller) {
    let mut story = Story::new();
    let settings = vec![Setting::Disclosure(policy)];
    story.at(0, &op(), Command::SetPolicy(SetPolicy { queue: queue("ops"), settings, version: None }));
    for id in ["disk", "lapsed", "reserved", "free"] {
        story.create(id, |_| {});
    }
    let (canary, second) = (worker("canary-1"), worker("canary-2"));
    let registration =
        Registration { capabilities: vec![], labels: vec![], mode: RunsIn::Any, alive_for: Span::secs(60) };
    story.at(0, &canary, Command::RegisterWorker(registration));
    story.claim(1, &canary, "disk");
    story.at(
        2,
        &op(),
        Command::Revoke(lease::command::Revoke {
            item: item("disk"),
            reason: "canary was wrong".into(),
            assign_to: Some(actor("canary-1")),
        }),
    );
    let mut claim = Claim::new(item("disk"));
    claim.action = Some("canary action".into());
    story.at(3, &canary, Command::Claim(claim));
    story.wait(4, &second, "disk");
    let mut short = Claim::new(item("lapsed"));
    short.lease_for = Some(Span(1_000));
    story.at(5, &canary, Command::Claim(short));
    let token = story.claim(6, &canary, "reserved");
    story.at(7, &canary, Command::Reserve(Reserve { item: item("reserved"), token, span: None }));
    story.at(8, &dee(), Command::Assign { item: item("free"), actor: actor("canary-1") });
    story.step(Entry { at: Time(2_000), ..Entry::default() });
    (story, canary)
}
