//! Items: creating, listing, showing and changing them.

use crate::edge::answer::{Failure, Reply, Viewed};
use crate::edge::call::{CALL_WITHIN, Call, failed_disk};
use crate::edge::cursor::Position;
use crate::edge::extract::{ActorPath, Body, ItemPath, Query};
use crate::edge::gate::{Class, Parking};
use crate::edge::rest::past_holder;
use crate::edge::survey::HEAVY;
use crate::peers::tokio_node::TokioNode;
use crate::replica::hub::Topic;
use api::event::Details;
use api::item::{
    Activities, Activity, Carrying, ClaimSummary, Created, HeldAt, Item, ItemPage, ItemsCreated, NewItem, NewItems,
};
use api::limits::{PAGE, PAGE_MAX, POLL_MAX};
use api::line::Line;
use api::query::{CarryingQuery, Consistency, ConsistencyQuery, HeldAtQuery, IfClaimed, ItemQuery, ItemsQuery};
use api::words::ItemState;
use api::write::{Update, Updated};
use api::{Code, Problem};
use axum::Json;
use lease::names::{ActorId, ItemId};
use lease::numbers::Time;
use lease::past_holder::PastHolder;
use lease::views::{self, IfClaimed as CoreIfClaimed};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Create an item
///
/// Creating an item does not claim it. If the id exists with the same content, the response is that item with
/// `created: false`.
#[utoipa::path(post, path = "/v1/items", operation_id = "create", tag = "items",
    request_body = NewItem, responses((status = 200, body = Created, description = "The item exists")))]
pub async fn create(call: Call, Body(item): Body<NewItem>) -> Reply<Created> {
    call.reply(item.into_command(call.actor())).await
}

/// Create many items
///
/// Returns one outcome per item, in order. The items may depend on one another.
#[utoipa::path(post, path = "/v1/items/batch", operation_id = "create_many", tag = "items",
    request_body = NewItems,
    responses((status = 200, body = ItemsCreated, description = "One outcome per item, in order")))]
pub async fn create_many(call: Call, Body(items): Body<NewItems>) -> Reply<ItemsCreated> {
    call.reply(items.into_command(call.actor())).await
}

/// List and search items
///
/// Lists live items in order of creation; with a terminal `state`, lists the kept items of that state in order of id. A
/// page may have fewer items than `limit`, even none, and still have a `next_cursor`.
#[utoipa::path(get, path = "/v1/items", operation_id = "list_items", tag = "items",
    params(ItemsQuery), responses((status = 200, body = ItemPage, description = "A page of items")))]
pub async fn list(call: Call, Query(query): Query<ItemsQuery>) -> Result<Viewed<ItemPage>, Failure> {
    let limit = limit(query.limit)?;
    let wanted = views::Query {
        queue: query.queue,
        state: query.state.map(Into::into),
        labels: query.labels,
        parent: query.parent,
        claim: query.claim.map(Into::into),
        assignee: query.assignee,
        holder: query.holder,
        session: query.session,
        text: query.text,
        after: None,
        limit,
    };
    let open = |cursor: String| call.edge.cursors.open(&call.head.space, &cursor).ok_or_else(no_cursor);
    let position = query.cursor.map(open).transpose()?;
    if query.state.is_some_and(is_terminal) {
        let after = match position {
            None => None,
            Some(Position::Ended(id)) => Some(id),
            Some(Position::Live(_)) => return Err(no_cursor()),
        };
        return list_terminal(&call, wanted, after, query.consistency).await;
    }
    let after = match position {
        None => None,
        Some(Position::Live(no)) => Some(no),
        Some(Position::Ended(_)) => return Err(no_cursor()),
    };
    let wanted = views::Query { after, ..wanted };
    let weight = if wanted.is_selective() { HEAVY } else { 1 };
    let (caller, space, cursors) = (call.caller.clone(), call.head.space.clone(), call.edge.cursors.clone());
    let (mut wanted, mut items, mut steps) = (wanted, Vec::new(), 0);
    call.survey(query.consistency, weight, move |state, archive, calendar| {
        let page = state.list(archive, &caller, &space, &wanted);
        steps += page.steps;
        wanted.limit -= page.items.len();
        wanted.after = page.next;
        items.extend(page.items.into_iter().map(|view| Item::new(view, None, calendar)));
        if page.next.is_some() && wanted.limit > 0 && steps < LIST_STEPS {
            return Ok(ControlFlow::Continue(()));
        }
        let next_cursor = page.next.map(|next| cursors.seal(&space, &Position::Live(next)));
        Ok(ControlFlow::Break(ItemPage { items: std::mem::take(&mut items), next_cursor }))
    })
    .await
}

/// Items and queues that one list call examines before it returns a cursor.
const LIST_STEPS: usize = 10_000;

fn is_terminal(state: ItemState) -> bool {
    matches!(state, ItemState::Complete | ItemState::Error | ItemState::Cancelled)
}

/// Reads terminal items from disk, a bounded number per call.
async fn list_terminal(
    call: &Call,
    wanted: views::Query,
    after: Option<ItemId>,
    consistency: Consistency,
) -> Result<Viewed<ItemPage>, Failure> {
    let (space, caller) = (call.head.space.clone(), call.caller.clone());
    let seen = call.view(consistency, |state, _, calendar| Ok((state.space_no(&space), calendar))).await?;
    let Viewed { value: (number, calendar), age, .. } = seen;
    let sees_any = match &wanted.queue {
        Some(queue) => caller.can_see(queue),
        None => !caller.rights.is_empty(),
    };
    // A caller that may see nothing causes no reads and does not learn how much there is.
    let Some(number) = number.filter(|_| sees_any) else {
        return Ok(Viewed { value: ItemPage { items: Vec::new(), next_cursor: None }, age, revision: None });
    };
    let reading = move |node: &TokioNode| {
        let found = node.store().archived(number, after.as_ref(), TERMINAL_EXAMINED).map_err(failed_disk)?;
        let is_all = found.len() < TERMINAL_EXAMINED;
        let (mut items, mut last, mut is_full) = (Vec::new(), None, false);
        for part in found.chunks(TERMINAL_AT_ONCE) {
            let look = |state: &lease::State, archive: &dyn lease::Archive| {
                for (id, archived) in part {
                    is_full = items.len() == wanted.limit;
                    if is_full {
                        break;
                    }
                    let view = state.view_archived(archive, &caller, id, archived);
                    let view = view.filter(|view| wanted.matches(view));
                    items.extend(view.map(|view| Item::new(view, None, calendar)));
                    last = Some(id.clone());
                }
            };
            node.store().read(look).map_err(failed_disk)?;
        }
        Ok((items, last.filter(|_| is_full || !is_all)))
    };
    let (items, last) = call.read_apart(HEAVY, reading).await?;
    let next_cursor = last.map(|id| call.edge.cursors.seal(&space, &Position::Ended(id)));
    Ok(Viewed { value: ItemPage { items, next_cursor }, age, revision: None })
}

/// Terminal items that one call examines before it returns a cursor.
const TERMINAL_EXAMINED: usize = 2_000;
/// Terminal items that are examined before the state is unlocked for others.
const TERMINAL_AT_ONCE: usize = 64;

pub(super) fn limit(asked: Option<usize>) -> Result<usize, Failure> {
    match asked {
        Some(limit) if limit == 0 || limit > PAGE_MAX => {
            Err(Problem::invalid("limit", format!("must be 1 to {PAGE_MAX}")).into())
        }
        asked => Ok(asked.unwrap_or(PAGE)),
    }
}

pub(super) fn no_cursor() -> Failure {
    Problem::invalid("cursor", "is not a cursor from an earlier response").into()
}

/// Show an item
///
/// A read never waits for the holder, except with `if_claimed=wait`.
#[utoipa::path(get, path = "/v1/items/{item}", operation_id = "show_item", tag = "items",
    params(("item" = api::names::ItemId, Path), ItemQuery),
    responses((status = 200, body = Item, description = "The item")))]
pub async fn show(call: Call, ItemPath(id): ItemPath, Query(query): Query<ItemQuery>) -> Result<Viewed<Item>, Failure> {
    let wait = poll("wait_ms", query.wait_ms)?;
    if query.wait_ms.is_some() && query.if_claimed != IfClaimed::Wait {
        return Err(Problem::invalid("wait_ms", "is valid only with if_claimed=wait").into());
    }
    let if_claimed = if query.if_claimed == IfClaimed::Return { CoreIfClaimed::Return } else { CoreIfClaimed::Fail };
    let by = Instant::now() + wait;
    loop {
        let waiter = call.edge.node.hub().wait_for(Topic::Item(call.head.space.clone(), id.clone()));
        let seen = call.view(query.consistency, |state, archive, calendar| {
            let view = state.view_item(archive, &call.caller, &call.head.space, &id, if_claimed)?;
            Ok((view, calendar))
        });
        let left = by.saturating_duration_since(Instant::now());
        match seen.await {
            Ok(Viewed { value: (view, calendar), age, .. }) => {
                let body = if query.body.unwrap_or(true) { call.body(view.no, &view.content)? } else { None };
                // The body comes from disk and may be newer than the view: then read again.
                if body.is_some() && call.revision_of(&id)? != Some(view.revision) {
                    continue;
                }
                let revision = Some(view.revision.to_string());
                return Ok(Viewed { value: Item::new(view, body, calendar), age, revision });
            }
            Err(Failure(problem))
                if problem.code == Code::AlreadyClaimed
                    && query.if_claimed == IfClaimed::Wait
                    && !left.is_zero()
                    && !call.is_stopping() =>
            {
                let _place = call.park(Parking::Waiter)?;
                let _ = call.woken(waiter, left).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// The long poll that a caller asks for.
pub(super) fn poll(field: &str, asked: Option<u64>) -> Result<Duration, Failure> {
    let asked = asked.map_or(POLL_MAX, Duration::from_millis);
    if asked > POLL_MAX {
        let why = format!("must be at most {}: repeat the call to wait longer", POLL_MAX.as_millis());
        return Err(Problem::invalid(field, why).into());
    }
    Ok(asked)
}

/// Change an item
///
/// The holder sends its fencing token. While nobody holds the item, send `read_at` or If-Match instead. `start: true`
/// claims the item and sets it to in-progress.
#[utoipa::path(patch, path = "/v1/items/{item}", operation_id = "update", tag = "writing",
    params(("item" = api::names::ItemId, Path),
        ("If-Match" = Option<String>, Header, description = "The ETag of the item as it was read, same as `read_at`.")),
    request_body = Update, responses((status = 200, body = Updated, description = "The new revision of the item")))]
pub async fn update(call: Call, ItemPath(id): ItemPath, Body(mut update): Body<Update>) -> Reply<Updated> {
    update.read_at = call.read_at(update.read_at)?;
    call.reply(update.into_command(id, call.actor())?).await
}

/// Show the wait line of an item
#[utoipa::path(get, path = "/v1/items/{item}/line", operation_id = "line", tag = "claiming",
    params(("item" = api::names::ItemId, Path), ConsistencyQuery),
    responses((status = 200, body = Line, description = "The wait line")))]
pub async fn line(
    call: Call,
    ItemPath(id): ItemPath,
    Query(query): Query<ConsistencyQuery>,
) -> Result<Viewed<Line>, Failure> {
    call.view(query.consistency, |state, _, calendar| {
        Ok(Line::new(state.line(&call.caller, &call.head.space, &id)?, calendar))
    })
    .await
}

/// Count the claims on an item and its descendants
#[utoipa::path(get, path = "/v1/items/{item}/claims", operation_id = "claim_summary", tag = "claiming",
    params(("item" = api::names::ItemId, Path), ConsistencyQuery),
    responses((status = 200, body = ClaimSummary, description = "The counts")))]
pub async fn claim_summary(
    call: Call,
    ItemPath(id): ItemPath,
    Query(query): Query<ConsistencyQuery>,
) -> Result<Viewed<ClaimSummary>, Failure> {
    let (caller, space) = (call.caller.clone(), call.head.space.clone());
    let mut walk = None;
    call.survey(query.consistency, HEAVY, move |state, _, _| {
        let walk = match &mut walk {
            Some(walk) => walk,
            None => walk.insert(state.begin_claim_walk(&caller, &space, &id)?),
        };
        Ok(match state.walk_claims(&caller, walk) {
            Some(summary) => ControlFlow::Break(summary.into()),
            None => ControlFlow::Continue(()),
        })
    })
    .await
}

/// List the caller's own items
///
/// Items that are assigned to it, leased by it or reserved for it.
#[utoipa::path(get, path = "/v1/carrying", operation_id = "carrying", tag = "items",
    params(CarryingQuery), responses((status = 200, body = Carrying, description = "The caller's items")))]
pub async fn carrying(call: Call, Query(query): Query<CarryingQuery>) -> Result<Viewed<Carrying>, Failure> {
    let actor = call.actor().clone();
    carried_by(call, actor, query).await
}

/// List the items of an actor
///
/// Items that are assigned to it, leased by it or reserved for it. Of another actor, only the items in queues whose
/// holders the caller may see: as their operator, or because the queue discloses them.
#[utoipa::path(get, path = "/v1/actors/{actor}/carrying", operation_id = "carrying_of", tag = "items",
    params(("actor" = api::names::ActorId, Path), CarryingQuery),
    responses((status = 200, body = Carrying, description = "The actor's items")))]
pub async fn carrying_of(
    call: Call,
    ActorPath(actor): ActorPath,
    Query(query): Query<CarryingQuery>,
) -> Result<Viewed<Carrying>, Failure> {
    carried_by(call, actor, query).await
}

async fn carried_by(call: Call, actor: ActorId, query: CarryingQuery) -> Result<Viewed<Carrying>, Failure> {
    let limit = limit(query.limit)?;
    let (caller, space) = (call.caller.clone(), call.head.space.clone());
    call.survey(query.consistency, 1, move |state, archive, calendar| {
        Ok(ControlFlow::Break(Carrying::new(state.carrying(archive, &caller, &space, &actor, limit), calendar)))
    })
    .await
}

/// List the last activities of an item
///
/// At most 1000 activities, oldest first.
#[utoipa::path(get, path = "/v1/items/{item}/activities", operation_id = "activities", tag = "writing",
    params(("item" = api::names::ItemId, Path), ConsistencyQuery),
    responses((status = 200, body = Activities, description = "The activities")))]
pub async fn activities(
    call: Call,
    ItemPath(id): ItemPath,
    Query(query): Query<ConsistencyQuery>,
) -> Result<Viewed<Activities>, Failure> {
    let seen = call.view(query.consistency, |state, archive, _| {
        let space = &call.head.space;
        let view = state.view_item(archive, &call.caller, space, &id, CoreIfClaimed::Return)?;
        Ok((view.no, state.sees_all_of(&call.caller, space, &view.queue)))
    });
    let Viewed { value: (no, sees_all), age, .. } = seen.await?;
    let show = |activity: lease::item::Activity| {
        let is_shown = sees_all || activity.by == *call.actor();
        Activity::new(activity, is_shown)
    };
    let activities = call.edge.node.store().activities(no).map_err(failed_disk)?.into_iter().map(show).collect();
    Ok(Viewed { value: Activities { activities }, age, revision: None })
}

/// Show who held an item at a given time
///
/// Reads the events that are kept. The holder's name is shown to callers that may see the holders of the queue, and to
/// the holder itself.
#[utoipa::path(get, path = "/v1/items/{item}/held_at", operation_id = "held_at", tag = "holding",
    params(("item" = api::names::ItemId, Path), HeldAtQuery),
    responses((status = 200, body = HeldAt, description = "The holder at that time, if any")))]
pub async fn held_at(call: Call, ItemPath(id): ItemPath, Query(query): Query<HeldAtQuery>) -> Reply<HeldAt> {
    let space_name = &call.head.space;
    let seen = call.view(Consistency::Linearizable, |state, archive, _| {
        state.view_item(archive, &call.caller, space_name, &id, CoreIfClaimed::Return)?;
        Ok((state.space_no(space_name), state.last_event(space_name)))
    });
    let Viewed { value: (space, last), .. } = seen.await?;
    let none = HeldAt { at_ms: query.at_ms, held: false, actor: None, session: None, token: None };
    let Some(space) = space else { return Ok(Json(none)) };
    // This may read all events that are kept. It counts as this many calls meanwhile, and its duration says nothing
    // about the speed of other calls.
    let _working = call.admit(Class::Bulk, HELD_AT_WEIGHT)?;
    let page_before = |before| {
        let node = call.edge.node.clone();
        let reading = tokio::task::spawn_blocking(move || node.store().events_before(space, before, past_holder::PAGE));
        async move { reading.await.map_err(|_| Failure::from(Code::Internal))?.map_err(failed_disk) }
    };
    match past_holder::find(page_before, last, &id, Time(query.at_ms), Instant::now() + CALL_WITHIN).await? {
        PastHolder::Nobody => Ok(Json(none)),
        PastHolder::Granted(event) => {
            let look =
                |state: &lease::State, archive: &dyn lease::Archive| state.view_event(archive, &call.caller, &event);
            let held = HeldAt { held: true, ..none.clone() };
            Ok(Json(match call.edge.node.store().read(look).map_err(failed_disk)? {
                // The caller could not see the item at that time, so the response says that nobody held it.
                None => none,
                Some(view) => view.what.map_or(held.clone(), |what| {
                    let Details { holder, token, .. } = what.into();
                    let (actor, session) = holder.map_or((None, None), |who| (Some(who.actor), who.session));
                    HeldAt { actor, session, token, ..held }
                }),
            }))
        }
        PastHolder::TooOld => Err(Code::PositionTooOld.into()),
    }
}

/// Weight of a search for a past holder, in ordinary calls.
const HELD_AT_WEIGHT: u32 = 16;
