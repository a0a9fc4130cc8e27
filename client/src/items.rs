//! Creates, lists, reads and changes items.

use crate::call::Call;
use crate::path::{Path, Query};
use crate::{Client, Consistency};
use api::claim::ItemsCreated;
use api::hold::{Assign, Assigned, Unassigned};
use api::item::{Activities, Carrying, ClaimSummary, Created, HeldAt, Item, ItemPage, Line, NewItem, NewItems};
use api::words::{ClaimStatus, ItemState};
use api::write::{Cancel, Cancelled, Moved, Update, Updated};
use hyper::Method;
use lease::names::{ActorId, ItemId, Label, QueueName};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest time for which a node lets a caller wait.
pub const POLL_MAX: Duration = Duration::from_secs(20);

/// Which items a list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemsQuery {
    pub queue: Option<QueueName>,
    pub state: Option<ItemState>,
    /// The item has all of these.
    pub labels: Vec<Label>,
    pub parent: Option<ItemId>,
    pub claim: Option<ClaimStatus>,
    /// Part of the id or of the title.
    pub text: Option<String>,
    /// The cursor of an earlier answer.
    pub cursor: Option<String>,
    /// By default 100, at most 1,000.
    pub limit: Option<usize>,
    pub consistency: Consistency,
}

/// What a read does if somebody holds the item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfClaimed {
    #[default]
    Return,
    /// Waits until it is free, at most [`POLL_MAX`]; then fails with `already_claimed`.
    Wait,
    /// Fails with `already_claimed`.
    Fail,
}

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
        let said = Query::default()
            .say("queue", &query.queue)
            .word("state", query.state)
            .say("label", &query.labels)
            .say("parent", &query.parent)
            .word("claim", query.claim)
            .say("text", &query.text)
            .say("cursor", &query.cursor)
            .say("limit", query.limit);
        Call::get(self, Path::new("/v1/items").with(query.consistency.said(said)))
    }

    /// Reads an item with its body.
    pub fn item(&self, id: &ItemId) -> Call<Item> {
        Call::get(self, Path::item(id))
    }

    /// Reads an item now, or once nobody holds it.
    pub fn item_if(&self, id: &ItemId, if_claimed: IfClaimed) -> Call<Item> {
        let waits = if if_claimed == IfClaimed::Wait { POLL_MAX } else { Duration::ZERO };
        let said = Query::default().word("if_claimed", Some(if_claimed));
        Call::get(self, Path::item(id).with(said)).set(|spec| spec.waits = waits)
    }

    /// Reads an item from the node that is asked; the age of the answer says how old it may be.
    pub fn item_locally(&self, id: &ItemId) -> Call<Item> {
        Call::get(self, Path::item(id).with(Consistency::Local.said(Query::default())))
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
        Call::get(self, Path::item(id).verb("held_at").with(Query::default().say("at_ms", [at_ms])))
    }

    /// The caller's items: assigned to it, leased by it, reserved for it; at most `limit` of each.
    pub fn carrying(&self, limit: Option<usize>) -> Call<Carrying> {
        Call::get(self, Path::new("/v1/carrying").with(Query::default().say("limit", limit)))
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
