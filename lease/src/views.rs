//! Read-only views, reduced to what the viewer may see. Each is a function of the state and the viewer, and none makes
//! decisions. Views that may examine much do so in bounded parts, so that others do not have to wait for the state.

mod carrying;
mod claim_walk;
mod event;
mod item;
mod line;
mod list;
mod queue;
mod space;
mod worker;

pub use carrying::Carrying;
pub use claim_walk::ClaimWalk;
pub use item::{IfClaimed, ItemView, WaitsFor};
pub use line::PlaceView;
pub use list::{ClaimStatus, Page, Query};
pub use queue::{ClaimSummary, QueueStats};
pub use space::SpaceStats;
pub use worker::WorkerView;

use crate::archive::Archive;
use crate::caller::Caller;
use crate::disclose::{self, Sight};
use crate::item::Content;
use crate::names::{ItemId, QueueName, SpaceName};
use crate::numbers::SpaceNo;
use crate::queue::Queue;
use crate::rights::Whereabouts;
use crate::state::State;
use crate::state::item_key::ItemKey;

impl State {
    /// Whether the viewer may know of an item that something else refers to: it exists and the viewer may see it. An
    /// operator of the whole space may also know of items that no longer exist.
    fn may_name(&self, archive: &dyn Archive, viewer: &Caller, space: SpaceNo, id: &ItemId) -> bool {
        viewer.runs_space()
            || match self.items.find(space, id) {
                Some(key) => self.is_shown(viewer, key),
                None => archive.item(space, id).is_some_and(|archived| {
                    let queue = self.queues.find(archived.queue);
                    queue.is_some_and(|indexed| is_open_to(viewer, &indexed.queue, &archived.content))
                }),
            }
    }

    /// Whether the viewer may see the actors in the events of a queue's items.
    #[must_use]
    pub fn sees_all_of(&self, viewer: &Caller, space: &SpaceName, queue: &QueueName) -> bool {
        let no = self.space_no(space).and_then(|space| self.queue_numbers.get(&(space, queue.clone())));
        no.is_some_and(|no| disclose::sight_of_list(viewer, &self.queue(*no).queue) == Sight::All)
    }

    fn is_shown(&self, viewer: &Caller, key: ItemKey) -> bool {
        let item = self.item(key);
        is_open_to(viewer, &self.queue(item.queue).queue, &item.content)
    }
}

/// Whether the viewer may see an item of a queue.
fn is_open_to(viewer: &Caller, queue: &Queue, content: &Content) -> bool {
    Whereabouts { queue: &queue.name, is_open: content.mode.is_open_to(viewer) }.is_visible_to(viewer)
}
