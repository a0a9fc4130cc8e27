//! Finds what a command names, and checks that its sender has the right to it.

use super::{Sender, Step};
use crate::caller::Caller;
use crate::names::{ItemId, QueueName};
use crate::numbers::{QueueNo, SpaceNo};
use crate::record::Archived;
use crate::refusal::Refusal;
use crate::rights::{Need, Whereabouts};
use crate::state::item_key::ItemKey;

/// An item that a command names.
pub(super) enum Found {
    Live(ItemKey),
    Archived(Box<Archived>),
}

impl Step<'_> {
    pub(super) fn find(&self, space: SpaceNo, id: &ItemId) -> Option<Found> {
        if let Some(key) = self.state.items.find(space, id) {
            return Some(Found::Live(key));
        }
        if let Some(moved) = self.moved.get(&(space, id.clone())) {
            return moved.clone().map(|archived| Found::Archived(Box::new(archived)));
        }
        self.archive.item(space, id).map(|archived| Found::Archived(Box::new(archived)))
    }

    /// Called before each command and for each entry of a batch.
    pub(super) fn check_right(&self, sender: Sender<'_>, need: Need<'_>) -> Result<(), Refusal> {
        need.check(sender.caller, |id| Some(self.whereabouts(sender.caller, &self.find(sender.space?, id)?)))
    }

    pub(super) fn whereabouts(&self, caller: &Caller, found: &Found) -> Whereabouts<'_> {
        let (queue, mode) = match found {
            Found::Live(key) => (self.item(*key).queue, &self.item(*key).content.mode),
            Found::Archived(archived) => (archived.queue, &archived.content.mode),
        };
        Whereabouts { queue: &self.state.queue(queue).queue.name, is_open: mode.is_open_to(caller) }
    }

    /// The item that a command acts on. Call [`Step::check_right`] first.
    pub(super) fn find_item(&self, sender: Sender<'_>, id: &ItemId) -> Result<Found, Refusal> {
        sender.space.and_then(|space| self.find(space, id)).ok_or(Refusal::NotFound)
    }

    /// Like [`Step::find_item`], for items that are not terminal.
    pub(super) fn find_live(&self, sender: Sender<'_>, id: &ItemId) -> Result<ItemKey, Refusal> {
        match self.find_item(sender, id)? {
            Found::Live(key) => Ok(key),
            Found::Archived(_) => Err(Refusal::TerminalItem),
        }
    }

    /// An item that a command refers to. A hidden item gets the same answer as one that does not exist.
    pub(super) fn find_visible(&self, sender: Sender<'_>, id: &ItemId) -> Result<Found, Refusal> {
        let found = self.find_item(sender, id)?;
        if self.whereabouts(sender.caller, &found).is_visible_to(sender.caller) {
            Ok(found)
        } else {
            Err(Refusal::NotFound)
        }
    }

    pub(super) fn find_queue(&self, sender: Sender<'_>, name: &QueueName) -> Option<QueueNo> {
        self.state.queue_numbers.get(&(sender.space?, name.clone())).copied()
    }
}
