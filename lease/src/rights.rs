//! The right that each command needs, and the check that its caller has it. No other place decides this. Apply checks
//! before each command, and a node checks before it proposes, so that a command without the right never enters a log.
//!
//! Items that a command only refers to (a parent, a target, a dependency) are checked by the command itself.

use crate::archive::Archive;
use crate::caller::{Caller, Role};
use crate::command::{Attempt, Claim, ClaimMany, Command, Release, Request, Update};
use crate::item::NewItem;
use crate::names::{ItemId, QueueName};
use crate::outcome::Outcome;
use crate::refusal::Refusal;
use crate::state::State;

const READS: &[Role] = &[Role::Reader, Role::Worker, Role::Dispatcher, Role::Operator];
const WORKS: &[Role] = &[Role::Worker];
const WRITES: &[Role] = &[Role::Worker, Role::Dispatcher];
const DISPATCHES: &[Role] = &[Role::Dispatcher];
const CARES: &[Role] = &[Role::Dispatcher, Role::Operator];
const OPERATES: &[Role] = &[Role::Operator];
const ATTENDS: &[Role] = &[Role::Worker, Role::Operator];
const RUNS_THE_CLUSTER: &[Role] = &[Role::Admin];

/// What a caller needs. One of the roles is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need<'c> {
    /// A role in this queue.
    Queue(&'c QueueName, &'static [Role]),
    /// A role in the queue of an item that the caller may see, and also the third field's role, if there is one.
    Item(&'c ItemId, &'static [Role], Option<Role>),
    /// A role in any queue of the space.
    Somewhere(&'static [Role]),
    /// A role in every queue of the space.
    Everywhere(Role),
}

/// The facts about an item that decide rights to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whereabouts<'s> {
    pub(crate) queue: &'s QueueName,
    /// The item's mode makes it visible to the caller.
    pub(crate) is_open: bool,
}

impl Whereabouts<'_> {
    pub(crate) fn is_visible_to(&self, caller: &Caller) -> bool {
        caller.can_see(self.queue) && (self.is_open || caller.has_role(Role::Operator, self.queue))
    }
}

impl<'c> Need<'c> {
    pub(crate) fn of_create(item: &'c NewItem) -> Self {
        Self::Queue(&item.queue, DISPATCHES)
    }

    pub(crate) fn of_claim(claim: &'c Claim) -> Self {
        Self::Item(&claim.item, WORKS, None)
    }

    pub(crate) fn of_release(release: &'c Release) -> Self {
        Self::Item(&release.item, WORKS, None)
    }

    /// The need of a peek at a queue.
    pub(crate) fn of_peek(queue: &'c QueueName) -> Self {
        Self::Queue(queue, READS)
    }

    fn of_update(update: &'c Update) -> Self {
        let is_dispatchers = update.edits.iter().any(|edit| !edit.field().is_holders());
        let roles = if update.start { WORKS } else { WRITES };
        Self::Item(&update.write.item, roles, is_dispatchers.then_some(Role::Dispatcher))
    }

    /// The need of a command. None: it is a batch, whose entries have their own needs.
    pub(crate) fn of(command: &'c Command, caller: &Caller) -> Option<Self> {
        let works_on = |item| Self::Item(item, WORKS, None);
        Some(match command {
            Command::CreateMany(_) | Command::ClaimMany(_) => return None,
            Command::Create(item) => Self::of_create(item),
            Command::Claim(claim) => Self::of_claim(claim),
            Command::Next(next) => Self::Queue(&next.queue, WORKS),
            Command::Renew(renew) => works_on(&renew.item),
            Command::Extend(extend) => works_on(&extend.item),
            Command::Release(release) => Self::of_release(release),
            Command::Reserve(reserve) => works_on(&reserve.item),
            Command::Withdraw { item } => works_on(item),
            Command::Update(update) => Self::of_update(update),
            Command::Activity(activity) => works_on(&activity.write.item),
            Command::AwaitInput(wait) => works_on(&wait.write.item),
            Command::Resume(write) => works_on(&write.item),
            Command::HandOn(hand_on) => works_on(&hand_on.write.item),
            Command::Complete(complete) => works_on(&complete.write.item),
            Command::Fail(fail) => works_on(&fail.write.item),
            Command::Assign { item, .. } | Command::Unassign { item, .. } | Command::Reopen { item } => {
                Self::Item(item, CARES, None)
            }
            Command::Cancel(cancel) => Self::Item(&cancel.item, CARES, None),
            Command::Reorder { item, .. } | Command::Retry { item } => Self::Item(item, OPERATES, None),
            Command::Revoke(revoke) => Self::Item(&revoke.item, OPERATES, None),
            Command::SetPolicy(set) => Self::Queue(&set.queue, OPERATES),
            Command::Pause { queue } | Command::Unpause { queue } | Command::Drain { queue } => {
                Self::Queue(queue, OPERATES)
            }
            Command::SetSpacePolicy(_) => Self::Everywhere(Role::Operator),
            Command::RenewAll(_) | Command::RegisterWorker(_) => Self::Somewhere(WORKS),
            // A worker may drain and remove itself, an operator of the whole space any worker.
            Command::DrainWorker { worker } | Command::RemoveWorker { worker } if worker.is(caller) => {
                Self::Somewhere(ATTENDS)
            }
            Command::DrainWorker { .. } | Command::RemoveWorker { .. } => Self::Everywhere(Role::Operator),
            Command::BeginEpoch { .. }
            | Command::BeginEpochAcceptingClock { .. }
            | Command::Activate
            | Command::RaiseRules { .. } => Self::Somewhere(RUNS_THE_CLUSTER),
        })
    }

    /// # Errors
    /// `not_found` if the caller may not know that the item exists, else `forbidden`.
    pub(crate) fn check<'s>(
        &self,
        caller: &Caller,
        place: impl FnOnce(&ItemId) -> Option<Whereabouts<'s>>,
    ) -> Result<(), Refusal> {
        match *self {
            Self::Queue(queue, roles) => check_role(caller, queue, roles),
            Self::Item(id, roles, also) => {
                let place = place(id).filter(|place| place.is_visible_to(caller)).ok_or(Refusal::NotFound)?;
                check_role(caller, place.queue, roles)?;
                match also {
                    Some(role) if !caller.has_role(role, place.queue) => Err(Refusal::Forbidden { needs: role }),
                    _ => Ok(()),
                }
            }
            Self::Somewhere(roles) if !caller.rights.iter().any(|right| roles.contains(&right.role)) => {
                Err(Refusal::Forbidden { needs: roles[0] })
            }
            Self::Everywhere(role) if !has_everywhere(caller, role) => Err(Refusal::Forbidden { needs: role }),
            Self::Somewhere(_) | Self::Everywhere(_) => Ok(()),
        }
    }

    /// Whether the caller's roles suffice whichever queue an item is in.
    fn is_met_anywhere(&self, caller: &Caller) -> bool {
        match *self {
            Self::Item(_, roles, also) => {
                roles.iter().any(|role| has_everywhere(caller, *role))
                    && also.is_none_or(|role| has_everywhere(caller, role))
            }
            Self::Queue(..) | Self::Somewhere(_) | Self::Everywhere(_) => self.check(caller, |_| None).is_ok(),
        }
    }
}

fn has_everywhere(caller: &Caller, role: Role) -> bool {
    caller.rights.iter().any(|right| right.role == role && right.queues.is_every())
}

/// # Errors
/// As [`Need::check`].
pub(crate) fn check_role(caller: &Caller, queue: &QueueName, roles: &[Role]) -> Result<(), Refusal> {
    if roles.iter().any(|role| caller.has_role(*role, queue)) {
        Ok(())
    } else if caller.can_see(queue) {
        Err(Refusal::Forbidden { needs: roles[0] })
    } else {
        Err(Refusal::NotFound)
    }
}

/// The foreseen answer to a request that lacks a right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreseen {
    /// The request would be refused with this outcome, and nothing was ever done under its id.
    Refused(Outcome),
    /// The request would be refused with this outcome, but an earlier attempt, which may have had the right, may still
    /// be on its way.
    InDoubt(Outcome),
}

impl Request {
    /// Whether the caller's roles suffice for part of this request, whatever the state is. Very cheap.
    #[must_use]
    pub fn has_rights_anywhere(&self) -> bool {
        let is_met = |need: Need<'_>| need.is_met_anywhere(&self.caller);
        match &self.command {
            Command::CreateMany(items) => items.iter().map(Need::of_create).any(is_met),
            Command::ClaimMany(many) if many.all_or_none && !many.claims.is_empty() => {
                many.claims.iter().map(Need::of_claim).all(is_met)
            }
            Command::ClaimMany(many) => {
                many.claims.iter().map(Need::of_claim).any(is_met)
                    || many.releases.iter().map(Need::of_release).any(is_met)
            }
            command => Need::of(command, &self.caller).is_none_or(is_met),
        }
    }
}

impl State {
    /// The answer to a request that would have no effect because its caller lacks the right to all of it. None: it must
    /// be applied, because it may have an effect or a remembered answer.
    ///
    /// A batch is answered here only if none of its entries could have an effect. Otherwise the whole batch is applied
    /// as it was sent: its id is remembered with all of its content, so that a repeat is recognized whatever its
    /// caller's rights are then.
    #[must_use]
    pub fn foresee(&self, archive: &dyn Archive, request: &Request) -> Option<Foreseen> {
        let refused = self.lacks_rights(archive, request)?;
        match self.recall(request, &mut Vec::new()) {
            Err(refusal) => Some(Foreseen::Refused(Outcome::Refused(refusal))),
            Ok(recalled) if recalled.answer.is_some() => None,
            // Renewals are not remembered, so a repeat is treated like a first attempt.
            Ok(_) if request.attempt == Attempt::First || request.command.is_renewal() => {
                Some(Foreseen::Refused(refused))
            }
            Ok(_) => Some(Foreseen::InDoubt(refused)),
        }
    }

    /// The refusal of a request whose caller has no right to any of it.
    #[must_use]
    pub fn lacks_rights(&self, archive: &dyn Archive, request: &Request) -> Option<Outcome> {
        let caller = &request.caller;
        let space = self.space_numbers.get(&request.space).copied();
        let check = |need: Need<'_>| {
            need.check(caller, |id| {
                let space = space?;
                if let Some(key) = self.items.find(space, id) {
                    let item = self.item(key);
                    let is_open = item.content.mode.is_open_to(caller);
                    return Some(Whereabouts { queue: &self.queue(item.queue).queue.name, is_open });
                }
                let archived = archive.item(space, id)?;
                let is_open = archived.content.mode.is_open_to(caller);
                Some(Whereabouts { queue: &self.queues.find(archived.queue)?.queue.name, is_open })
            })
        };
        match &request.command {
            Command::CreateMany(items) => {
                let refusals = items.iter().map(|item| check(Need::of_create(item)).err().map(Outcome::Refused));
                refusals.collect::<Option<Vec<_>>>().map(Outcome::CreatedMany)
            }
            Command::ClaimMany(many) => lacks_rights_to_all(many, check),
            command => check(Need::of(command, caller)?).err().map(Outcome::Refused),
        }
    }
}

fn lacks_rights_to_all(many: &ClaimMany, check: impl Fn(Need<'_>) -> Result<(), Refusal>) -> Option<Outcome> {
    let claims: Vec<_> = many.claims.iter().map(|claim| check(Need::of_claim(claim)).err()).collect();
    if many.all_or_none && claims.iter().any(Option::is_some) {
        let refused = |refusal: Option<Refusal>| Outcome::Refused(refusal.unwrap_or(Refusal::AllOrNone));
        let releases = many.releases.iter().map(|_| refused(None)).collect();
        return Some(Outcome::ClaimedMany { claims: claims.into_iter().map(refused).collect(), releases });
    }
    let claims = claims.into_iter().map(|refusal| refusal.map(Outcome::Refused)).collect::<Option<Vec<_>>>()?;
    let releases = many.releases.iter().map(|release| check(Need::of_release(release)).err().map(Outcome::Refused));
    Some(Outcome::ClaimedMany { claims, releases: releases.collect::<Option<Vec<_>>>()? })
}
