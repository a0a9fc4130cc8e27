//! Commands on queues and spaces: policy, pause, unpause, drain.

use super::{Sender, Step};
use crate::command::SetPolicy;
use crate::event::What;
use crate::names::QueueName;
use crate::numbers::QueueNo;
use crate::outcome::Outcome;
use crate::policy::SpacePolicy;
use crate::queue::{Flow, Usage};
use crate::record::Key;
use crate::refusal::Refusal;
use crate::state::LiveQueue;

impl Step<'_> {
    pub(super) fn set_policy(&mut self, sender: Sender<'_>, set: &SetPolicy) -> Result<Outcome, Refusal> {
        let current = self.find_queue(sender, &set.queue).map(|no| &self.state.queue(no).queue);
        let version = current.map_or(0, |queue| queue.version);
        if set.version.is_some_and(|read| read != version) {
            return Err(Refusal::invalid("version", format!("the policy is at version {version}; read it again")));
        }
        let policy = current.map(|queue| queue.policy.clone()).unwrap_or_default().with(&set.settings)?;
        self.check_room(sender, Some(&set.queue))?;
        let space = self.ensure_space(sender.space_name);
        let no = self.ensure_queue(sender, space, &set.queue);
        let queue = &mut self.state.queue_mut(no).queue;
        queue.policy = policy;
        queue.version += 1;
        let version = queue.version;
        self.touched_queues.insert(no);
        self.state.note_work(no);
        self.state.openings.note_queue(no);
        self.emit_of_queue(no, What::PolicyChanged { version });
        Ok(Outcome::PolicySet { queue: set.queue.clone(), version })
    }

    /// Pause, unpause or drain. Idempotent.
    pub(super) fn set_flow(&mut self, sender: Sender<'_>, name: &QueueName, flow: Flow) -> Result<Outcome, Refusal> {
        self.check_room(sender, Some(name))?;
        let space = self.ensure_space(sender.space_name);
        let no = self.ensure_queue(sender, space, name);
        let before = self.state.queue(no).queue.flow;
        let is_drained = flow == Flow::Draining && before == Flow::Drained;
        if before != flow && !is_drained {
            self.touched_queues.insert(no);
            self.state.queue_mut(no).queue.flow = flow;
            self.use_queue(no, |_| {});
            self.state.note_work(no);
            self.state.openings.note_queue(no);
            let what = match flow {
                Flow::Open => What::Unpaused,
                Flow::Paused => What::Paused,
                Flow::Draining | Flow::Drained => What::DrainStarted,
            };
            self.emit_of_queue(no, what);
        }
        // The queue may be new, and it may happen that nothing is ever created in it.
        self.state.note_blank(no);
        Ok(Outcome::FlowSet { queue: name.clone(), flow: self.state.queue(no).queue.flow })
    }

    /// Updates the usage record of a queue.
    pub(super) fn use_queue(&mut self, no: QueueNo, change: impl FnOnce(&mut Usage)) {
        let now = self.now();
        let Some(usage) = &mut self.state.queue_mut(no).usage else { return };
        change(usage);
        usage.used_at = now;
        self.used_queues.insert(no);
        self.state.note_blank(no);
    }

    /// Removes a blank queue. There is no event, because nobody can notice the difference.
    pub(super) fn remove_queue(&mut self, no: QueueNo) {
        let LiveQueue { queue, usage, .. } = self.state.queues.remove(no);
        if let Some(usage) = usage {
            self.state.makers.change(queue.space, &usage.made_by, |made| made.queues -= 1);
        }
        self.state.queue_numbers.remove(&(queue.space, queue.name));
        self.state.busy_queues.remove(&no);
        self.touched_queues.remove(&no);
        self.used_queues.remove(&no);
        self.changes.remove(&Key::Queue(no));
        self.changes.remove(&Key::QueueUsage(no));
        self.state.space_mut(queue.space).counts.queues -= 1;
        self.touched_spaces.insert(queue.space);
    }

    pub(super) fn set_space_policy(&mut self, sender: Sender<'_>, policy: &SpacePolicy) -> Result<Outcome, Refusal> {
        self.check_room(sender, None)?;
        let no = self.ensure_space(sender.space_name);
        let space = self.state.space_mut(no);
        space.policy = policy.clone();
        space.version += 1;
        let version = space.version;
        self.touched_spaces.insert(no);
        self.emit(no, None, What::SpacePolicyChanged { version });
        Ok(Outcome::SpacePolicySet { version })
    }
}
