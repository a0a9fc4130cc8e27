//! Claims as single requests: one item, many at once, or the next of a queue. For a lease that renews itself, see
//! [`Lease`](crate::Lease).

use crate::call::Call;
use crate::path::{Path, Query};
use crate::{Client, Consistency};
use api::claim::{Claim, Claimed, Claims, ClaimsAnswered, Dispatched, Next, OnConflict};
use api::hold::{Reorder, Reordered, Withdrawn};
use api::item::ItemPage;
use api::words::{Order, RunsIn};
use hyper::Method;
use lease::names::{ActorId, ItemId, Label, Phase, QueueName};
use std::time::Duration;

/// What `peek` looks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeekQuery {
    /// By default 1, at most 100.
    pub count: Option<u32>,
    pub order: Option<Order>,
    pub labels: Vec<Label>,
    /// The capabilities of the caller. By default those that its worker is registered with.
    pub capabilities: Option<Vec<Label>>,
    pub phase: Option<Phase>,
    pub mode: Option<RunsIn>,
    pub parent: Option<ItemId>,
    pub ancestor: Option<ItemId>,
    pub priority_min: Option<u8>,
    pub priority_max: Option<u8>,
    pub consistency: Consistency,
}

impl Client {
    /// Sends one claim. With `on_conflict: wait` the answer may be a place in line: the same call with the same
    /// [`key`](Call::key) keeps the place and continues to wait. A refusal is returned as an error, never as `Refused`.
    pub fn request_claim(&self, id: &ItemId, claim: &Claim) -> Call<Claimed> {
        let waits = match claim.on_conflict {
            OnConflict::Fail => Duration::ZERO,
            OnConflict::Wait => claim.poll_ms.map_or(crate::items::POLL_MAX, Duration::from_millis),
        };
        Call::post(self, Path::item(id).verb("claim"), claim).set(|spec| spec.waits = waits)
    }

    /// Claims many items. The answer has one entry per claim, in order.
    pub fn claim_many(&self, claims: &Claims) -> Call<ClaimsAnswered> {
        Call::post(self, Path::new("/v1/claims"), claims)
    }

    /// Finds and grants the next items of a queue in one atomic step.
    pub fn next(&self, queue: &QueueName, next: &Next) -> Call<Dispatched> {
        let waits = Duration::from_millis(next.wait_ms.unwrap_or(0));
        Call::post(self, Path::queue(queue).verb("next"), next).set(|spec| spec.waits = waits)
    }

    /// The items that `next` would grant.
    pub fn peek(&self, queue: &QueueName, query: &PeekQuery) -> Call<ItemPage> {
        let said = Query::default()
            .say("count", query.count)
            .word("order", query.order)
            .say("label", &query.labels)
            .say("capability", query.capabilities.iter().flatten())
            .say("phase", &query.phase)
            .word("mode", query.mode)
            .say("parent", &query.parent)
            .say("ancestor", &query.ancestor)
            .say("priority_min", query.priority_min)
            .say("priority_max", query.priority_max);
        Call::get(self, Path::queue(queue).verb("peek").with(query.consistency.said(said)))
    }

    /// Leaves the wait line.
    pub fn withdraw(&self, id: &ItemId) -> Call<Withdrawn> {
        Call::bare(self, Method::POST, Path::item(id).verb("withdraw"))
    }

    /// Moves these actors to the front of the wait line, in this order. For operators.
    pub fn reorder(&self, id: &ItemId, actors: &[ActorId]) -> Call<Reordered> {
        Call::post(self, Path::item(id).verb("reorder"), &Reorder { actors: actors.to_vec() })
    }
}
