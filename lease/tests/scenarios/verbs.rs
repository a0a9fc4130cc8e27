//! Turns a sentence into a command. Every verb is here; the larger ones have their own function.

use super::sentence::{Sentence, actor_id, holder, item_id, labels, phase, text, transition, wall_of};
use lease::Command;
use lease::command::{
    Activity, AwaitInput, Cancel, Claim, ClaimMany, Complete, Cursor, Extend, Fail, HandOn, Next, OnConflict, Order,
    Registration, Release, Renew, RenewAll, Reserve, Revoke, SetPolicy, Update,
};
use lease::item::{ActivityKind, Edit, Mode, NewItem, Part, RunsIn};
use lease::names::{ItemId, QueueName};
use lease::numbers::{ItemNo, Span, Token};
use lease::policy::{
    AtMaxLeases, Backoff, Disclosure, IdentityPolicy, OnDependencyFailed, RequireLease, Setting, SpacePolicy,
};

pub(super) fn command(line: &mut Sentence<'_>) -> Command {
    match line.word() {
        "creates" => creates(line),
        "claims" => claims(line),
        "takes" => takes_next(line),
        "renews" => renews(line),
        "extends" => extends(line),
        "releases" => Command::Release(release(line)),
        "reserves" => {
            let (item, token) = (line.item(), line.needed_token());
            Command::Reserve(Reserve { item, token, span: line.length() })
        }
        "withdraws" => {
            line.must("from");
            Command::Withdraw { item: line.item() }
        }
        "reorders" => {
            let item = line.item();
            line.must("to");
            Command::Reorder { item, actors: line.word().split('+').map(actor_id).collect() }
        }
        "revokes" => revokes(line),
        "assigns" => {
            let item = line.item();
            line.must("to");
            Command::Assign { item, actor: actor_id(line.word()) }
        }
        "unassigns" => {
            let item = line.item();
            line.must("from");
            Command::Unassign { item, actor: actor_id(line.word()) }
        }
        "updates" => {
            let item = line.item();
            Command::Update(Update { write: line.write(item), edits: edits(line), start: false })
        }
        "starts" => {
            let item = line.item();
            Command::Update(Update { write: line.write(item), edits: edits(line), start: true })
        }
        "records" => records(line),
        "awaits" => {
            line.must("input");
            line.must("on");
            let item = line.item();
            let write = line.write(item);
            Command::AwaitInput(AwaitInput { write, question: text(line.option("asking")) })
        }
        "resumes" => {
            let item = line.item();
            Command::Resume(line.write(item))
        }
        "hands" => {
            line.must("on");
            let item = line.item();
            let write = line.write(item);
            line.must("to");
            Command::HandOn(HandOn { write, phase: phase(line.word()) })
        }
        "completes" => {
            let item = line.item();
            let write = line.write(item);
            Command::Complete(Complete { write, result: line.option("result").map(|words| text(Some(words))) })
        }
        "fails" => {
            let item = line.item();
            let write = line.write(item);
            let error = line.option("error").map(|words| text(Some(words)));
            Command::Fail(Fail { write, error, is_final: line.flag("finally") })
        }
        "cancels" => {
            let item = line.item();
            Command::Cancel(Cancel { item, reason: text(line.option("because")), force: line.flag("by force") })
        }
        "reopens" => Command::Reopen { item: line.item() },
        "retries" => Command::Retry { item: line.item() },
        "sets" => sets(line),
        "pauses" => Command::Pause { queue: line.queue() },
        "unpauses" => Command::Unpause { queue: line.queue() },
        "drains" if line.says("worker") => Command::DrainWorker { worker: holder(line.word()) },
        "drains" => Command::Drain { queue: line.queue() },
        "registers" => registers(line),
        "removes" => {
            line.must("worker");
            Command::RemoveWorker { worker: holder(line.word()) }
        }
        "begins" => {
            line.must("an");
            line.must("epoch");
            let token_floor = line.option("tokens above").map(|text| Token(line.number(text)));
            if line.flag("accepting the clock") {
                return Command::BeginEpochAcceptingClock { token_floor };
            }
            Command::BeginEpoch { token_floor }
        }
        "activates" => Command::Activate,
        "raises" => {
            line.must("rules");
            line.must("to");
            let text = line.word();
            Command::RaiseRules { version: line.number(text) }
        }
        other => line.fail(&format!("no verb: {other}")),
    }
}

/// `creates disk in ops, priority 7, ...`, or a batch: `creates many in ops: a; b, after a; n1..n100`. `needs itself`:
/// a label that no other item has.
fn creates(line: &mut Sentence<'_>) -> Command {
    if !line.says("many") {
        let item = line.item();
        line.must("in");
        let queue = line.queue();
        return Command::Create(Box::new(new_item(line, item, queue)));
    }
    line.must("in");
    let queue = line.queue();
    let entries = line.entries.take().unwrap_or_else(|| line.fail("a batch has entries behind a colon"));
    let mut items = Vec::new();
    for entry in entries.split("; ") {
        let mut entry = Sentence::new(line.whole, entry);
        let id = entry.word();
        if let Some((first, last)) = id.split_once("..") {
            let stem = first.trim_end_matches(|c: char| c.is_ascii_digit());
            let number = |id: &str| line.number::<u32>(&id[stem.len()..]);
            let options = entry.options.clone();
            items.extend((number(first)..=number(last)).map(|number| {
                entry.options.clone_from(&options);
                new_item(&mut entry, item_id(&format!("{stem}{number}")), queue.clone())
            }));
        } else {
            items.push(new_item(&mut entry, item_id(id), queue.clone()));
        }
        entry.done();
    }
    Command::CreateMany(items)
}

fn new_item(line: &mut Sentence<'_>, id: ItemId, queue: QueueName) -> NewItem {
    let mut item = NewItem::new(id, queue);
    item.title = text(line.option("title"));
    item.priority = line.option("priority").map_or(item.priority, |text| line.number(text));
    item.labels = labels(line.option("labels"));
    item.needs = match line.option("needs") {
        Some("itself") => labels(Some(item.id.as_str())),
        needs => labels(needs),
    };
    item.parent = line.option("parent").map(item_id);
    item.target = line.option("target").map(item_id);
    item.depends_on = line.option("after").map_or_else(Vec::new, |ids| ids.split('+').map(item_id).collect());
    item.not_before = line.option("not before").map(wall_of);
    item.delay = line.option("delayed").map(|text| line.span(text));
    item.mode = mode(line).unwrap_or(Mode::Any);
    item.phase = line.option("phase").map(phase);
    for part in Part::ALL {
        if let Some(words) = line.option(part.name()) {
            item.body.push((part, text(Some(words))));
        }
    }
    item
}

/// `claims disk for 30s, waiting, ...`, or a batch: `claims all: a for 30s; b, waiting; release c`, `claims all or
/// none`.
fn claims(line: &mut Sentence<'_>) -> Command {
    if !line.says("all") {
        let item = line.item();
        return Command::Claim(claim(line, item));
    }
    let all_or_none = line.says("or");
    if all_or_none {
        line.must("none");
    }
    let mut many = ClaimMany { claims: Vec::new(), releases: Vec::new(), all_or_none };
    for entry in line.entries.take().unwrap_or("").split("; ").filter(|entry| !entry.is_empty()) {
        let mut entry = Sentence::new(line.whole, entry);
        if entry.says("release") {
            many.releases.push(release(&mut entry));
        } else {
            let item = entry.item();
            many.claims.push(claim(&mut entry, item));
        }
        entry.done();
    }
    Command::ClaimMany(many)
}

fn claim(line: &mut Sentence<'_>, item: ItemId) -> Claim {
    let lease_for = line.length();
    let wait_for = line.option("waiting").map(|text| line.span(text));
    let is_waiting = wait_for.is_some() || line.flag("waiting");
    let line_max = line.option("line at most").map(|text| line.number(text));
    Claim {
        item,
        lease_for,
        action: line.option("doing").map(|words| text(Some(words))),
        field: line.option("to the").map(|words| text(Some(words))),
        on_conflict: if is_waiting { OnConflict::Wait { wait_for, line_max } } else { OnConflict::Fail },
        takeover: line.flag("taking over"),
        mirrors: line.mirrors(),
    }
}

fn takes_next(line: &mut Sentence<'_>) -> Command {
    line.must("next");
    line.must("of");
    let mut next = Next::new(line.queue());
    next.lease_for = line.length();
    next.count = line.option("count").map_or(1, |text| line.number(text));
    next.order = match (line.flag("oldest"), line.flag("newest")) {
        (false, false) => Order::Priority,
        (true, _) => Order::Oldest,
        (_, true) => Order::Newest,
    };
    next.cursor = line.option("behind").map(|text| {
        let (priority, item) = text.split_once('/').unwrap_or_else(|| line.fail("a cursor is priority/number"));
        Cursor { priority: line.number(priority), item: ItemNo(line.number(item)) }
    });
    next.action = line.option("doing").map(|words| text(Some(words)));
    next.mirrors = line.mirrors();
    let filter = &mut next.filter;
    filter.labels = labels(line.option("labels"));
    filter.capabilities = line.option("able").map(|names| labels(Some(names)));
    filter.phase = line.option("phase").map(phase);
    filter.mode = line.option("mode").map(|text| runs_in(line, text));
    filter.parent = line.option("children of").map(item_id);
    filter.ancestor = line.option("under").map(item_id);
    filter.priority_min = line.option("priority from").map(|text| line.number(text));
    filter.priority_max = line.option("priority to").map(|text| line.number(text));
    Command::Next(next)
}

/// `renews disk with token 1 for 30s`, or `renews all for 30s, expecting disk=1+tape=2`.
fn renews(line: &mut Sentence<'_>) -> Command {
    if line.says("all") {
        let lease_for = line.length();
        let expected = line.option("expecting").map_or_else(Vec::new, |list| {
            let pairs = list.split('+').map(|pair| pair.split_once('=').unwrap_or_else(|| line.fail("item=token")));
            pairs.map(|(item, token)| (item_id(item), Token(line.number(token)))).collect()
        });
        return Command::RenewAll(RenewAll { lease_for, expected });
    }
    let (item, token) = (line.item(), line.needed_token());
    Command::Renew(Renew { item, token, lease_for: line.length() })
}

fn extends(line: &mut Sentence<'_>) -> Command {
    let (item, token) = (line.item(), line.needed_token());
    line.must("by");
    let by = line.word();
    Command::Extend(Extend { item, token, by: line.span(by) })
}

fn release(line: &mut Sentence<'_>) -> Release {
    let (item, token) = (line.item(), line.token());
    Release { item, token, keep_assignment: line.flag("keeping it") }
}

fn revokes(line: &mut Sentence<'_>) -> Command {
    let item = line.item();
    let reason = text(line.option("because"));
    Command::Revoke(Revoke { item, reason, assign_to: line.option("giving it to").map(actor_id) })
}

fn records(line: &mut Sentence<'_>) -> Command {
    let kind = match line.word() {
        "progress" => ActivityKind::Progress,
        "plan_updated" => ActivityKind::PlanUpdated,
        "external_url_updated" => ActivityKind::ExternalUrlUpdated,
        "policy_decision" => ActivityKind::PolicyDecision,
        "awaiting_input" => ActivityKind::AwaitingInput,
        "completed" => ActivityKind::Completed,
        "failed" => ActivityKind::Failed,
        other => line.fail(&format!("no activity: {other}")),
    };
    line.must("on");
    let item = line.item();
    let write = line.write(item);
    Command::Activity(Activity { write, kind, note: text(line.option("saying")) })
}

/// In the order of the line. `nothing` removes a value.
fn edits(line: &mut Sentence<'_>) -> Vec<Edit> {
    let mut edits = Vec::new();
    for option in std::mem::take(&mut line.options) {
        let (name, value) = option.split_once(' ').unwrap_or((option, ""));
        let link = || (value != "nothing").then(|| item_id(value));
        edits.push(match name {
            "title" => Edit::Title(text(Some(value))),
            "priority" => Edit::Priority(line.number(value)),
            "labels" => Edit::Labels(labels(Some(value))),
            "needs" => Edit::Needs(labels(Some(value))),
            "parent" => Edit::Parent(link()),
            "target" => Edit::Target(link()),
            "not_before" => Edit::NotBefore((value != "nothing").then(|| wall_of(value))),
            "mode" | "local" => {
                line.options.push(option);
                Edit::Mode(mode(line).unwrap_or_else(|| line.fail("no mode")))
            }
            "phase" => Edit::Phase(phase(value)),
            other => match Part::ALL.into_iter().find(|part| part.name() == other) {
                Some(part) => Edit::Body(part, text(Some(value))),
                None => line.fail(&format!("no field: {other}")),
            },
        });
    }
    edits
}

/// `sets ops, lease_for 10s, version 0`, or `sets the space, items_max 3, identity checked`.
fn sets(line: &mut Sentence<'_>) -> Command {
    if line.says("the") {
        line.must("space");
        let mut policy = SpacePolicy::default();
        policy.items_max = line.option("items_max").map_or(policy.items_max, |text| line.number(text));
        policy.body_bytes_max = line.option("body_bytes_max").map_or(policy.body_bytes_max, |text| line.number(text));
        policy.identity = match line.option("identity") {
            None | Some("self_reported") => IdentityPolicy::AcceptSelfReported,
            Some("cached") => IdentityPolicy::AcceptCached,
            Some("checked") => IdentityPolicy::RequireChecked,
            Some(other) => line.fail(&format!("no identity policy: {other}")),
        };
        return Command::SetSpacePolicy(policy);
    }
    let queue = line.queue();
    let version = line.option("version").map(|text| line.number(text));
    let settings = std::mem::take(&mut line.options).into_iter().map(|option| setting(line, option)).collect();
    Command::SetPolicy(SetPolicy { queue, settings, version })
}

fn setting(line: &Sentence<'_>, option: &str) -> Setting {
    let (name, value) = option.split_once(' ').unwrap_or((option, ""));
    match (name, value) {
        ("lease_for", span) => Setting::LeaseFor(line.span(span)),
        ("lease_max", span) => Setting::LeaseMax(line.span(span)),
        ("lease_min", span) => Setting::LeaseMin(line.span(span)),
        ("pickup", span) => Setting::Pickup(line.span(span)),
        ("lock_delay", span) => Setting::LockDelay(line.span(span)),
        ("line_max", max) => Setting::LineMax(line.number(max)),
        ("attempts_max", max) => Setting::AttemptsMax(line.number(max)),
        ("backoff", words) => {
            let mut words = words.split(' ');
            let mut next = || words.next().unwrap_or_else(|| line.fail("backoff FIRST PERCENT MAX"));
            let (first, factor, max) = (next(), next(), next());
            let factor_percent = line.number(factor);
            Setting::Backoff(Backoff { first: line.span(first), factor_percent, max: line.span(max) })
        }
        ("retention", span) => Setting::Retention(line.span(span)),
        ("max_leases", max) => Setting::MaxLeases(line.number(max)),
        ("at_max_leases", "reject") => Setting::AtMaxLeases(AtMaxLeases::Reject),
        ("at_max_leases", "release_oldest") => Setting::AtMaxLeases(AtMaxLeases::ReleaseOldest),
        ("require_lease", "if_held") => Setting::RequireLease(RequireLease::IfHeld),
        ("require_lease", "always") => Setting::RequireLease(RequireLease::Always),
        ("disclosure", "open") => Setting::Disclosure(Disclosure::Open),
        ("disclosure", "fleet") => Setting::Disclosure(Disclosure::Fleet),
        ("disclosure", "cross_org") => Setting::Disclosure(Disclosure::CrossOrg),
        ("on_dependency_failed", "block") => Setting::OnDependencyFailed(OnDependencyFailed::Block),
        ("on_dependency_failed", "ignore") => Setting::OnDependencyFailed(OnDependencyFailed::Ignore),
        ("concurrency", max) => Setting::Concurrency(line.number(max)),
        ("reservation_max", span) => Setting::ReservationMax(line.span(span)),
        ("phases", names) => Setting::Phases(names.split('+').map(phase).collect()),
        ("mirrors", list) => Setting::Mirrors(
            list.split('+')
                .filter_map(|pair| pair.split_once('='))
                .map(|(of, to)| (transition(of), phase(to)))
                .collect(),
        ),
        _ => line.fail(&format!("no setting: {option}")),
    }
}

fn registers(line: &mut Sentence<'_>) -> Command {
    let capabilities = labels(line.option("able"));
    let labels = labels(line.option("labels"));
    let mode = line.option("mode").map_or(RunsIn::Any, |text| runs_in(line, text));
    let alive_for = line.option("alive for").map_or(Span::secs(60), |text| line.span(text));
    Command::RegisterWorker(Registration { capabilities, labels, mode, alive_for })
}

fn mode(line: &mut Sentence<'_>) -> Option<Mode> {
    if let Some(owner) = line.option("local to") {
        return Some(Mode::Local { owner: actor_id(owner) });
    }
    Some(match line.option("mode")? {
        "any" => Mode::Any,
        "cloud" => Mode::Cloud,
        other => line.fail(&format!("no mode: {other}")),
    })
}

fn runs_in(line: &Sentence<'_>, text: &str) -> RunsIn {
    match text {
        "any" => RunsIn::Any,
        "cloud" => RunsIn::Cloud,
        "local" => RunsIn::Local,
        other => line.fail(&format!("no mode: {other}")),
    }
}
