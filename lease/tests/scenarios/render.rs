//! Renders outcomes and events as words: everything a rule promises, and nothing twice.

use super::script::MIDNIGHT;
use super::world::World;
use lease::caller::{ActorKind, Holder};
use lease::event::What;
use lease::item::{MirrorSkip, Transition};
use lease::names::ItemId;
use lease::numbers::{EventNumber, Span, Time, Wall};
use lease::outcome::{EmptyReason, Grant, Renewal, RenewalOfAll};
use lease::queue::Flow;
use lease::refusal::{HolderView, NotReady};
use lease::standing::{BlockedBy, StateKind};
use lease::{Attempt, Event, Outcome, Refusal, Request};

/// One step with its outcomes and events.
pub(crate) struct Tale<'a> {
    pub(crate) world: &'a World,
    pub(crate) requests: &'a [Request],
    pub(crate) outcomes: &'a [Outcome],
    pub(crate) events: &'a [Event],
}

pub(crate) fn step(tale: &Tale<'_>) -> String {
    let mut events: Vec<&Event> = tale.events.iter().collect();
    let mut answers = Vec::new();
    for (request, outcome) in tale.requests.iter().zip(tale.outcomes) {
        let mut teller = Teller { tale, request, events: &mut events };
        let answer = teller.outcome(outcome);
        answers.push(answer);
    }
    let mut told = run_together(&events);
    if !answers.is_empty() {
        told.insert(0, shortened(answers, 8).join(" | "));
    }
    told.join("; ")
}

/// Many events of one kind in a row are shown as one.
fn run_together(events: &[&Event]) -> Vec<String> {
    let runs = events.chunk_by(|one, other| one.what.kind() == other.what.kind());
    runs.flat_map(|run| match run {
        [first, .., last] if run.len() > 5 => {
            vec![format!("{} x {} ({} to {})", run.len(), first.what.kind(), item_of(first), item_of(last))]
        }
        _ => run.iter().map(|other| event(other)).collect(),
    })
    .collect()
}

struct Teller<'t, 'e> {
    tale: &'t Tale<'t>,
    request: &'t Request,
    events: &'e mut Vec<&'t Event>,
}

impl Teller<'_, '_> {
    /// Removes an event that the outcome implies; returns whether it existed.
    fn takes(&mut self, kind: &str, item: &ItemId) -> bool {
        let who = &self.request.caller.actor;
        let is_it = |event: &&Event| {
            event.what.kind() == kind
                && event.item.as_ref() == Some(item)
                && event.space == self.request.space
                && event.by.as_ref().is_some_and(|by| by.actor == *who)
        };
        let index = self.events.iter().position(is_it);
        index.map(|index| self.events.remove(index)).is_some()
    }

    fn outcome(&mut self, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Refused(refused) => format!("refused: {}", refusal(refused)),
            Outcome::Created { item, created: true, revision: at, state } => {
                let is_now = self.takes("created", item);
                format!("{}created: {item} {}, {}", repeated(is_now), revision(*at), state.name())
            }
            Outcome::Created { item, created: false, revision: at, state } => {
                format!("exists: {item} {}, {}", revision(*at), state.name())
            }
            Outcome::CreatedMany(outcomes) => self.many(outcomes),
            Outcome::Granted(grant) => self.grant(grant),
            Outcome::Waiting { item, place, line_length, poll_within } => {
                assert_eq!(*poll_within, Span::secs(20), "a poll waits at most 20 s");
                let still = if self.takes("joined", item) { "" } else { "still " };
                format!("{still}waiting: place {place} of {line_length}")
            }
            Outcome::ClaimedMany { claims, releases } => {
                let (claims, releases) = (self.many(claims), self.many(releases));
                format!("[{claims}]{}", if releases.is_empty() { String::new() } else { format!(" [{releases}]") })
            }
            Outcome::Dispatched(grants) => {
                let grants: Vec<_> = grants.iter().map(|grant| self.grant(grant)).collect();
                shortened(grants, 12).join(", ")
            }
            Outcome::Empty { why, retry_after, cursor } => {
                let more = cursor.map_or_else(String::new, |at| format!(", more behind {}/{}", at.priority, at.item));
                format!("empty: {}, retry after {}{more}", empty(*why), span(*retry_after))
            }
            Outcome::Renewed(answer) => renewal(answer),
            Outcome::RenewedAll(answer) => renewal_of_all(answer),
            Outcome::Extended { item, expires_in, .. } if self.request.attempt != Attempt::First => {
                format!("again extended: {item}, {} left", span(*expires_in))
            }
            Outcome::Extended { item, expires_at, expires_in, capped_to, cancel_requested, .. } => {
                self.check_left(*expires_at, *expires_in);
                let capped = capped_to.map_or_else(String::new, |max| format!(", capped to {}", span(max)));
                let cancel = if *cancel_requested { ", cancel requested" } else { "" };
                format!("extended: {item} until {}{capped}{cancel}", time(*expires_at))
            }
            Outcome::Released { item, released, unassigned, state } => {
                let is_now = *released && self.takes("released", item);
                let what = if *released { format!("{}released", repeated(is_now)) } else { "held nothing".into() };
                let unassigned = if *unassigned { ", unassigned" } else { "" };
                format!("{what}: {item}{unassigned}, {}", state.map_or("unknown", StateKind::name))
            }
            Outcome::Reserved { item, until, span: length, state } => {
                format!("reserved: {item} for {}, until {}, {}", span(*length), time(*until), state.name())
            }
            Outcome::Withdrawn { item, withdrawn } => {
                format!("{}: {item}", if *withdrawn { "withdrawn" } else { "was in no line" })
            }
            Outcome::Reordered { item, line_length } => format!("line of {item}: {line_length}"),
            Outcome::Revoked { item, revoked, state } => {
                format!("{}: {item}, {}", if *revoked { "revoked" } else { "held by nobody" }, state.name())
            }
            Outcome::Assigned { item, actor } => format!("assigned: {item} to {actor}"),
            Outcome::Unassigned { item, unassigned } => {
                format!("{}: {item}", if *unassigned { "unassigned" } else { "was not assigned" })
            }
            Outcome::Updated { item, revision: at, grant } => {
                let claimed = grant.as_ref().map_or_else(String::new, |grant| format!(", {}", self.grant(grant)));
                format!("now: {item} {}{claimed}", revision(*at))
            }
            Outcome::Moved { item, state, revision: at } => {
                let at = self.tale.world.revision_note(&self.request.space, item, *at);
                format!("now: {item} {}{at}", state.name())
            }
            Outcome::Cancelled { item, state, ends_by } => {
                let ends_by = ends_by.map_or_else(String::new, |end| format!(", ends by {}", time(end)));
                format!("now: {item} {}{ends_by}", state.name())
            }
            Outcome::PolicySet { queue, version } => format!("policy of {queue}: version {version}"),
            Outcome::FlowSet { queue, flow } => format!("{queue} is {}", flow_name(*flow)),
            Outcome::SpacePolicySet { version } => format!("policy of the space: version {version}"),
            Outcome::WorkerRegistered { alive_for, draining } => {
                format!("registered for {}{}", span(*alive_for), if *draining { ", draining" } else { "" })
            }
            Outcome::WorkerDraining { known } => (if *known { "worker drains" } else { "no such worker" }).into(),
            Outcome::WorkerRemoved { removed } => (if *removed { "worker removed" } else { "no such worker" }).into(),
            Outcome::EpochBegun { epoch, tokens_above } => format!("epoch {epoch}, tokens above {tokens_above}"),
            Outcome::Activated => "active".into(),
            Outcome::RulesRaised { version } => format!("rules {version}"),
        }
    }

    fn many(&mut self, outcomes: &[Outcome]) -> String {
        shortened(outcomes.iter().map(|outcome| self.outcome(outcome)).collect(), 12).join(", ")
    }

    fn grant(&mut self, grant: &Grant) -> String {
        let is_pickup = |event: &&Event| matches!(event.what, What::PickedUp { token, .. } if token == grant.token);
        let is_now = self.takes("granted", &grant.item) || self.events.iter().any(is_pickup);
        let holder = holder(&self.request.caller.holder());
        let what = if grant.renewed { "renewed" } else { "granted" };
        let repeat = if grant.renewed { String::new() } else { repeated(is_now) };
        let mut told = format!(
            "{repeat}{what}: {holder} holds {}, token {}, until {}",
            grant.item,
            grant.token,
            time(grant.expires_at)
        );
        let mut also = |says: bool, what: String| {
            if says {
                told.push_str(&format!(", {what}"));
            }
        };
        if is_now || grant.renewed {
            self.check_left(grant.expires_at, grant.expires_in);
        } else {
            also(true, format!("{} left", span(grant.expires_in)));
        }
        also(grant.cut, "cut".into());
        also(
            grant.originally_claimed_at != grant.claimed_at,
            format!("first at {}", time(grant.originally_claimed_at)),
        );
        also(grant.line_length > 0, format!("{} in line", grant.line_length));
        also(grant.cancel_requested, "cancel requested".into());
        also(grant.released.is_some(), format!("released {}", name(grant.released.as_ref())));
        if let Some(snapshot) = &grant.snapshot {
            also(snapshot.content.phase.is_some(), format!("phase {}", name(snapshot.content.phase.as_ref())));
            also(snapshot.state != StateKind::Active, snapshot.state.name().into());
            told.push_str(&self.tale.world.revision_note(&self.request.space, &grant.item, snapshot.revision));
        } else {
            assert_eq!(grant.expires_in, Span(0), "a live grant carries the item as it is now");
        }
        told
    }

    fn check_left(&self, expires_at: Time, left: Span) {
        assert_eq!(self.tale.world.now().until(expires_at), left, "what is left counts from this entry's now");
    }
}

/// An answer without its event repeats an earlier answer.
fn repeated(is_now: bool) -> String {
    if is_now { "" } else { "again " }.into()
}

/// The first and the last, if there are more than `max`.
pub(super) fn shortened(mut told: Vec<String>, max: usize) -> Vec<String> {
    if told.len() > max {
        let last = told.len() - 1;
        told.splice(1..last, [format!("... {} more ...", last - 1)]);
    }
    told
}

fn renewal(answer: &Renewal) -> String {
    let mut told =
        format!("renewed: {} until {}, renew after {}", answer.item, time(answer.expires_at), span(answer.renew_after));
    if answer.line_length > 0 {
        told.push_str(&format!(", {} in line", answer.line_length));
    }
    told.push_str(if answer.cancel_requested { ", cancel requested" } else { "" });
    told.push_str(if answer.drain { ", drain" } else { "" });
    told
}

fn renewal_of_all(answer: &RenewalOfAll) -> String {
    let mut told = format!("renewed all: {}", answer.renewed);
    if let (Some(left), Some(renew_after)) = (answer.expires_in, answer.renew_after) {
        told.push_str(&format!(", {} left, renew after {}", span(left), span(renew_after)));
    }
    for (what, items) in [("lost", &answer.lost), ("cancel requested", &answer.cancel_requested)] {
        if !items.is_empty() {
            told.push_str(&format!(", {what}: {}", list(items)));
        }
    }
    told.push_str(if answer.drain { ", drain" } else { "" });
    told
}

fn refusal(refusal: &Refusal) -> String {
    let code = refusal.code();
    match refusal {
        Refusal::Invalid { field, why } => format!("{code}: {field} {why}"),
        Refusal::Forbidden { needs } => format!("{code}, needs {}", format!("{needs:?}").to_lowercase()),
        Refusal::NotReady(NotReady { dependencies, not_before, retry_after }) => {
            let mut told = code.to_string();
            if *dependencies > 0 {
                told.push_str(&format!(", dependencies: {dependencies}"));
            }
            if let Some(date) = not_before {
                told.push_str(&format!(", not before {}", wall(*date)));
            }
            if let Some(after) = retry_after {
                told.push_str(&format!(", retry after {}", span(*after)));
            }
            told
        }
        Refusal::Reserved { retry_after }
        | Refusal::QueueFull { retry_after }
        | Refusal::RateLimited { retry_after } => {
            format!("{code}, retry after {}", span(*retry_after))
        }
        Refusal::AlreadyClaimed(conflict) => {
            format!("{code}, retry after {}{}", span(conflict.retry_after), holder_view(conflict.holder.as_ref()))
        }
        Refusal::LeaseLost { holder } => format!("{code}{}", holder_view(holder.as_ref())),
        Refusal::TooManyLeases { max } => format!("{code}, max {max}"),
        Refusal::LineTooLong { line_length } => format!("{code}, {line_length} in line"),
        Refusal::StaleWrite { revision: at, fields } => {
            let fields: Vec<_> = fields.iter().map(|field| field.name()).collect();
            format!("{code}, now {}, changed: {}", revision(*at), fields.join("+"))
        }
        Refusal::WrongState { state } => format!("{code}: {state}"),
        Refusal::SpaceFull { items_max, body_bytes_max } => {
            format!("{code}, {items_max} items, {body_bytes_max} bytes")
        }
        Refusal::TooManyDependents { item } => format!("{code}: {item}"),
        Refusal::RestoreRefused { why } => format!("{code}: {why}"),
        Refusal::NotFound
        | Refusal::RejectedByPolicy
        | Refusal::TerminalItem
        | Refusal::Blocked
        | Refusal::QueuePaused
        | Refusal::HeldByYourOtherSession
        | Refusal::WaitTimeout
        | Refusal::NotHolder
        | Refusal::StaleToken
        | Refusal::LeaseRequired
        | Refusal::AlreadyExists
        | Refusal::AllOrNone
        | Refusal::WorkerDraining
        | Refusal::RequestIdReused
        | Refusal::RequestForgotten
        | Refusal::NotActivated => code.to_string(),
    }
}

fn holder_view(view: Option<&HolderView>) -> String {
    let Some(view) = view else { return String::new() };
    let Some(named) = &view.named else { return format!(", held by {}", kind(view.kind)) };
    let mut told = format!(", held by {} until {}", holder(&named.holder), time(named.expires_at));
    for (what, words) in [("doing", &named.action), ("to the", &named.field)] {
        if let Some(words) = words {
            told.push_str(&format!(" {what} {words}"));
        }
    }
    told
}

pub(crate) fn event(event: &Event) -> String {
    let kind = event.what.kind();
    let item = item_of(event);
    let by = event.by.as_ref().map_or_else(|| "by time".to_owned(), |by| format!("by {}", by.actor));
    let lease = |of: &Holder, token: &lease::numbers::Token| format!("{kind}: {}'s {item}, token {token}", holder(of));
    let of_maybe = |of: &Option<Holder>, token: &Option<lease::numbers::Token>| match (of, token) {
        (Some(of), Some(token)) => lease(of, token),
        _ => format!("{kind}: {item}"),
    };
    match &event.what {
        What::Granted { holder: of, token, expires_at, from_line, was_assigned_to } => {
            let from = if *from_line { " from the line" } else { "" };
            let was = was_assigned_to.as_ref().map_or_else(String::new, |actor| format!(", was {actor}'s"));
            format!("granted{from}: {} holds {item}, token {token}, until {}{was}", holder(of), time(*expires_at))
        }
        What::Extended { holder, token, expires_at } => format!("{} until {}", lease(holder, token), time(*expires_at)),
        What::PickedUp { holder, token }
        | What::NotPickedUp { holder, token }
        | What::Released { holder, token }
        | What::TakenOver { holder, token }
        | What::Voided { holder, token } => lease(holder, token),
        What::Expired { holder, token, attempt } => {
            format!("{}{}", lease(holder, token), if *attempt { ", an attempt" } else { "" })
        }
        What::Revoked { holder, token, reason } => format!("{}, {by}: {reason}", of_maybe(holder, token)),
        What::Cancelled { reason, holder, token } => format!("{}, {by}: {reason}", of_maybe(holder, token)),
        What::CancelRequested { reason } => format!("{kind}: {item}, {by}: {reason}"),
        What::Reserved { holder, token, until } => format!("{} until {}", lease(holder, token), time(*until)),
        What::ReservationEnded { actor } => format!("{kind}: {actor}'s {item}"),
        What::Assigned { actor } | What::Unassigned { actor } => format!("{kind}: {item}, {actor}, {by}"),
        What::Joined { holder: of, place } => format!("{kind}: {} at place {place}", holder(of)),
        What::LeftLine { holder: of, answer } => {
            let answer = answer.map_or_else(String::new, |code| format!(" ({code})"));
            format!("{kind}: {}{answer}", holder(of))
        }
        What::Reordered { first } => format!("{kind}: {} first", list(first)),
        What::Updated { fields } => {
            let fields: Vec<_> = fields.iter().map(|field| field.name()).collect();
            format!("{kind}: {item} {} {}", revision(event.number), fields.join("+"))
        }
        What::ActivityRecorded { kind: of, note } => format!("{kind}: {item} {of:?}: {note}"),
        What::AwaitedInput { token } | What::Resumed { token } => format!("{kind}: {item}, token {token}"),
        What::HandedOn { holder, token, phase } => format!("{} to {phase}", lease(holder, token)),
        What::Completed { holder, token, late } => {
            format!("{}{}", lease(holder, token), if *late { ", late" } else { "" })
        }
        What::Failed { holder, token, is_final, late } => {
            let is_final = if *is_final { ", finally" } else { "" };
            format!("{}{is_final}{}", lease(holder, token), if *late { ", late" } else { "" })
        }
        What::Blocked { by: BlockedBy::Attempts } => format!("{kind}: {item}, no attempts left"),
        What::Blocked { by: BlockedBy::Dependency } => format!("{kind}: {item}, a dependency ended"),
        What::Purged { state } => format!("{kind}: {item}, {}", state.name()),
        What::Mirrored { of, transition, phase } => {
            format!("{kind}: {item} follows {of} ({}) to {phase}", transition_name(*transition))
        }
        What::MirrorSkipped { transition, why } => {
            let why = match why {
                MirrorSkip::Held => "held",
                MirrorSkip::Terminal => "terminal",
                MirrorSkip::Missing => "missing",
                MirrorSkip::NoSuchPhase => "no such phase",
            };
            format!("{kind}: {item} ({}), target is {why}", transition_name(*transition))
        }
        What::PolicyChanged { version } | What::SpacePolicyChanged { version } => format!("{kind}: version {version}"),
        What::WorkerRegistered { worker }
        | What::WorkerDrained { worker }
        | What::WorkerGone { worker }
        | What::WorkerRemoved { worker } => format!("{kind}: {}", holder(worker)),
        What::EpochBegun { epoch } => format!("{kind}: {epoch} in {}, event {}", event.space, event.number),
        What::Activated => format!("{kind}: {}", event.space),
        What::Paused | What::Unpaused | What::DrainStarted | What::Drained => {
            format!("{kind}: {}", name(event.queue.as_ref()))
        }
        What::Created | What::Queued | What::Reopened | What::Retried => format!("{kind}: {item}"),
    }
}

fn item_of(event: &Event) -> String {
    name(event.item.as_ref())
}

fn name(name: Option<&impl ToString>) -> String {
    name.map_or_else(String::new, ToString::to_string)
}

fn list(names: &[impl ToString]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
}

fn holder(holder: &Holder) -> String {
    match &holder.session {
        Some(session) => format!("{}/{session}", holder.actor),
        None => holder.actor.to_string(),
    }
}

fn kind(kind: ActorKind) -> &'static str {
    match kind {
        ActorKind::User => "a user",
        ActorKind::Agent => "an agent",
        ActorKind::System => "a system",
    }
}

fn empty(why: EmptyReason) -> &'static str {
    match why {
        EmptyReason::NothingQueued => "nothing queued",
        EmptyReason::NothingEligible => "nothing eligible",
        EmptyReason::ExaminedEnough => "examined enough",
        EmptyReason::QueuePaused => "queue paused",
        EmptyReason::QueueFull => "queue full",
        EmptyReason::TooManyLeases => "too many leases",
        EmptyReason::WorkerDraining => "worker draining",
    }
}

fn flow_name(flow: Flow) -> &'static str {
    match flow {
        Flow::Open => "open",
        Flow::Paused => "paused",
        Flow::Draining => "draining",
        Flow::Drained => "drained",
    }
}

fn transition_name(transition: Transition) -> &'static str {
    match transition {
        Transition::Claimed => "claimed",
        Transition::Completed => "completed",
        Transition::AwaitingInput => "awaiting_input",
        Transition::AttemptsExhausted => "attempts_exhausted",
    }
}

pub(crate) fn revision(number: EventNumber) -> String {
    if number.epoch.0 == 0 { format!("r{}", number.seq) } else { format!("r{number}") }
}

fn time(time: Time) -> String {
    span(Span(time.0))
}

/// `90s`, `10m`, `2h`, `7d`: the largest unit that is exact from two minutes on.
fn span(span: Span) -> String {
    let Span(ms) = span;
    match ms {
        _ if ms % 1_000 != 0 => format!("{ms}ms"),
        _ if ms >= 86_400_000 && ms % 86_400_000 == 0 => format!("{}d", ms / 86_400_000),
        _ if ms >= 3_600_000 && ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
        _ if ms >= 120_000 && ms % 60_000 == 0 => format!("{}m", ms / 60_000),
        _ => format!("{}s", ms / 1_000),
    }
}

fn wall(wall: Wall) -> String {
    let ms = wall.0.checked_sub(MIDNIGHT).expect("scripts play from 2026-03-01 on");
    let clock = format!("{:02}:{:02}", ms / 3_600_000 % 24, ms / 60_000 % 60);
    if ms < 86_400_000 { clock } else { format!("day {} {clock}", ms / 86_400_000) }
}
