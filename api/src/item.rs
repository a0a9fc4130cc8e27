//! The item: as callers create it, and as it is shown.

use crate::answer::{Answer, Context, answer};
use crate::body::Body;
use crate::dates::{Calendar, Date};
use crate::names::{self, Number};
use crate::problem::{Holder, Problem, WaitsFor};
use crate::words::{ActivityKind, BlockedBy, ItemState, RunsIn};
use lease::Command;
use lease::disclose::ContentView;
use lease::item::{Activity as CoreActivity, Mode, NewItem as CoreNewItem};
use lease::names::{ActorId, ItemId, Label, Phase, QueueName, SessionId};
use lease::numbers::{Span, Token};
use lease::outcome::Outcome;
use lease::views::{Carrying as CoreCarrying, ClaimSummary as CoreClaimSummary, ItemView};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// An item to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewItem {
    #[schema(value_type = names::ItemId)]
    pub id: ItemId,
    #[schema(value_type = names::QueueName)]
    pub queue: QueueName,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 512)]
    pub title: String,
    /// 0 to 9; higher numbers first. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9)]
    pub priority: Option<u8>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<names::Label>, max_items = 32)]
    pub labels: Vec<Label>,
    /// The capabilities that a worker needs to get the item.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<names::Label>, max_items = 32)]
    pub needs: Vec<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ItemId>)]
    pub parent: Option<ItemId>,
    /// The item whose phase follows the transitions of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ItemId>)]
    pub target: Option<ItemId>,
    /// Items that must complete first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<names::ItemId>, max_items = 64)]
    pub depends_on: Vec<ItemId>,
    /// The item is not granted before this date, by the leader's wall clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Date>,
    /// The item is not granted before this much cluster time has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Millis>)]
    pub delay_ms: Option<u64>,
    /// `local`: only for workers of one person, its creator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RunsIn>,
    /// With `local`: the owner. Default: the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ActorId>)]
    pub local_owner: Option<ActorId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Phase>)]
    pub phase: Option<Phase>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
}

/// Converts a mode from JSON to the type of the rules.
pub(crate) fn mode(mode: RunsIn, owner: Option<ActorId>, caller: &ActorId) -> Mode {
    match mode {
        RunsIn::Any => Mode::Any,
        RunsIn::Cloud => Mode::Cloud,
        RunsIn::Local => Mode::Local { owner: owner.unwrap_or_else(|| caller.clone()) },
    }
}

impl NewItem {
    /// An item with the required fields only.
    #[must_use]
    pub fn new(id: ItemId, queue: QueueName) -> Self {
        Self {
            id,
            queue,
            title: String::new(),
            priority: None,
            labels: Vec::new(),
            needs: Vec::new(),
            parent: None,
            target: None,
            depends_on: Vec::new(),
            not_before: None,
            delay_ms: None,
            mode: None,
            local_owner: None,
            phase: None,
            body: None,
        }
    }

    fn into_item(self, caller: &ActorId) -> CoreNewItem {
        let mut item = CoreNewItem::new(self.id, self.queue);
        item.title = self.title;
        item.priority = self.priority.unwrap_or(item.priority);
        item.labels = self.labels;
        item.needs = self.needs;
        item.parent = self.parent;
        item.target = self.target;
        item.depends_on = self.depends_on;
        item.not_before = self.not_before.map(|date| date.0);
        item.delay = self.delay_ms.map(Span);
        item.mode = mode(self.mode.unwrap_or(RunsIn::Any), self.local_owner, caller);
        item.phase = self.phase;
        item.body = self.body.map(Body::into_parts).unwrap_or_default();
        item
    }

    /// `caller`: the owner of a local item that names no owner.
    #[must_use]
    pub fn into_command(self, caller: &ActorId) -> Command {
        Command::Create(Box::new(self.into_item(caller)))
    }
}

/// Items to create. Each gets its own answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewItems {
    #[schema(min_items = 1, max_items = 1000)]
    pub items: Vec<NewItem>,
}

impl NewItems {
    #[must_use]
    pub fn into_command(self, caller: &ActorId) -> Command {
        Command::CreateMany(self.items.into_iter().map(|item| item.into_item(caller)).collect())
    }
}

/// The answer to creating an item: the item exists now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Created {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    /// false: the item already existed with the same content.
    pub created: bool,
    pub revision: Number,
    pub state: ItemState,
}

answer! { Created: Outcome::Created { item, created, revision, state } =>
    Self { item, created, revision: Number(revision), state: state.into() }
}

/// The result of creating an item in a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum CreatedOf {
    Created(Created),
    Refused { problem: Box<Problem> },
}

impl Answer for CreatedOf {
    fn new(outcome: Outcome, with: &mut Context<'_>) -> Result<Self, Outcome> {
        match outcome {
            Outcome::Refused(refusal) => Ok(Self::Refused { problem: Box::new(Problem::of(refusal, with.calendar)) }),
            other => Created::new(other, with).map(Self::Created),
        }
    }
}

/// The result of each item of a batch, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ItemsCreated {
    pub items: Vec<CreatedOf>,
}

impl Answer for ItemsCreated {
    fn new(outcome: Outcome, with: &mut Context<'_>) -> Result<Self, Outcome> {
        match outcome {
            Outcome::CreatedMany(outcomes) => {
                let items = outcomes.into_iter().map(|outcome| CreatedOf::new(outcome, with));
                Ok(Self { items: items.collect::<Result<_, _>>()? })
            }
            other => Err(other),
        }
    }
}

/// The content of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Content {
    pub title: String,
    pub priority: u8,
    #[schema(value_type = Vec<names::Label>)]
    pub labels: Vec<Label>,
    #[schema(value_type = Vec<names::Label>)]
    pub needs: Vec<Label>,
    /// Omitted, like `target` and entries of `depends_on`, if the item no longer exists or the caller may not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ItemId>)]
    pub parent: Option<ItemId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ItemId>)]
    pub target: Option<ItemId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<names::ItemId>)]
    pub depends_on: Vec<ItemId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Date>,
    pub mode: RunsIn,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ActorId>)]
    pub local_owner: Option<ActorId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Phase>)]
    pub phase: Option<Phase>,
    /// Omitted if the caller may not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ActorId>)]
    pub created_by: Option<ActorId>,
    /// In cluster time.
    pub created_at_ms: u64,
    /// By the wall clock of the leader that accepted the entry.
    pub created_at: Date,
    /// The size of each part of the body, in bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub body_bytes: BTreeMap<String, u32>,
    /// Included on request, and always in an answer to the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
}

impl Content {
    #[must_use]
    pub fn new(content: &ContentView, body: Option<Body>) -> Self {
        let mode = match &content.mode {
            Mode::Any => RunsIn::Any,
            Mode::Cloud => RunsIn::Cloud,
            Mode::Local { .. } => RunsIn::Local,
        };
        Self {
            title: content.title.to_string(),
            priority: content.priority,
            labels: content.label_sets.labels.to_vec(),
            needs: content.label_sets.needs.to_vec(),
            parent: content.parent().cloned(),
            target: content.target().cloned(),
            depends_on: content.depends_on().to_vec(),
            not_before: content.not_before().map(Date),
            mode,
            local_owner: content.mode.owner().cloned(),
            phase: content.phase.clone(),
            created_by: content.created_by.clone(),
            created_at_ms: content.created_at.0,
            created_at: Date(content.created_wall),
            body_bytes: content.parts.iter().map(|(part, bytes)| (part.name().to_owned(), bytes)).collect(),
            body,
        }
    }
}

/// An item, as far as the caller may see it. Fields that the caller may not see are omitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Item {
    #[schema(value_type = names::ItemId)]
    pub id: ItemId,
    #[schema(value_type = names::QueueName)]
    pub queue: QueueName,
    pub state: ItemState,
    pub revision: Number,
    pub attempts: u32,
    /// When the item entered its state, in cluster time. Omitted for a claimed item whose holder the caller may not
    /// see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Date>,
    pub claimed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// The token of the lease, if it is the caller's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Token>)]
    pub token: Option<Token>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_at_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<Date>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub originally_claimed_at_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub originally_claimed_at: Option<Date>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ActorId>)]
    pub assignee: Option<ActorId>,
    pub line_length: u32,
    pub cancel_requested: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitsFor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<BlockedBy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_until_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_until: Option<Date>,
    #[serde(flatten)]
    pub content: Content,
}

impl Item {
    #[must_use]
    pub fn new(view: ItemView, body: Option<Body>, calendar: Calendar) -> Self {
        let date = |time: Option<lease::numbers::Time>| time.map(|time| calendar.date(time));
        let ms = |time: Option<lease::numbers::Time>| time.map(|time| time.0);
        Self {
            content: Content::new(&view.content, body),
            id: view.id,
            queue: view.queue,
            state: view.state.into(),
            revision: Number(view.revision),
            attempts: view.attempts,
            since_ms: ms(view.since),
            since: date(view.since),
            claimed: view.claimed,
            holder: view.holder.map(|holder| Holder::new(holder, calendar)),
            token: view.token,
            claimed_at_ms: ms(view.claimed_at),
            claimed_at: date(view.claimed_at),
            originally_claimed_at_ms: ms(view.originally_claimed_at),
            originally_claimed_at: date(view.originally_claimed_at),
            assignee: view.assignee,
            line_length: view.line_length,
            cancel_requested: view.cancel_requested,
            waits_for: view.waits_for.map(|waits| WaitsFor {
                dependencies: waits.dependencies,
                not_before: waits.not_before.map(Date),
                until_ms: ms(waits.until),
                until: date(waits.until),
            }),
            blocked_by: view.blocked_by.map(Into::into),
            reserved_until_ms: ms(view.reserved_until),
            reserved_until: date(view.reserved_until),
        }
    }
}

/// A page of items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ItemPage {
    pub items: Vec<Item>,
    /// Where the next page starts. It stays valid whatever changes. Omitted on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The items that the caller is assigned to, holds or has reserved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Carrying {
    pub assigned: Vec<Item>,
    pub leased: Vec<Item>,
    pub reserved: Vec<Item>,
}

impl Carrying {
    #[must_use]
    pub fn new(carrying: CoreCarrying, calendar: Calendar) -> Self {
        let items = |views: Vec<ItemView>| views.into_iter().map(|view| Item::new(view, None, calendar)).collect();
        Self { assigned: items(carrying.assigned), leased: items(carrying.leased), reserved: items(carrying.reserved) }
    }
}

/// How many items are held, have an expired lease, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimSummary {
    pub active: u64,
    pub expired: u64,
    pub unclaimed: u64,
}

impl From<CoreClaimSummary> for ClaimSummary {
    fn from(summary: CoreClaimSummary) -> Self {
        Self { active: summary.active, expired: summary.expired, unclaimed: summary.unclaimed }
    }
}

/// The last activities of an item, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Activities {
    pub activities: Vec<Activity>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Activity {
    pub kind: ActivityKind,
    /// Omitted if the caller may not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ActorId>)]
    pub by: Option<ActorId>,
    pub at_ms: u64,
    pub at: Date,
    /// Omitted if the caller may not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Activity {
    /// `is_shown`: whether the viewer may see the actor and the note.
    #[must_use]
    pub fn new(activity: CoreActivity, is_shown: bool) -> Self {
        Self {
            kind: activity.kind.into(),
            by: is_shown.then_some(activity.by),
            at_ms: activity.at.0,
            at: Date(activity.wall),
            note: is_shown.then_some(activity.note),
        }
    }
}

/// The holder of an item at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldAt {
    pub at_ms: u64,
    pub held: bool,
    /// Omitted if the caller may not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ActorId>)]
    pub actor: Option<ActorId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::SessionId>)]
    pub session: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Token>)]
    pub token: Option<Token>,
}
