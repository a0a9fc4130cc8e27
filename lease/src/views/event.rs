//! Events.

use crate::archive::Archive;
use crate::caller::Caller;
use crate::disclose::{self, EventView};
use crate::event::Event;
use crate::names::ItemId;
use crate::queue::Queue;
use crate::state::State;
use std::borrow::Cow;

impl State {
    /// The event as this viewer may see it. None: the viewer may not see it at all.
    #[must_use]
    pub fn view_event(&self, archive: &dyn Archive, viewer: &Caller, event: &Event) -> Option<EventView> {
        let space = self.space_numbers.get(&event.space).copied();
        let may_name = |id: &ItemId| space.is_some_and(|space| self.may_name(archive, viewer, space, id));
        disclose::event(event, viewer, self.queue_of_event(event).as_deref(), may_name)
    }

    /// The queue that an event names, for [`disclose::event`].
    #[must_use]
    pub fn queue_of_event(&self, event: &Event) -> Option<Cow<'_, Queue>> {
        let space = *self.space_numbers.get(&event.space)?;
        let name = event.queue.clone()?;
        let Some(no) = self.queue_numbers.get(&(space, name.clone())) else {
            // The queue has been removed, so it had no policy of its own.
            return Some(Cow::Owned(Queue::new(self.queues.first_free(), space, name)));
        };
        Some(Cow::Borrowed(&self.queue(*no).queue))
    }
}
