//! Spaces and queues, which are created on first use.

use super::{Sender, Step};
use crate::bounds::{QUEUES_PER_SPACE, SPACES};
use crate::names::{QueueName, SpaceName};
use crate::numbers::{QueueNo, SpaceNo};
use crate::policy::SpacePolicy;
use crate::queue::{Queue, Usage};
use crate::refusal::Refusal;
use crate::share::Bound;
use crate::space::{Space, SpaceCounts};
use crate::state::LiveQueue;

impl Step<'_> {
    pub(super) fn ensure_space(&mut self, name: &SpaceName) -> SpaceNo {
        if let Some(no) = self.state.space_numbers.get(name) {
            return *no;
        }
        let no = SpaceNo(u32::try_from(self.state.spaces.len()).expect("fewer than four billion spaces"));
        self.state.space_numbers.insert(name.clone(), no);
        self.state.spaces.push(Space {
            no,
            name: name.clone(),
            last_event: 0,
            version: 0,
            policy: SpacePolicy::default(),
            counts: SpaceCounts::default(),
        });
        self.touched_spaces.insert(no);
        no
    }

    /// Checks that the space and the queue in it exist or can still be created.
    pub(super) fn check_room(&self, sender: Sender<'_>, queue: Option<&QueueName>) -> Result<(), Refusal> {
        let full = |what: &str, max: u64| {
            Err(Refusal::invalid(what, format!("cannot be created; the limit of {max} is reached")))
        };
        let Some(space) = sender.space else {
            return if self.state.spaces.len() < SPACES { Ok(()) } else { full("space", SPACES as u64) };
        };
        if queue.is_none_or(|name| self.find_queue(sender, name).is_some()) {
            return Ok(());
        }
        let used = self.state.space(space).counts.queues;
        let bound = Bound { max: QUEUES_PER_SPACE, used, at_least: 1 };
        if bound.admits(1, || self.state.makers.get(space, &sender.caller.actor).queues) {
            Ok(())
        } else if used < QUEUES_PER_SPACE {
            let why =
                format!("cannot be created; the rest of the limit of {QUEUES_PER_SPACE} is kept for actors with few");
            Err(Refusal::invalid("queue", why))
        } else {
            full("queue", QUEUES_PER_SPACE)
        }
    }

    /// Returns the queue, which is created on first use.
    pub(super) fn ensure_queue(&mut self, sender: Sender<'_>, space: SpaceNo, name: &QueueName) -> QueueNo {
        if let Some(no) = self.state.queue_numbers.get(&(space, name.clone())) {
            return *no;
        }
        let no = self.state.queues.first_free();
        self.state.queue_numbers.insert((space, name.clone()), no);
        let queue = Queue::new(no, space, name.clone());
        let usage = Usage { made_by: sender.caller.actor.clone(), terminal: 0, used_at: self.now() };
        self.state.queues.insert(LiveQueue::new(queue, Some(usage)));
        self.state.makers.change(space, &sender.caller.actor, |made| made.queues += 1);
        self.state.space_mut(space).counts.queues += 1;
        self.touched_spaces.insert(space);
        self.touched_queues.insert(no);
        self.used_queues.insert(no);
        no
    }
}
