//! The queries of the calls that read. In a query a list is written as one pair per entry.

use crate::claim::Next;
use crate::names::{self, Number};
use crate::words::{ClaimStatus, ItemState, Order, RunsIn};
use lease::command::Next as CoreNext;
use lease::names::{ActorId, ItemId, Label, Phase, QueueName, SessionId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// The response includes everything that was acknowledged before the call.
    #[default]
    Linearizable,
    /// The response is read from this node's state; its headers say how old that state is.
    Local,
}

/// What a read does when somebody holds the item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IfClaimed {
    #[default]
    Return,
    /// Wait until it is free, `wait_ms` at most; then return `already_claimed`.
    Wait,
    /// Return `already_claimed`.
    Fail,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

macro_rules! query {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
        #[into_params(parameter_in = Query)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }
    };
}

query! {
    /// How fresh a read must be.
    ConsistencyQuery {
        #[serde(default, skip_serializing_if = "is_default")]
        consistency: Consistency,
    }
}
query! {
    /// Selects a page of a list.
    PageQuery {
        /// `next_cursor` of the previous page.
        #[param(min_length = 1)]
        cursor: Option<String>,
        /// Maximum number of entries. [default: 100]
        #[param(minimum = 1, maximum = 1000)]
        limit: Option<usize>,
        #[serde(default, skip_serializing_if = "is_default")]
        consistency: Consistency,
    }
}
query! {
    /// Selects items.
    ItemsQuery {
        #[param(value_type = Option<names::QueueName>)]
        queue: Option<QueueName>,
        state: Option<ItemState>,
        /// Only items with all of these labels.
        #[serde(default, rename = "label")]
        #[param(value_type = Vec<names::Label>)]
        labels: Vec<Label>,
        #[param(value_type = Option<names::ItemId>)]
        parent: Option<ItemId>,
        claim: Option<ClaimStatus>,
        /// Only items that are assigned to this actor, as far as the caller may see that.
        #[param(value_type = Option<names::ActorId>)]
        assignee: Option<ActorId>,
        /// Only items that this actor holds, as far as the caller may see that.
        #[param(value_type = Option<names::ActorId>)]
        holder: Option<ActorId>,
        /// Only items that are held in this session, as far as the caller may see that.
        #[param(value_type = Option<names::SessionId>)]
        session: Option<SessionId>,
        /// Only items whose id or title contains this text, ignoring ASCII case.
        text: Option<String>,
        /// `next_cursor` of the previous page.
        #[param(min_length = 1)]
        cursor: Option<String>,
        /// Maximum number of items. [default: 100]
        #[param(minimum = 1, maximum = 1000)]
        limit: Option<usize>,
        #[serde(default, skip_serializing_if = "is_default")]
        consistency: Consistency,
    }
}
query! {
    /// How an item is read.
    ItemQuery {
        #[serde(default, skip_serializing_if = "is_default")]
        if_claimed: IfClaimed,
        /// How long to wait in milliseconds; valid only with `if_claimed=wait`. [default: 20000]
        #[param(maximum = 20000)]
        wait_ms: Option<u64>,
        /// Whether the response includes the item's body. [default: true]
        body: Option<bool>,
        #[serde(default, skip_serializing_if = "is_default")]
        consistency: Consistency,
    }
}
query! {
    /// Selects the items of an actor.
    CarryingQuery {
        /// Maximum number of items of each kind. [default: 100]
        #[param(minimum = 1, maximum = 1000)]
        limit: Option<usize>,
        #[serde(default, skip_serializing_if = "is_default")]
        consistency: Consistency,
    }
}
query! {
    /// The moment for which the holder of an item is asked.
    HeldAtQuery {
        /// A time on the cluster clock, as in the `at_ms` of an event.
        at_ms: u64,
    }
}
query! {
    /// What `peek` looks for.
    PeekQuery {
        /// Maximum number of items. [default: 1]
        #[param(minimum = 1, maximum = 100)]
        count: Option<u32>,
        order: Option<Order>,
        #[serde(default, rename = "label")]
        #[param(value_type = Vec<names::Label>)]
        labels: Vec<Label>,
        /// Capabilities of the caller. [default: those its worker is registered with]
        #[serde(rename = "capability")]
        #[param(value_type = Option<Vec<names::Label>>)]
        capabilities: Option<Vec<Label>>,
        #[param(value_type = Option<names::Phase>)]
        phase: Option<Phase>,
        mode: Option<RunsIn>,
        #[param(value_type = Option<names::ItemId>)]
        parent: Option<ItemId>,
        #[param(value_type = Option<names::ItemId>)]
        ancestor: Option<ItemId>,
        #[param(minimum = 0, maximum = 9)]
        priority_min: Option<u8>,
        #[param(minimum = 0, maximum = 9)]
        priority_max: Option<u8>,
        #[serde(default, skip_serializing_if = "is_default")]
        consistency: Consistency,
    }
}
query! {
    /// Selects a page of events.
    EventsQuery {
        /// Only events after this position. [default: from the first event that is kept]
        #[param(value_type = Option<Number>)]
        after: Option<Number>,
        /// Only events of this queue.
        #[param(value_type = Option<names::QueueName>)]
        queue: Option<QueueName>,
        /// Only events of this item.
        #[param(value_type = Option<names::ItemId>)]
        item: Option<ItemId>,
        /// Only events that this actor caused or that name it, as far as the caller may see that.
        #[param(value_type = Option<names::ActorId>)]
        actor: Option<ActorId>,
        /// Number of events to examine. [default: 100]
        #[param(minimum = 1, maximum = 1000)]
        limit: Option<usize>,
    }
}
query! {
    /// Selects the events of a stream.
    StreamQuery {
        /// Only events after this position. The header Last-Event-ID overrides it. [default: from now on]
        #[param(value_type = Option<Number>)]
        after: Option<Number>,
        /// Only events of this queue.
        #[param(value_type = Option<names::QueueName>)]
        queue: Option<QueueName>,
        /// Only events of this item.
        #[param(value_type = Option<names::ItemId>)]
        item: Option<ItemId>,
        /// Only events that this actor caused or that name it, as far as the caller may see that.
        #[param(value_type = Option<names::ActorId>)]
        actor: Option<ActorId>,
    }
}
query! {
    /// How a backup is restored.
    RestoreQuery {
        /// Grant only fencing tokens above this one. Needed when another cluster has granted tokens since the backup,
        /// or when the clock of the backup's cluster was ahead.
        token_floor: Option<u64>,
        /// Restore although this machine's clock is not later than the newest time in the backup. Check first that this
        /// clock is right: otherwise fencing tokens that the old cluster granted after the backup may be granted again.
        #[serde(default, skip_serializing_if = "is_default")]
        accept_clock: bool,
    }
}

impl PeekQuery {
    /// The `next` whose answer `peek` shows.
    #[must_use]
    pub fn into_next(self, queue: QueueName) -> CoreNext {
        let next = Next {
            count: self.count,
            order: self.order,
            labels: self.labels,
            capabilities: self.capabilities,
            phase: self.phase,
            mode: self.mode,
            parent: self.parent,
            ancestor: self.ancestor,
            priority_min: self.priority_min,
            priority_max: self.priority_max,
            ..Next::default()
        };
        next.into_next(queue)
    }
}
