//! Callers that wait in `next`: a caller that found nothing before an entry and would find something after it is woken.

use crate::run::Failure;
use crate::store::Store;
use lease::caller::{ActorKind, Caller, QueueScope, Right, Role, Verified};
use lease::command::{Attempt, Next};
use lease::item::RunsIn;
use lease::names::{ActorId, ItemId, Label, QueueName, RequestId, SessionId, SpaceName};
use lease::numbers::Wall;
use lease::standing::StateKind;
use lease::views::IfClaimed;
use lease::{Applied, Command, Entry, Outcome, Request, State};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Parked {
    callers: BTreeMap<ActorId, Caller>,
    queues: BTreeSet<(SpaceName, QueueName)>,
    needs: BTreeSet<Label>,
    /// Callers that were woken and found something.
    pub(crate) woken: u64,
}

/// A state and its archive.
pub(crate) type World<'a> = (&'a State, &'a Store);

impl Parked {
    /// Checks one of the callers, in each of the queues.
    pub(crate) fn observe(
        &mut self,
        before: World<'_>,
        after: World<'_>,
        entry: &Entry,
        applied: &Applied,
    ) -> Result<(), Failure> {
        self.learn(entry, applied);
        let deadlines = after.0.next_deadlines(after.1);
        if self.callers.is_empty() || deadlines.time.is_some_and(|time| time <= after.0.now()) {
            // Work that is left over wakes its callers when it is done.
            return Ok(());
        }
        let nth = usize::try_from(entry.at.0 % self.callers.len() as u64).expect("small");
        let Some(caller) = self.callers.values().nth(nth) else { return Ok(()) };
        for (space, queue) in &self.queues {
            let request = self.request(caller, space, queue);
            let Some(found) = finds(after, &request) else { continue };
            let is_told = applied.openings.iter().any(|opening| opening.space == *space && opening.queue == *queue);
            if finds(before, &request).is_some() {
                continue;
            }
            self.woken += u64::from(is_told);
            if !is_told && !hangs_on_the_archive(before, space, &found) {
                let why = format!("{} is not told of {found} in {queue} of {space}", caller.actor);
                return Err(Failure::new("a parked caller is not woken", why));
            }
        }
        Ok(())
    }

    fn learn(&mut self, entry: &Entry, applied: &Applied) {
        for request in &entry.commands {
            let session = SessionId::new("parked").ok();
            let caller = Caller { session, verified: Verified::Checked, ..request.caller.clone() };
            self.callers.insert(caller.actor.clone(), caller);
            let items = match &request.command {
                Command::Create(item) => std::slice::from_ref(&**item),
                Command::CreateMany(items) => items,
                _ => &[],
            };
            self.needs.extend(items.iter().flat_map(|item| item.needs.iter().cloned()));
        }
        let queues = applied.events.iter().filter_map(|event| Some((event.space.clone(), event.queue.clone()?)));
        self.queues.extend(queues);
    }

    /// In a session without a registered worker, with every capability.
    fn request(&self, caller: &Caller, space: &SpaceName, queue: &QueueName) -> Request {
        let mut next = Next::new(queue.clone());
        next.filter.capabilities = Some(self.needs.iter().cloned().collect());
        next.filter.mode = Some(RunsIn::Any);
        let request_id = RequestId::new("parked").expect("a name");
        let (space, caller) = (space.clone(), caller.clone());
        Request { space, caller, request_id, attempt: Attempt::First, command: Command::Next(next) }
    }
}

/// What `next` would answer now, before any more time passes.
fn finds((state, store): World<'_>, request: &Request) -> Option<ItemId> {
    let mut state = state.clone();
    let entry = Entry { at: state.now(), wall: Wall(0), commands: vec![request.clone()] };
    match state.apply(&entry, store).outcomes.pop() {
        Some(Outcome::Dispatched(grants)) => grants.first().map(|grant| grant.item.clone()),
        _ => None,
    }
}

/// Whether one of its ancestors is terminal or gone: what happens above it wakes nobody.
fn hangs_on_the_archive((state, store): World<'_>, space: &SpaceName, item: &ItemId) -> bool {
    let viewer = Caller {
        actor: ActorId::new("viewer").expect("a name"),
        kind: ActorKind::System,
        parent: None,
        session: None,
        verified: Verified::Checked,
        rights: vec![Right { role: Role::Operator, queues: QueueScope::every() }],
    };
    let mut above = Some(item.clone());
    while let Some(id) = above {
        match state.view_item(store, &viewer, space, &id, IfClaimed::Return) {
            Ok(view) if id == *item || !is_terminal(view.state) => above = view.content.parent().cloned(),
            _ => return true,
        }
    }
    false
}

fn is_terminal(state: StateKind) -> bool {
    matches!(state, StateKind::Complete | StateKind::Error | StateKind::Cancelled)
}
