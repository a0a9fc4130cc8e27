//! The commands that callers may send. The effect of a command depends only on the command, the caller and the state.

use crate::bounds::REPEAT_WITHIN;
use crate::caller::{Caller, Holder};
use crate::item::{ActivityKind, Edit, NewItem, RunsIn};
use crate::names::{ActorId, ItemId, Label, Phase, QueueName, RequestId, SpaceName};
use crate::numbers::{ItemNo, Revision, Span, Time, Token, Wall};
use crate::policy::{Setting, SpacePolicy};
use crate::standing::Mirrors;
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

/// What a claim does when it cannot be granted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnConflict {
    #[default]
    Fail,
    Wait {
        /// Give up after this long.
        wait_for: Option<Span>,
        /// Do not join a line already this long.
        line_max: Option<u32>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub item: ItemId,
    pub lease_for: Option<Span>,
    /// What the holder is doing and to which part of the item. Only shown to observers.
    pub action: Option<String>,
    pub field: Option<String>,
    pub on_conflict: OnConflict,
    /// If another session of the same actor holds the item, end its lease and grant a new one.
    pub takeover: bool,
    /// The mirrors that this holder allows. Only mirrors that the policy has can take effect.
    pub mirrors: Mirrors,
}

impl Claim {
    #[must_use]
    pub fn new(item: ItemId) -> Self {
        Self {
            item,
            lease_for: None,
            action: None,
            field: None,
            on_conflict: OnConflict::Fail,
            takeover: false,
            mirrors: Mirrors::ALL,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimMany {
    pub claims: Vec<Claim>,
    /// Leases to release in the same step. The claims may use the capacity that they free.
    pub releases: Vec<Release>,
    pub all_or_none: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    pub queue: QueueName,
    pub filter: Filter,
    pub lease_for: Option<Span>,
    pub count: u32,
    pub order: Order,
    /// Where an earlier call stopped examining.
    pub cursor: Option<Cursor>,
    pub action: Option<String>,
    pub mirrors: Mirrors,
}

impl Next {
    #[must_use]
    pub fn new(queue: QueueName) -> Self {
        Self {
            queue,
            filter: Filter::default(),
            lease_for: None,
            count: 1,
            order: Order::Priority,
            cursor: None,
            action: None,
            mirrors: Mirrors::ALL,
        }
    }
}

/// The items of a queue that a caller wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// The item must have all of these.
    pub labels: Vec<Label>,
    /// The caller's capabilities, which must include all needs of the item. None: those that its worker is registered
    /// with.
    pub capabilities: Option<Vec<Label>>,
    pub phase: Option<Phase>,
    /// None: the mode that its worker is registered with, or any if there is no such worker.
    pub mode: Option<RunsIn>,
    pub parent: Option<ItemId>,
    pub ancestor: Option<ItemId>,
    pub priority_min: Option<u8>,
    pub priority_max: Option<u8>,
}

impl Filter {
    /// The items whose descendants are searched.
    pub(crate) fn tree_roots(&self) -> impl Iterator<Item = &ItemId> {
        self.parent.iter().chain(&self.ancestor)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Highest priority, then oldest.
    #[default]
    Priority,
    Oldest,
    Newest,
}

/// The last candidate examined. The next call continues after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    pub priority: u8,
    pub item: ItemNo,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renew {
    pub item: ItemId,
    pub token: Token,
    pub lease_for: Option<Span>,
}

/// Renews every lease of the caller's session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewAll {
    pub lease_for: Option<Span>,
    /// The leases that the caller believes it holds. The answer names the items that it does not hold.
    pub expected: Vec<(ItemId, Token)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extend {
    pub item: ItemId,
    pub token: Token,
    pub by: Span,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    pub item: ItemId,
    pub token: Option<Token>,
    pub keep_assignment: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    pub item: ItemId,
    pub token: Token,
    /// How long to reserve the item. None: the policy's `reservation_max`.
    pub span: Option<Span>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoke {
    pub item: ItemId,
    pub reason: String,
    /// Move the assignment to this actor. None: keep it.
    pub assign_to: Option<ActorId>,
}

/// The fields that every write under a lease has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    pub item: ItemId,
    pub token: Option<Token>,
    /// The revision the caller has read.
    pub read_at: Option<Revision>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    pub write: Write,
    pub edits: Vec<Edit>,
    /// Set the item to in-progress. This claims the item, and the answer contains the grant.
    pub start: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    pub write: Write,
    pub kind: ActivityKind,
    /// For `plan_updated` and `external_url_updated`: the new text, which is also written to the body.
    pub note: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitInput {
    pub write: Write,
    pub question: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOn {
    pub write: Write,
    pub phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complete {
    pub write: Write,
    pub result: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fail {
    pub write: Write,
    pub error: Option<String>,
    /// Do not try the item again, whatever attempts are left.
    pub is_final: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub item: ItemId,
    pub reason: String,
    /// End a live lease at once instead of waiting for its holder.
    pub force: bool,
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

    /// Whether the command only keeps or ends what its caller holds, and creates, claims or changes nothing else. Such
    /// commands are accepted even when disks are short of space.
    #[must_use]
    pub fn keeps_or_ends(&self) -> bool {
        match self {
            Self::Renew(_)
            | Self::RenewAll(_)
            | Self::Extend(_)
            | Self::Release(_)
            | Self::Reserve(_)
            | Self::Withdraw { .. }
            | Self::HandOn(_)
            | Self::Complete(_)
            | Self::Fail(_)
            | Self::Cancel(_) => true,
            Self::ClaimMany(many) => many.claims.is_empty(),
            _ => false,
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
