//! Claiming: one item, several in a batch, or the next items of a queue.

use crate::answer::{Answer, Context};
use crate::dates::Date;
use crate::hold::{Release, Released};
use crate::item::Content;
use crate::names::{self, Cursor, Number};
use crate::problem::{Holder, Problem};
use crate::words::{EmptyReason, ItemState, Order, RunsIn, Transition};
use lease::Command;
use lease::bounds::REQUEST_ID_BYTES;
use lease::command::{Claim as CoreClaim, ClaimMany, Filter, Next as CoreNext, OnConflict as CoreOnConflict};
use lease::item::Mirrors;
use lease::names::{ItemId, Label, Phase, QueueName};
use lease::numbers::{Span, Token};
use lease::outcome::{Grant as CoreGrant, ItemSnapshot as CoreItemSnapshot, Outcome};
use serde::{Deserialize, Serialize};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use utoipa::ToSchema;

/// What a claim does when it cannot be granted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    #[default]
    Fail,
    /// Join the wait line of the item.
    Wait,
}

macro_rules! claim {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
            /// Lease length. Default: the queue's `lease_for_ms`. A length above the queue's `lease_max_ms` is cut to
            /// it, and `cut` is true in the answer.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(value_type = Option<names::Millis>)]
            pub lease_for_ms: Option<u64>,
            /// What the holder is doing, shown to observers.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(max_length = 1024)]
            pub action: Option<String>,
            /// Which part of the item the holder is working on, shown to observers.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(max_length = 1024)]
            pub field: Option<String>,
            #[serde(default, skip_serializing_if = "is_default")]
            pub on_conflict: OnConflict,
            /// With `wait`: give up after this long.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(value_type = Option<names::Millis>)]
            pub wait_for_ms: Option<u64>,
            /// With `wait`: do not join a line already this long.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(maximum = 10000)]
            pub line_max: Option<u32>,
            /// If another session of the same actor holds the item, end its lease and grant a new one.
            #[serde(default, skip_serializing_if = "is_default")]
            pub takeover: bool,
            /// Which transitions may move the phase of the item's target. Default: all. Only transitions that the
            /// queue's policy mirrors have an effect.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(max_items = 4)]
            pub mirrors: Option<Vec<Transition>>,
        }

        impl $name {
            fn into_claim(self, item: ItemId) -> Result<CoreClaim, Box<Problem>> {
                let (wait_for, line_max) = (self.wait_for_ms, self.line_max);
                if self.on_conflict == OnConflict::Fail {
                    for (field, is_said) in [("wait_for_ms", wait_for.is_some()), ("line_max", line_max.is_some())] {
                        if is_said {
                            return Err(needs_wait(field));
                        }
                    }
                }
                Ok(CoreClaim {
                    item,
                    lease_for: self.lease_for_ms.map(Span),
                    action: self.action,
                    field: self.field,
                    on_conflict: match self.on_conflict {
                        OnConflict::Wait => CoreOnConflict::Wait { wait_for: wait_for.map(Span), line_max },
                        OnConflict::Fail => CoreOnConflict::Fail,
                    },
                    takeover: self.takeover,
                    mirrors: mirrors(self.mirrors),
                })
            }
        }
    };
}

claim! {
    /// A claim on one item.
    #[derive(Default)]
    Claim {
        /// With `wait`: how long this call waits before it answers `waiting`, at most 20 s. Repeat the call with the
        /// same Idempotency-Key to continue waiting.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(maximum = 20000)]
        poll_ms: Option<u64>,
    }
}
// The fields of a claim are not flattened into this: serde would no longer name the path of an invalid field.
claim! {
    /// A claim within a batch.
    ClaimOf {
        #[schema(value_type = names::ItemId)]
        item: ItemId,
    }
}

fn needs_wait(field: impl Into<String>) -> Box<Problem> {
    Box::new(Problem::invalid(field, "is only valid with on_conflict: wait"))
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn mirrors(named: Option<Vec<Transition>>) -> Mirrors {
    named.map_or(Mirrors::ALL, |named| {
        named.into_iter().fold(Mirrors::NONE, |mirrors, transition| mirrors.with(transition.into()))
    })
}

impl Claim {
    /// # Errors
    /// When a field for waiting is set but `on_conflict` is not `wait`.
    pub fn into_command(self, item: ItemId) -> Result<Command, Box<Problem>> {
        if self.poll_ms.is_some() && self.on_conflict != OnConflict::Wait {
            return Err(needs_wait("poll_ms"));
        }
        Ok(Command::Claim(self.into_claim(item)?))
    }
}

/// Several claims and releases in one step. Each entry gets its own answer, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    #[serde(default)]
    #[schema(max_items = 1000)]
    pub claims: Vec<ClaimOf>,
    /// Leases to release in the same step. The claims may use the capacity that they free.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub releases: Vec<ReleaseOf>,
    /// Grant all of the claims or none of them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub all_or_none: bool,
}

/// A release within a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseOf {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Token>)]
    pub token: Option<Token>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep_assignment: bool,
}

impl Claims {
    /// # Errors
    /// When a field for waiting is set in a claim whose `on_conflict` is not `wait`.
    pub fn into_command(self) -> Result<Command, Box<Problem>> {
        let mut claims = Vec::with_capacity(self.claims.len());
        for (index, entry) in self.claims.into_iter().enumerate() {
            let item = entry.item.clone();
            let claim = entry.into_claim(item).map_err(|problem| {
                needs_wait(format!("claims[{index}].{}", problem.field.as_deref().unwrap_or_default()))
            })?;
            claims.push(claim);
        }
        let release = |entry: ReleaseOf| {
            Release { token: entry.token, keep_assignment: entry.keep_assignment }.into_release(entry.item)
        };
        let releases = self.releases.into_iter().map(release).collect();
        Ok(Command::ClaimMany(ClaimMany { claims, releases, all_or_none: self.all_or_none }))
    }
}

/// A request for the next items of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Next {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Millis>)]
    pub lease_for_ms: Option<u64>,
    /// How many items to claim. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub count: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// Only items that have all of these labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<names::Label>, max_items = 32)]
    pub labels: Vec<Label>,
    /// The caller's capabilities. Default: those that its worker is registered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<names::Label>>, max_items = 32)]
    pub capabilities: Option<Vec<Label>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Phase>)]
    pub phase: Option<Phase>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RunsIn>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ItemId>)]
    pub parent: Option<ItemId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ItemId>)]
    pub ancestor: Option<ItemId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9)]
    pub priority_min: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9)]
    pub priority_max: Option<u8>,
    /// Where an earlier call stopped looking, from its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub action: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 4)]
    pub mirrors: Option<Vec<Transition>>,
    /// How long to wait if there is no item, at most 20 s. Callers on different nodes are not served in order of
    /// arrival.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 20000)]
    pub wait_ms: Option<u64>,
}

impl Next {
    #[must_use]
    pub fn into_command(self, queue: QueueName) -> Command {
        Command::Next(self.into_next(queue))
    }

    pub(crate) fn into_next(self, queue: QueueName) -> CoreNext {
        CoreNext {
            queue,
            filter: Filter {
                labels: self.labels,
                capabilities: self.capabilities,
                phase: self.phase,
                mode: self.mode.map(Into::into),
                parent: self.parent,
                ancestor: self.ancestor,
                priority_min: self.priority_min,
                priority_max: self.priority_max,
            },
            lease_for: self.lease_for_ms.map(Span),
            count: self.count.unwrap_or(1),
            order: self.order.unwrap_or(Order::Priority).into(),
            cursor: self.cursor.map(|cursor| cursor.0),
            action: self.action,
            mirrors: mirrors(self.mirrors),
        }
    }
}

/// A lease, as shown to its holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Grant {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    #[schema(value_type = names::Token)]
    pub token: Token,
    /// Count this from the moment the request was sent. 0: the lease has already ended, and this is the answer to a
    /// repeat of an old request.
    pub expires_in_ms: u64,
    /// In cluster time.
    pub expires_at_ms: u64,
    /// The approximate date of `expires_at_ms`, for people. Programs should use `expires_in_ms`.
    pub expires_at: Date,
    pub lease_for_ms: u64,
    /// The requested length was cut to the queue's `lease_max_ms`.
    pub cut: bool,
    /// The caller already held the item, and its lease was renewed.
    pub renewed: bool,
    pub claimed_at_ms: u64,
    pub claimed_at: Date,
    pub originally_claimed_at_ms: u64,
    pub originally_claimed_at: Date,
    pub line_length: u32,
    pub cancel_requested: bool,
    /// The item whose lease was released to make room for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ItemId>)]
    pub released: Option<ItemId>,
    /// The item at the time of this answer, from which the work starts. Omitted in the answer to a repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ItemSnapshot>,
}

/// The item from which the work starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ItemSnapshot {
    #[schema(value_type = names::QueueName)]
    pub queue: QueueName,
    pub state: ItemState,
    pub revision: Number,
    pub attempts: u32,
    #[serde(flatten)]
    pub content: Content,
}

impl Grant {
    pub(crate) fn new(grant: CoreGrant, with: &mut Context<'_>) -> Self {
        let calendar = with.calendar;
        let snapshot = |snapshot: Box<CoreItemSnapshot>| {
            let (content, body) = (with.show)(&snapshot)?;
            Some(ItemSnapshot {
                content: Content::new(&content, body),
                queue: snapshot.queue,
                state: snapshot.state.into(),
                revision: Number(snapshot.revision),
                attempts: snapshot.attempts,
            })
        };
        Self {
            snapshot: grant.snapshot.and_then(snapshot),
            item: grant.item,
            token: grant.token,
            expires_in_ms: grant.expires_in.0,
            expires_at_ms: grant.expires_at.0,
            expires_at: calendar.after(grant.expires_in),
            lease_for_ms: grant.lease_for.0,
            cut: grant.cut,
            renewed: grant.renewed,
            claimed_at_ms: grant.claimed_at.0,
            claimed_at: calendar.date(grant.claimed_at),
            originally_claimed_at_ms: grant.originally_claimed_at.0,
            originally_claimed_at: calendar.date(grant.originally_claimed_at),
            line_length: grant.line_length,
            cancel_requested: grant.cancel_requested,
            released: grant.released,
        }
    }
}

/// A place in the wait line. Repeat the request with the same Idempotency-Key within `poll_within_ms` to keep it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Waiting {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    /// 0 is next.
    pub place: u32,
    pub line_length: u32,
    pub poll_within_ms: u64,
    /// The Idempotency-Key to repeat the request with. In the answer to a batch: the one to claim this item with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The holder of the item and its expiry, as far as the caller may see them and the called node knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Box<Holder>>,
}

/// The id under which one entry of a batch can be claimed alone: the id of the batch belongs to the whole batch.
fn id_of_entry(batch: &str, item: &ItemId) -> String {
    let mut hasher = DefaultHasher::new();
    (batch, item.as_str()).hash(&mut hasher);
    let head: String = batch.chars().take_while(char::is_ascii).take(REQUEST_ID_BYTES - 17).collect();
    format!("{head}-{:016x}", hasher.finish())
}

/// The result of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Claimed {
    Granted(Box<Grant>),
    Waiting(Waiting),
    /// Only in the answer to a batch.
    Refused {
        problem: Box<Problem>,
    },
}

impl Answer for Claimed {
    fn new(outcome: Outcome, with: &mut Context<'_>) -> Result<Self, Outcome> {
        match outcome {
            Outcome::Granted(grant) => Ok(Self::Granted(Box::new(Grant::new(*grant, with)))),
            Outcome::Waiting { item, place, line_length, poll_within } => {
                let holder = (with.holder)(&item).map(Box::new);
                let request_id = Some(with.request_id.to_owned());
                let poll_within_ms = poll_within.0;
                Ok(Self::Waiting(Waiting { item, place, line_length, poll_within_ms, request_id, holder }))
            }
            Outcome::Refused(refusal) => Ok(Self::Refused { problem: Box::new(Problem::of(refusal, with.calendar)) }),
            other => Err(other),
        }
    }
}

/// The result of a release in a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ReleasedOf {
    Released(Released),
    Refused { problem: Box<Problem> },
}

impl Answer for ReleasedOf {
    fn new(outcome: Outcome, with: &mut Context<'_>) -> Result<Self, Outcome> {
        match outcome {
            Outcome::Refused(refusal) => Ok(Self::Refused { problem: Box::new(Problem::of(refusal, with.calendar)) }),
            other => Released::new(other, with).map(Self::Released),
        }
    }
}

/// The result of each claim and of each release of a batch, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimsAnswered {
    pub claims: Vec<Claimed>,
    pub releases: Vec<ReleasedOf>,
}

fn claimed_in_batch(outcome: Outcome, with: &mut Context<'_>) -> Result<Claimed, Outcome> {
    let mut claimed = Claimed::new(outcome, with)?;
    if let Claimed::Waiting(waiting) = &mut claimed {
        waiting.request_id = Some(id_of_entry(with.request_id, &waiting.item));
    }
    Ok(claimed)
}

impl Answer for ClaimsAnswered {
    fn new(outcome: Outcome, with: &mut Context<'_>) -> Result<Self, Outcome> {
        match outcome {
            Outcome::ClaimedMany { claims, releases } => Ok(Self {
                claims: claims.into_iter().map(|claim| claimed_in_batch(claim, with)).collect::<Result<_, _>>()?,
                releases: releases
                    .into_iter()
                    .map(|release| ReleasedOf::new(release, with))
                    .collect::<Result<_, _>>()?,
            }),
            other => Err(other),
        }
    }
}

/// The result of `next`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Dispatched {
    Granted {
        grants: Vec<Grant>,
    },
    Empty {
        reason: EmptyReason,
        retry_after_ms: u64,
        /// With `examined_enough`: call `next` again with this cursor.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<Cursor>,
    },
}

impl Answer for Dispatched {
    fn new(outcome: Outcome, with: &mut Context<'_>) -> Result<Self, Outcome> {
        match outcome {
            Outcome::Dispatched(grants) => {
                Ok(Self::Granted { grants: grants.into_iter().map(|grant| Grant::new(grant, with)).collect() })
            }
            Outcome::Empty { why, retry_after, cursor } => {
                Ok(Self::Empty { reason: why.into(), retry_after_ms: retry_after.0, cursor: cursor.map(Cursor) })
            }
            other => Err(other),
        }
    }
}
