//! Emits events. Each gets the next number of its space.

use super::Step;
use crate::event::{Event, What};
use crate::item::Field;
use crate::names::{ActorId, ItemId, QueueName};
use crate::numbers::{EventNumber, QueueNo, SpaceNo};
use crate::state::item_key::ItemKey;

impl Step<'_> {
    /// Emits an event of a space, or of one of its queues or workers.
    pub(super) fn emit(&mut self, space: SpaceNo, queue: Option<QueueName>, what: What) -> EventNumber {
        self.emit_event(space, queue, None, None, what)
    }

    pub(super) fn emit_event(
        &mut self,
        space: SpaceNo,
        queue: Option<QueueName>,
        item: Option<ItemId>,
        local_to: Option<ActorId>,
        what: What,
    ) -> EventNumber {
        let epoch = self.state.meta.epoch;
        let at = self.now();
        let wall = self.wall;
        let by = self.by.clone();
        let space_record = self.state.space_mut(space);
        space_record.last_event += 1;
        let number = EventNumber { epoch, seq: space_record.last_event };
        let space_name = space_record.name.clone();
        self.touched_spaces.insert(space);
        self.events.push(Event { space: space_name, number, at, wall, by, queue, item, local_to, what });
        number
    }

    pub(super) fn emit_of_queue(&mut self, queue: QueueNo, what: What) {
        let record = &self.state.queue(queue).queue;
        let (space, name) = (record.space, record.name.clone());
        self.emit(space, Some(name), what);
    }

    pub(super) fn emit_of(&mut self, key: ItemKey, what: What) -> EventNumber {
        let item = self.item(key);
        let (space, id) = (item.space, item.id.clone());
        let local_to = item.content.mode.owner().cloned();
        let queue = self.state.queue(item.queue).queue.name.clone();
        self.emit_event(space, Some(queue), Some(id), local_to, what)
    }

    /// Emits an event that changed these fields of the item. Its number becomes the item's revision.
    pub(super) fn emit_content(&mut self, key: ItemKey, what: What, fields: &[Field]) {
        let number = self.emit_of(key, what);
        if fields.is_empty() {
            return;
        }
        self.change(key, |item| {
            item.standing.revision = number;
            let changed = item.standing.changed.get_or_insert_default();
            changed.0.extend(fields.iter().map(|field| (*field, number)));
        });
    }
}
