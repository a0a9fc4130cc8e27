//! The commands that callers may send. The effect of a command depends only on the command, the caller and the state.

mod claim;
mod hold;
mod next;
mod write;

pub use claim::{Claim, ClaimMany, OnConflict};
pub use hold::{Extend, Release, Renew, RenewAll, Reserve, Revoke};
pub use next::{Cursor, Filter, Next, Order};
pub use write::{Activity, AwaitInput, Cancel, Complete, Fail, HandOn, Update, Write};

use crate::bounds::REPEAT_WITHIN;
use crate::caller::{Caller, Holder};
use crate::item::{NewItem, RunsIn};
use crate::names::{ActorId, ItemId, Label, QueueName, RequestId, SpaceName};
use crate::numbers::{Span, Time, Token, Wall};
use crate::policy::{Setting, SpacePolicy};
use crate::words::variant_names;
use serde::{Deserialize, Serialize};

/// One record of the log. An entry without commands is a tick, which only moves time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Cluster time, stamped by the leader.
    pub at: Time,
    /// The leader's wall clock: for people, and for `not_before`.
    pub wall: Wall,
    pub commands: Vec<Request>,
}

/// A command and its sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub space: SpaceName,
    pub caller: Caller,
    pub request_id: RequestId,
    pub attempt: Attempt,
    pub command: Command,
}

/// Whether the sender has sent this id before and got no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attempt {
    #[default]
    First,
    /// Sent before, and recently enough that its answer, if it had one, is still remembered.
    Repeat,
    /// Sent before, and its answer may have been forgotten by now.
    LateRepeat,
}

impl Attempt {
    /// The attempt for a repeat of a request that was first sent this long ago.
    #[must_use]
    pub fn repeat_after(age: Span) -> Self {
        if age < REPEAT_WITHIN { Self::Repeat } else { Self::LateRepeat }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    Create(Box<NewItem>),
    CreateMany(Vec<NewItem>),
    Claim(Claim),
    ClaimMany(ClaimMany),
    Next(Next),
    Renew(Renew),
    RenewAll(RenewAll),
    Extend(Extend),
    Release(Release),
    Reserve(Reserve),
    Withdraw { item: ItemId },
    Reorder { item: ItemId, actors: Vec<ActorId> },
    Revoke(Revoke),
    Assign { item: ItemId, actor: ActorId },
    Unassign { item: ItemId, actor: ActorId },
    Update(Update),
    Activity(Activity),
    AwaitInput(AwaitInput),
    Resume(Write),
    HandOn(HandOn),
    Complete(Complete),
    Fail(Fail),
    Cancel(Cancel),
    Reopen { item: ItemId },
    Retry { item: ItemId },
    SetPolicy(SetPolicy),
    Pause { queue: QueueName },
    Unpause { queue: QueueName },
    Drain { queue: QueueName },
    SetSpacePolicy(SpacePolicy),
    RegisterWorker(Registration),
    DrainWorker { worker: Holder },
    RemoveWorker { worker: Holder },
    BeginEpoch { token_floor: Option<Token> },
    Activate,
    RaiseRules { version: u32 },
    BeginEpochAcceptingClock { token_floor: Option<Token> },
}

variant_names! {
    Command::{NAMES, name}
    Create = "create";
    CreateMany = "create_many";
    Claim = "claim";
    ClaimMany = "claim_many";
    Next = "next";
    Renew = "renew";
    RenewAll = "renew_all";
    Extend = "extend";
    Release = "release";
    Reserve = "reserve";
    Withdraw = "withdraw";
    Reorder = "reorder";
    Revoke = "revoke";
    Assign = "assign";
    Unassign = "unassign";
    Update = "update";
    Activity = "activity";
    AwaitInput = "await_input";
    Resume = "resume";
    HandOn = "hand_on";
    Complete = "complete";
    Fail = "fail";
    Cancel = "cancel";
    Reopen = "reopen";
    Retry = "retry";
    SetPolicy = "set_policy";
    Pause = "pause";
    Unpause = "unpause";
    Drain = "drain";
    SetSpacePolicy = "set_space_policy";
    RegisterWorker = "register_worker";
    DrainWorker = "drain_worker";
    RemoveWorker = "remove_worker";
    BeginEpoch = "begin_epoch";
    Activate = "activate";
    RaiseRules = "raise_rules";
    BeginEpochAcceptingClock = "begin_epoch_accepting_clock";
}

/// What a command is for. A node that is short of room rejects some purposes before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It keeps a lease.
    Keep,
    /// It ends a lease, a wait or an item.
    End,
    /// It creates items.
    Create,
    /// It does anything else.
    Work,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetPolicy {
    pub queue: QueueName,
    pub settings: Vec<Setting>,
    /// The version of the policy that the operator has read.
    pub version: Option<u64>,
}

/// What a worker registers about itself. A later registration replaces the earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    pub capabilities: Vec<Label>,
    pub labels: Vec<Label>,
    pub mode: RunsIn,
    /// A worker is quiet after this long without a `renew_all`.
    pub alive_for: Span,
}

impl Command {
    /// The items that this command acts on. Their deadlines that have passed are processed before the command, however
    /// many other deadlines have passed.
    pub(crate) fn items(&self) -> Vec<&ItemId> {
        match self {
            Self::Create(item) => item.depends_on.iter().chain([&item.id]).collect(),
            Self::CreateMany(items) => items.iter().flat_map(|item| item.depends_on.iter().chain([&item.id])).collect(),
            Self::ClaimMany(many) => {
                many.claims.iter().map(|claim| &claim.item).chain(many.releases.iter().map(|r| &r.item)).collect()
            }
            Self::RenewAll(all) => all.expected.iter().map(|(item, _)| item).collect(),
            _ => self.item().into_iter().collect(),
        }
    }

    /// The item that this command names, if it names exactly one.
    pub(crate) fn item(&self) -> Option<&ItemId> {
        Some(match self {
            Self::Claim(claim) => &claim.item,
            Self::Renew(renew) => &renew.item,
            Self::Extend(extend) => &extend.item,
            Self::Release(release) => &release.item,
            Self::Reserve(reserve) => &reserve.item,
            Self::Withdraw { item }
            | Self::Reorder { item, .. }
            | Self::Assign { item, .. }
            | Self::Unassign { item, .. }
            | Self::Reopen { item }
            | Self::Retry { item } => item,
            Self::Revoke(revoke) => &revoke.item,
            Self::Update(update) => &update.write.item,
            Self::Activity(activity) => &activity.write.item,
            Self::AwaitInput(wait) => &wait.write.item,
            Self::Resume(write) => &write.item,
            Self::HandOn(hand_on) => &hand_on.write.item,
            Self::Complete(complete) => &complete.write.item,
            Self::Fail(fail) => &fail.write.item,
            Self::Cancel(cancel) => &cancel.item,
            Self::Create(_)
            | Self::CreateMany(_)
            | Self::ClaimMany(_)
            | Self::Next(_)
            | Self::RenewAll(_)
            | Self::SetPolicy(_)
            | Self::Pause { .. }
            | Self::Unpause { .. }
            | Self::Drain { .. }
            | Self::SetSpacePolicy(_)
            | Self::RegisterWorker(_)
            | Self::DrainWorker { .. }
            | Self::RemoveWorker { .. }
            | Self::BeginEpoch { .. }
            | Self::Activate
            | Self::RaiseRules { .. }
            | Self::BeginEpochAcceptingClock { .. } => return None,
        })
    }

    /// How much of the request memory the command takes. A batch counts as many as its entries.
    #[must_use]
    pub fn weight(&self) -> u64 {
        let entries = match self {
            Self::CreateMany(items) => items.len(),
            Self::ClaimMany(many) => many.claims.len() + many.releases.len(),
            Self::Next(next) => next.count as usize,
            _ => 1,
        };
        entries.max(1) as u64
    }

    /// What the command is for.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        match self {
            Self::Renew(_) | Self::RenewAll(_) | Self::Extend(_) => Purpose::Keep,
            Self::Release(_)
            | Self::Reserve(_)
            | Self::Withdraw { .. }
            | Self::HandOn(_)
            | Self::Complete(_)
            | Self::Fail(_)
            | Self::Cancel(_) => Purpose::End,
            Self::Create(_) | Self::CreateMany(_) => Purpose::Create,
            Self::Claim(_)
            | Self::ClaimMany(_)
            | Self::Next(_)
            | Self::Reorder { .. }
            | Self::Revoke(_)
            | Self::Assign { .. }
            | Self::Unassign { .. }
            | Self::Update(_)
            | Self::Activity(_)
            | Self::AwaitInput(_)
            | Self::Resume(_)
            | Self::Reopen { .. }
            | Self::Retry { .. }
            | Self::SetPolicy(_)
            | Self::Pause { .. }
            | Self::Unpause { .. }
            | Self::Drain { .. }
            | Self::SetSpacePolicy(_)
            | Self::RegisterWorker(_)
            | Self::DrainWorker { .. }
            | Self::RemoveWorker { .. }
            | Self::BeginEpoch { .. }
            | Self::BeginEpochAcceptingClock { .. }
            | Self::Activate
            | Self::RaiseRules { .. } => Purpose::Work,
        }
    }

    /// Whether the command only keeps or ends what its caller holds, and creates, claims or changes nothing else. Such
    /// commands are accepted even when disks are short of space.
    #[must_use]
    pub fn keeps_or_ends(&self) -> bool {
        match self {
            Self::ClaimMany(many) => many.claims.is_empty(),
            _ => matches!(self.purpose(), Purpose::Keep | Purpose::End),
        }
    }

    /// The item in whose line the command may have to wait for its answer.
    #[must_use]
    pub fn waits_for(&self) -> Option<&ItemId> {
        match self {
            Self::Claim(claim) if claim.on_conflict != OnConflict::Fail => Some(&claim.item),
            _ => None,
        }
    }

    /// Renewals are idempotent because they carry a token, so they are not remembered.
    pub(crate) fn is_renewal(&self) -> bool {
        matches!(self, Self::Renew(_) | Self::RenewAll(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_releases_counts_as_keep_or_end() {
        let item = ItemId::new("a").unwrap();
        let release = Release { item: item.clone(), token: None, keep_assignment: false };
        let many =
            |claims| Command::ClaimMany(ClaimMany { claims, releases: vec![release.clone()], all_or_none: false });
        assert!(many(vec![]).keeps_or_ends() && !many(vec![Claim::new(item.clone())]).keeps_or_ends());
        assert!(Command::Release(release.clone()).keeps_or_ends());
        assert!(!Command::Claim(Claim::new(item)).keeps_or_ends());
    }

    #[test]
    fn the_weight_of_a_batch_is_its_number_of_entries() {
        let (item, queue) = (ItemId::new("a").unwrap(), QueueName::new("q").unwrap());
        let release = Release { item: item.clone(), token: None, keep_assignment: false };
        let many = ClaimMany {
            claims: vec![Claim::new(item.clone()); 3],
            releases: vec![release.clone(); 2],
            all_or_none: false,
        };
        assert_eq!(Command::ClaimMany(many).weight(), 5);
        assert_eq!(Command::Next(Next { count: 7, ..Next::new(queue.clone()) }).weight(), 7);
        assert_eq!(Command::CreateMany(vec![NewItem::new(item, queue); 4]).weight(), 4);
        assert_eq!(Command::Release(release).weight(), 1);
        assert_eq!(Command::CreateMany(Vec::new()).weight(), 1);
    }
}
