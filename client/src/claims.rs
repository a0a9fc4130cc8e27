//! Claims as single requests: one item, many at once, or the next of a queue. For a lease that renews itself, see
//! [`Lease`](crate::Lease).

use crate::Client;
use crate::call::Call;
use crate::path::Path;
use api::claim::{Claim, Claimed, Claims, ClaimsAnswered, Dispatched, Next, OnConflict};
use api::hold::{Reorder, Reordered, Withdrawn};
use api::item::ItemPage;
use api::limits::POLL_MAX;
use api::query::PeekQuery;
use hyper::Method;
use lease::names::{ActorId, ItemId, QueueName};
use std::time::Duration;

impl Client {
    /// Sends one claim. With `on_conflict: wait` the answer may be a place in line: the same call with the same
    /// [`key`](Call::key) keeps the place and continues to wait. A refusal is returned as an error, never as `Refused`.
    pub fn request_claim(&self, id: &ItemId, claim: &Claim) -> Call<Claimed> {
        let waits = match claim.on_conflict {
            OnConflict::Fail => Duration::ZERO,
            OnConflict::Wait => claim.poll_ms.map_or(POLL_MAX, Duration::from_millis),
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
        Call::get(self, Path::queue(queue).verb("peek").with(query))
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
