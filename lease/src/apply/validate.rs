//! Checks of a request that do not depend on the state. The edge calls the same function before the request enters the
//! log.

use crate::bounds::{
    BATCH, BODY_BYTES, DEPENDENCIES, LABELS, LINE_MAX, NEXT_COUNT, NOTE_BYTES, PRIORITY_MAX, RIGHTS, SPAN_MAX,
    TITLE_BYTES, TOKEN_LIMIT, WORKER_ALIVE_MAX,
};
use crate::command::{Claim, ClaimMany, Command, Next, OnConflict, Registration, Request, Write};
use crate::item::{ActivityKind, Edit, NewItem, Part};
use crate::names::{ItemId, Label};
use crate::numbers::{Span, Token};
use crate::policy::Setting;
use crate::refusal::Refusal;
use std::collections::{BTreeMap, BTreeSet};

type Checked = Result<(), Refusal>;

/// Checks that the request is well-formed. The refusal names the invalid field.
///
/// # Errors
/// [`Refusal::Invalid`].
pub fn validate(request: &Request) -> Checked {
    at_most("rights", request.caller.rights.len(), RIGHTS)?;
    command(&request.command)
}

fn command(command: &Command) -> Checked {
    match command {
        Command::Create(item) => new_item(item),
        Command::CreateMany(items) => create_many(items),
        Command::Claim(claim) => self::claim(claim),
        Command::ClaimMany(many) => claim_many(many),
        Command::Next(next) => self::next(next),
        Command::Renew(renew) => token("token", Some(renew.token)).and(span("lease_for", renew.lease_for)),
        Command::RenewAll(all) => {
            at_most("expected", all.expected.len(), BATCH)?;
            span("lease_for", all.lease_for)
        }
        Command::Extend(extend) => token("token", Some(extend.token)).and(span("for", Some(extend.by))),
        Command::Release(release) => token("token", release.token),
        Command::Reserve(reserve) => token("token", Some(reserve.token)).and(span("for", reserve.span)),
        Command::Reorder { actors, .. } => {
            at_most("actors", actors.len(), BATCH)?;
            unique("actors", actors)
        }
        Command::Revoke(revoke) => text("reason", &revoke.reason, NOTE_BYTES),
        Command::Update(update) => {
            write(&update.write)?;
            at_most("edits", update.edits.len(), BATCH)?;
            if update.edits.is_empty() && !update.start {
                return Err(Refusal::invalid("edits", "must not be empty"));
            }
            if update.start && update.write.token.is_some() {
                return Err(Refusal::invalid("token", "must not be set: the claim mints a new token"));
            }
            let fields: Vec<_> = update.edits.iter().map(Edit::field).collect();
            unique("edits", &fields)?;
            update.edits.iter().try_for_each(edit)
        }
        Command::Activity(activity) => {
            write(&activity.write)?;
            match activity.kind {
                ActivityKind::AwaitingInput | ActivityKind::Completed | ActivityKind::Failed => {
                    Err(Refusal::invalid("kind", "must be recorded with the command of that name"))
                }
                ActivityKind::PlanUpdated | ActivityKind::ExternalUrlUpdated => {
                    text("note", &activity.note, BODY_BYTES)
                }
                ActivityKind::Progress | ActivityKind::PolicyDecision => text("note", &activity.note, NOTE_BYTES),
            }
        }
        Command::AwaitInput(wait) => write(&wait.write).and(text("question", &wait.question, NOTE_BYTES)),
        Command::Resume(resume) => write(resume),
        Command::HandOn(hand_on) => write(&hand_on.write),
        Command::Complete(complete) => {
            write(&complete.write)?;
            text("result", complete.result.as_deref().unwrap_or(""), BODY_BYTES)
        }
        Command::Fail(fail) => {
            write(&fail.write)?;
            text("error", fail.error.as_deref().unwrap_or(""), BODY_BYTES)
        }
        Command::Cancel(cancel) => text("reason", &cancel.reason, NOTE_BYTES),
        Command::SetPolicy(set) => {
            at_most("settings", set.settings.len(), BATCH)?;
            set.settings.iter().try_for_each(setting)
        }
        Command::RegisterWorker(registration) => self::registration(registration),
        Command::BeginEpoch { token_floor } | Command::BeginEpochAcceptingClock { token_floor } => {
            token("token_floor", *token_floor)
        }
        Command::Withdraw { .. }
        | Command::Assign { .. }
        | Command::Unassign { .. }
        | Command::Reopen { .. }
        | Command::Retry { .. }
        | Command::Pause { .. }
        | Command::Unpause { .. }
        | Command::Drain { .. }
        | Command::SetSpacePolicy(_)
        | Command::DrainWorker { .. }
        | Command::RemoveWorker { .. }
        | Command::Activate
        | Command::RaiseRules { .. } => Ok(()),
    }
}

fn new_item(item: &NewItem) -> Checked {
    text("title", &item.title, TITLE_BYTES)?;
    priority("priority", Some(item.priority))?;
    labels("labels", &item.labels)?;
    labels("needs", &item.needs)?;
    at_most("depends_on", item.depends_on.len(), DEPENDENCIES)?;
    unique("depends_on", &item.depends_on)?;
    if item.depends_on.contains(&item.id) {
        return Err(Refusal::invalid("depends_on", "must not contain the item itself"));
    }
    if item.parent.as_ref() == Some(&item.id) {
        return Err(Refusal::invalid("parent", "is the item itself or one of its descendants"));
    }
    if item.target.as_ref() == Some(&item.id) {
        return Err(Refusal::invalid("target", "is the item itself"));
    }
    span("delay", item.delay)?;
    let mut parts: Vec<Part> = item.body.iter().map(|(part, _)| *part).collect();
    parts.sort_unstable();
    unique("body", &parts)?;
    if let Some((part, _)) = item.body.iter().find(|(_, text)| text.is_empty()) {
        return Err(Refusal::invalid(format!("body.{}", part.name()), "must not be empty; omit it"));
    }
    at_most("body", item.body.iter().map(|(_, text)| text.len()).sum(), BODY_BYTES)
}

fn create_many(items: &[NewItem]) -> Checked {
    at_least_one("items", items.len())?;
    at_most("items", items.len(), BATCH)?;
    for (index, item) in items.iter().enumerate() {
        new_item(item).map_err(|refusal| within(&format!("items[{index}]"), refusal))?;
    }
    no_cycle(items)
}

/// Checks that the items of a batch do not depend on one another in a cycle.
fn no_cycle(items: &[NewItem]) -> Checked {
    let places: BTreeMap<&ItemId, usize> = items.iter().zip(0..).map(|(item, place)| (&item.id, place)).collect();
    let mut waits: Vec<usize> = vec![0; items.len()];
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
    for (place, item) in items.iter().enumerate() {
        for dependency in item.depends_on.iter().filter_map(|id| places.get(id)) {
            waits[place] += 1;
            dependents[*dependency].push(place);
        }
    }
    let mut free: Vec<usize> = (0..items.len()).filter(|place| waits[*place] == 0).collect();
    while let Some(place) = free.pop() {
        for dependent in &dependents[place] {
            waits[*dependent] -= 1;
            if waits[*dependent] == 0 {
                free.push(*dependent);
            }
        }
    }
    match waits.iter().position(|waits| *waits > 0) {
        None => Ok(()),
        Some(index) => Err(Refusal::invalid(format!("items[{index}].depends_on"), "has a cycle within this batch")),
    }
}

fn claim(claim: &Claim) -> Checked {
    span("lease_for", claim.lease_for)?;
    text("action", claim.action.as_deref().unwrap_or(""), NOTE_BYTES)?;
    text("field", claim.field.as_deref().unwrap_or(""), NOTE_BYTES)?;
    if let OnConflict::Wait { wait_for, line_max } = claim.on_conflict {
        span("wait_for", wait_for)?;
        if line_max.is_some_and(|max| max > LINE_MAX) {
            return Err(Refusal::invalid("line_max", format!("must not exceed {LINE_MAX}")));
        }
    }
    Ok(())
}

fn claim_many(many: &ClaimMany) -> Checked {
    at_least_one("claims", many.claims.len() + many.releases.len())?;
    at_most("claims", many.claims.len() + many.releases.len(), BATCH)?;
    for (index, claim) in many.claims.iter().enumerate() {
        let here = |refusal| within(&format!("claims[{index}]"), refusal);
        self::claim(claim).map_err(here)?;
        if many.all_or_none && claim.on_conflict != OnConflict::Fail {
            return Err(here(Refusal::invalid("on_conflict", "must not be wait with all_or_none")));
        }
        if many.releases.iter().any(|release| release.item == claim.item) {
            return Err(here(Refusal::invalid("item", "must not be claimed and released in one batch")));
        }
    }
    for (index, release) in many.releases.iter().enumerate() {
        token("token", release.token).map_err(|refusal| within(&format!("releases[{index}]"), refusal))?;
    }
    Ok(())
}

fn next(next: &Next) -> Checked {
    if next.count == 0 || next.count > NEXT_COUNT {
        return Err(Refusal::invalid("count", format!("must be 1 to {NEXT_COUNT}")));
    }
    span("lease_for", next.lease_for)?;
    text("action", next.action.as_deref().unwrap_or(""), NOTE_BYTES)?;
    let filter = &next.filter;
    labels("labels", &filter.labels)?;
    labels("capabilities", filter.capabilities.as_deref().unwrap_or_default())?;
    priority("priority_min", filter.priority_min)?;
    priority("priority_max", filter.priority_max)
}

fn edit(edit: &Edit) -> Checked {
    match edit {
        Edit::Title(title) => text("title", title, TITLE_BYTES),
        Edit::Priority(value) => priority("priority", Some(*value)),
        Edit::Labels(list) => labels("labels", list),
        Edit::Needs(list) => labels("needs", list),
        Edit::Body(part, words) => text(part.name(), words, BODY_BYTES),
        Edit::Parent(_) | Edit::Target(_) | Edit::NotBefore(_) | Edit::Mode(_) | Edit::Phase(_) => Ok(()),
    }
}

fn write(write: &Write) -> Checked {
    token("token", write.token)
}

fn registration(registration: &Registration) -> Checked {
    labels("capabilities", &registration.capabilities)?;
    labels("labels", &registration.labels)?;
    span("alive_for", Some(registration.alive_for))?;
    if registration.alive_for > WORKER_ALIVE_MAX {
        return Err(Refusal::invalid("alive_for", "must not exceed one day"));
    }
    Ok(())
}

/// Whether a setting is valid by itself. [`crate::policy::Policy::with`] checks whether settings fit one another.
fn setting(setting: &Setting) -> Checked {
    match setting {
        Setting::LeaseFor(length) => span("lease_for", Some(*length)),
        Setting::LeaseMax(length) => span("lease_max", Some(*length)),
        Setting::LeaseMin(length) => span("lease_min", Some(*length)),
        Setting::Pickup(length) => span("pickup", Some(*length)),
        Setting::Retention(length) => span("retention", Some(*length)),
        Setting::ReservationMax(length) => span("reservation_max", Some(*length)),
        Setting::LockDelay(length) => span_or_zero("lock_delay", *length),
        Setting::Backoff(backoff) => {
            span_or_zero("backoff.first", backoff.first)?;
            span_or_zero("backoff.max", backoff.max)
        }
        _ => Ok(()),
    }
}

fn span(field: &str, span: Option<Span>) -> Checked {
    match span {
        None => Ok(()),
        Some(Span(0)) => Err(Refusal::invalid(field, "must be more than zero")),
        Some(span) => span_or_zero(field, span),
    }
}

fn span_or_zero(field: &str, span: Span) -> Checked {
    if span > SPAN_MAX {
        return Err(Refusal::invalid(field, "must not exceed ten years; the unit is milliseconds"));
    }
    Ok(())
}

fn token(field: &str, token: Option<Token>) -> Checked {
    match token {
        Some(token) if token.0 == 0 || token.0 >= TOKEN_LIMIT => Err(Refusal::invalid(field, "is not a valid token")),
        _ => Ok(()),
    }
}

fn priority(field: &str, priority: Option<u8>) -> Checked {
    match priority {
        Some(value) if value > PRIORITY_MAX => Err(Refusal::invalid(field, format!("must be 0 to {PRIORITY_MAX}"))),
        _ => Ok(()),
    }
}

fn labels(field: &str, labels: &[Label]) -> Checked {
    at_most(field, labels.len(), LABELS)?;
    unique(field, labels)
}

fn text(field: &str, text: &str, max: usize) -> Checked {
    if text.len() > max {
        return Err(Refusal::invalid(field, format!("has {} bytes, at most {max} are allowed", text.len())));
    }
    Ok(())
}

fn at_most(field: &str, count: usize, max: usize) -> Checked {
    if count > max { Err(Refusal::invalid(field, format!("{count} exceeds the limit of {max}"))) } else { Ok(()) }
}

fn at_least_one(field: &str, count: usize) -> Checked {
    if count == 0 { Err(Refusal::invalid(field, "must not be empty")) } else { Ok(()) }
}

fn unique<T: Ord>(field: &str, values: &[T]) -> Checked {
    let set: BTreeSet<&T> = values.iter().collect();
    if set.len() == values.len() { Ok(()) } else { Err(Refusal::invalid(field, "has a duplicate entry")) }
}

fn within(place: &str, refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Invalid { field, why } => Refusal::Invalid { field: format!("{place}.{field}"), why },
        other => other,
    }
}
