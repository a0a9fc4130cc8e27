//! Creates, lists, reads and changes items.

use crate::Client;
use crate::call::Call;
use crate::path::Path;
use api::hold::{Assign, Assigned, Unassigned};
use api::item::{Activities, Carrying, ClaimSummary, Created, HeldAt, Item, ItemPage, ItemsCreated, NewItem, NewItems};
use api::limits::POLL_MAX;
use api::line::Line;
use api::query::{CarryingQuery, Consistency, ConsistencyQuery, HeldAtQuery, IfClaimed, ItemQuery, ItemsQuery};
use api::write::{Cancel, Cancelled, Moved, Update, Updated};
use hyper::Method;
use lease::names::{ActorId, ItemId};
use std::time::Duration;

impl Client {
    /// Creates an item. This does not start work on it; only a claim does. If the id exists with the same content, the
    /// answer is that item.
    pub fn create(&self, item: &NewItem) -> Call<Created> {
        Call::post(self, Path::new("/v1/items"), item)
    }

    /// Creates many items. The answer has one entry per item, in order.
    pub fn create_many(&self, items: &NewItems) -> Call<ItemsCreated> {
        Call::post(self, Path::new("/v1/items/batch"), items)
    }

    pub fn items(&self, query: &ItemsQuery) -> Call<ItemPage> {
        Call::get(self, Path::new("/v1/items").with(query))
    }

    /// Reads an item with its body.
    pub fn item(&self, id: &ItemId) -> Call<Item> {
        Call::get(self, Path::item(id))
    }

    /// Reads an item now, or once nobody holds it.
    pub fn item_if(&self, id: &ItemId, if_claimed: IfClaimed) -> Call<Item> {
        let waits = if if_claimed == IfClaimed::Wait { POLL_MAX } else { Duration::ZERO };
        let query = ItemQuery { if_claimed, ..ItemQuery::default() };
        Call::get(self, Path::item(id).with(&query)).set(|spec| spec.waits = waits)
    }

    /// Reads an item from the node that is asked; the age of the answer says how old it may be.
    pub fn item_locally(&self, id: &ItemId) -> Call<Item> {
        Call::get(self, Path::item(id).with(&ConsistencyQuery { consistency: Consistency::Local }))
    }

    /// Changes an item: under a lease with its token, or with `read_at` while nobody holds it.
    pub fn update(&self, id: &ItemId, update: &Update) -> Call<Updated> {
        Call::command(self, Method::PATCH, Path::item(id), update)
    }

    /// The wait line of an item.
    pub fn line(&self, id: &ItemId) -> Call<Line> {
        Call::get(self, Path::item(id).verb("line"))
    }

    /// The claims on an item and on everything below it.
    pub fn claim_summary(&self, id: &ItemId) -> Call<ClaimSummary> {
        Call::get(self, Path::item(id).verb("claims"))
    }

    /// The last activities of an item, oldest first.
    pub fn activities(&self, id: &ItemId) -> Call<Activities> {
        Call::get(self, Path::item(id).verb("activities"))
    }

    /// Who held an item at a moment of cluster time.
    pub fn held_at(&self, id: &ItemId, at_ms: u64) -> Call<HeldAt> {
        Call::get(self, Path::item(id).verb("held_at").with(&HeldAtQuery { at_ms }))
    }

    /// The caller's items: assigned to it, leased by it, reserved for it; at most `limit` of each.
    pub fn carrying(&self, limit: Option<usize>) -> Call<Carrying> {
        let query = CarryingQuery { limit, ..CarryingQuery::default() };
        Call::get(self, Path::new("/v1/carrying").with(&query))
    }

    /// The items of another actor, as far as the caller may see them; at most `limit` of each kind.
    pub fn carrying_of(&self, actor: &ActorId, limit: Option<usize>) -> Call<Carrying> {
        let query = CarryingQuery { limit, ..CarryingQuery::default() };
        Call::get(self, Path::actor(actor).verb("carrying").with(&query))
    }

    /// Assigns an item to an actor, without a lease.
    pub fn assign(&self, id: &ItemId, actor: &ActorId) -> Call<Assigned> {
        Call::post(self, Path::item(id).verb("assign"), &Assign { actor: actor.clone() })
    }

    pub fn unassign(&self, id: &ItemId, actor: &ActorId) -> Call<Unassigned> {
        Call::post(self, Path::item(id).verb("unassign"), &Assign { actor: actor.clone() })
    }

    /// Cancels an item: at once if nobody holds it; otherwise the holder has 30 s to stop, unless forced.
    pub fn cancel(&self, id: &ItemId, cancel: &Cancel) -> Call<Cancelled> {
        Call::post(self, Path::item(id).verb("cancel"), cancel)
    }

    /// Queues a terminal item again.
    pub fn reopen(&self, id: &ItemId) -> Call<Moved> {
        Call::bare(self, Method::POST, Path::item(id).verb("reopen"))
    }

    /// Lets a blocked or failed item be retried. For operators.
    pub fn retry(&self, id: &ItemId) -> Call<Moved> {
        Call::bare(self, Method::POST, Path::item(id).verb("retry"))
    }
}
