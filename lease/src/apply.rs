//! The function `apply`: state + entry → state + outcomes + events + changed records.
//!
//! A step first moves time, then processes deadlines that have passed, then runs the commands in order. Each command
//! makes all of its checks before its first change.

mod answer;
mod cancel;
mod claim;
mod claim_many;
mod cluster;
mod create;
mod due;
mod emit;
mod ending;
mod find;
mod first_use;
mod grant;
mod hold;
mod mirror;
mod new_names;
mod next;
mod own;
mod queue;
mod update;
mod validate;
mod wait_line;
mod work;
mod worker;
mod write;

pub use new_names::check_new_names;
pub use validate::validate;

use crate::archive::Archive;
use crate::bounds::{STEPS_PER_ENTRY, TIME_MAX};
use crate::caller::Caller;
use crate::changes::Changes;
use crate::command::{Command, Entry};
use crate::event::{Event, Who};
use crate::names::{ItemId, SpaceName};
use crate::numbers::{QueueNo, SpaceNo, Time, Wall};
use crate::outcome::{ItemSnapshot, Outcome};
use crate::policy::Policy;
use crate::queue::Flow;
use crate::record::{Archived, Key};
use crate::refusal::Refusal;
use crate::remembered::RequestKey;
use crate::rights::Need;
use crate::standing::ItemState;
use crate::state::State;
use crate::state::item_key::ItemKey;
use crate::state::items::{Item, Touched};
use crate::state::openings::Opening;
use std::collections::{BTreeMap, BTreeSet};

/// The result of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// One per command, in order.
    pub outcomes: Vec<Outcome>,
    pub events: Vec<Event>,
    /// Every record that changed, including the events.
    pub changes: Changes,
    /// The queues in which waiting callers of `next` should look again. Not stored in a record, because it matters only
    /// to callers that wait now.
    pub openings: Vec<Opening>,
}

/// When the leader should propose a tick if no other entry comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextDeadlines {
    /// In cluster time. At or before [`State::now`] when the last step left work to do.
    pub time: Option<Time>,
    /// In wall time.
    pub wall: Option<Wall>,
}

impl State {
    /// Applies one entry. Total: it returns an outcome for each command of any entry.
    pub fn apply(&mut self, entry: &Entry, archive: &dyn Archive) -> Applied {
        let newest_wall_before = self.meta.newest_wall;
        let mut step = Step {
            state: self,
            archive,
            wall: entry.wall,
            newest_wall_before,
            by: None,
            steps_left: STEPS_PER_ENTRY,
            events: Vec::with_capacity(entry.commands.len() + 4),
            changes: Changes::with_room_for(entry.commands.len()),
            scratch: Vec::with_capacity(256),
            snapshots: Vec::new(),
            touched: Vec::with_capacity(entry.commands.len()),
            touched_spaces: BTreeSet::new(),
            touched_queues: BTreeSet::new(),
            used_queues: BTreeSet::new(),
            moved: BTreeMap::new(),
        };
        step.state.meta.now = step.state.meta.now.max(entry.at.min(TIME_MAX));
        step.state.meta.note_wall(entry.wall);
        step.forget_requests(entry.commands.len());
        step.work_off_due(&entry.commands);
        let outcomes = entry.commands.iter().map(|request| step.answer(request)).collect();
        step.work_off_backlog();
        step.finish(outcomes)
    }

    /// When something will happen by itself. May be too early, but never too late.
    #[must_use]
    pub fn next_deadlines(&self, archive: &dyn Archive) -> NextDeadlines {
        let left_over = !self.wakes.is_empty() || !self.busy_queues.is_empty() || self.meta.voiding.is_some();
        let purge = archive.retained_after(self.meta.purged_to).map(|retained| retained.purge_at);
        let time =
            if left_over { Some(self.meta.now) } else { self.deadlines.first_time().into_iter().chain(purge).min() };
        NextDeadlines { time, wall: self.deadlines.calendar.first().map(|(date, _)| *date) }
    }
}

/// One entry being applied.
pub(crate) struct Step<'a> {
    state: &'a mut State,
    archive: &'a dyn Archive,
    wall: Wall,
    /// [`State::newest_wall`] before this entry.
    newest_wall_before: Wall,
    /// The sender of the command that is being run.
    by: Option<Who>,
    steps_left: u32,
    events: Vec<Event>,
    changes: Changes,
    /// Buffers, reused for every command.
    scratch: Vec<u8>,
    snapshots: Vec<Option<Box<ItemSnapshot>>>,
    touched: Vec<ItemKey>,
    touched_spaces: BTreeSet<SpaceNo>,
    touched_queues: BTreeSet<QueueNo>,
    used_queues: BTreeSet<QueueNo>,
    /// Items that moved to the archive or came back from it in this step.
    moved: BTreeMap<(SpaceNo, ItemId), Option<Archived>>,
}

/// What every command needs to know about its request and sender.
#[derive(Clone, Copy)]
struct Sender<'r> {
    caller: &'r Caller,
    space_name: &'r SpaceName,
    /// None: nothing was ever created in the space.
    space: Option<SpaceNo>,
    /// The request under which the answer of a waiting claim is remembered.
    request: Option<RequestKey>,
    /// The request was answered `Waiting` before, so a repeat must not join the line again.
    is_poll: bool,
}

impl Step<'_> {
    fn run(&mut self, sender: Sender<'_>, command: &Command) -> Result<Outcome, Refusal> {
        if let Some(need) = Need::of(command, sender.caller) {
            self.check_right(sender, need)?;
        }
        match command {
            Command::Create(item) => self.create(sender, item),
            Command::CreateMany(items) => self.create_many(sender, items),
            Command::Claim(claim) => self.claim(sender, claim),
            Command::ClaimMany(many) => self.claim_many(sender, many),
            Command::Next(next) => self.next(sender, next),
            Command::Renew(renew) => self.renew(sender, renew),
            Command::RenewAll(all) => Ok(self.renew_all(sender, all)),
            Command::Extend(extend) => self.extend(sender, extend),
            Command::Release(release) => self.release(sender, release),
            Command::Reserve(reserve) => self.reserve(sender, reserve),
            Command::Withdraw { item } => self.withdraw(sender, item),
            Command::Reorder { item, actors } => self.reorder(sender, item, actors),
            Command::Revoke(revoke) => self.revoke(sender, revoke),
            Command::Assign { item, actor } => self.assign(sender, item, actor),
            Command::Unassign { item, actor } => self.unassign(sender, item, actor),
            Command::Update(update) => self.update(sender, update),
            Command::Activity(activity) => self.activity(sender, activity),
            Command::AwaitInput(wait) => self.await_input(sender, wait),
            Command::Resume(write) => self.resume(sender, write),
            Command::HandOn(hand_on) => self.hand_on(sender, hand_on),
            Command::Complete(complete) => self.complete(sender, complete),
            Command::Fail(fail) => self.fail(sender, fail),
            Command::Cancel(cancel) => self.cancel(sender, cancel),
            Command::Reopen { item } => self.reopen(sender, item),
            Command::Retry { item } => self.retry(sender, item),
            Command::SetPolicy(set) => self.set_policy(sender, set),
            Command::Pause { queue } => self.set_flow(sender, queue, Flow::Paused),
            Command::Unpause { queue } => self.set_flow(sender, queue, Flow::Open),
            Command::Drain { queue } => self.set_flow(sender, queue, Flow::Draining),
            Command::SetSpacePolicy(policy) => self.set_space_policy(sender, policy),
            Command::RegisterWorker(registration) => self.register_worker(sender, registration),
            Command::DrainWorker { worker } => self.drain_worker(sender, worker),
            Command::RemoveWorker { worker } => self.remove_worker(sender, worker),
            Command::BeginEpoch { token_floor } => self.begin_epoch(*token_floor, false),
            Command::Activate => self.activate(),
            Command::RaiseRules { version } => self.raise_rules(*version),
            Command::BeginEpochAcceptingClock { token_floor } => self.begin_epoch(*token_floor, true),
        }
    }

    /// Writes every touched record once, in its final state, and ends the step.
    fn finish(mut self, outcomes: Vec<Outcome>) -> Applied {
        for key in std::mem::take(&mut self.touched) {
            if !self.state.items.is_live(key) {
                continue;
            }
            let item = self.state.items.get_mut(key);
            let touched = std::mem::take(&mut item.touched);
            if touched.content {
                self.changes.put(&Key::Content(key.no), &item.stored_content());
            }
            if touched.standing {
                self.changes.put(&Key::Standing(key.no), &item.standing);
            }
            if touched.expiry {
                match &item.standing.lease {
                    Some(lease) => self.changes.put(&Key::Expiry(key.no), &lease.expires_at),
                    None => self.changes.remove(&Key::Expiry(key.no)),
                }
            }
        }
        for queue in std::mem::take(&mut self.touched_queues) {
            self.changes.put(&Key::Queue(queue), &self.state.queue(queue).queue);
        }
        for queue in std::mem::take(&mut self.used_queues) {
            if let Some(usage) = &self.state.queue(queue).usage {
                self.changes.put(&Key::QueueUsage(queue), usage);
            }
        }
        for space in std::mem::take(&mut self.touched_spaces) {
            self.changes.put(&Key::Space(space), self.state.space(space));
        }
        for event in &self.events {
            let space = self.state.space_numbers[&event.space];
            self.changes.put(&Key::Event(space, event.number), event);
        }
        self.changes.put(&Key::Meta, &self.state.meta);
        self.state.hash = self.state.hash.then(self.changes.as_bytes());
        if self.state.goes_by_later_rules() {
            self.state.hash = self.state.hash.then(b"later rules");
        }
        let openings = self.state.take_openings();
        Applied { outcomes, events: self.events, changes: self.changes, openings }
    }

    fn now(&self) -> Time {
        self.state.meta.now
    }

    fn item(&self, key: ItemKey) -> &Item {
        self.state.item(key)
    }

    fn policy(&self, key: ItemKey) -> &Policy {
        &self.state.queue_of(key).queue.policy
    }

    /// Changes an item's standing. Its record is written at the end of the step.
    fn change<R>(&mut self, key: ItemKey, change: impl FnOnce(&mut Item) -> R) -> R {
        self.touch(key);
        self.state.change(key, change)
    }

    fn touch(&mut self, key: ItemKey) {
        self.touch_records(key, |touched| touched.standing = true);
    }

    fn touch_content(&mut self, key: ItemKey) {
        self.touch_records(key, |touched| (touched.content, touched.standing) = (true, true));
    }

    fn touch_expiry(&mut self, key: ItemKey) {
        self.touch_records(key, |touched| touched.expiry = true);
    }

    fn touch_records(&mut self, key: ItemKey, touch: impl FnOnce(&mut Touched)) {
        let touched = &mut self.state.items.get_mut(key).touched;
        if !touched.is_any() {
            self.touched.push(key);
        }
        touch(touched);
    }

    fn set_state(&mut self, key: ItemKey, state: ItemState) {
        let now = self.now();
        self.change(key, |item| {
            item.standing.state = state;
            item.standing.since = now;
        });
    }
}
