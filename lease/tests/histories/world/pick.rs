//! Picks of what is there: a caller, a queue, an item, a lease that is or was held.

use super::{Known, World};
use lease::Request;
use lease::caller::{Caller, Holder, Verified};
use lease::names::{ItemId, QueueName, SpaceName};
use lease::numbers::Token;

impl World {
    pub(super) fn caller(&mut self) -> Caller {
        let among = if self.random.percent(90) { self.crowd } else { self.actors.len() };
        let mut caller = self.random.pick(&self.actors[..among]).clone();
        caller.session = self.random.pick(&self.sessions).clone();
        self.verify(caller)
    }

    pub(super) fn verify(&mut self, mut caller: Caller) -> Caller {
        caller.verified = match self.random.below(100) {
            0..80 => Verified::Checked,
            80..90 => Verified::FromCache,
            _ => Verified::SelfReported,
        };
        caller
    }

    pub(super) fn operator(&mut self) -> Caller {
        let mut caller = self.actors.last().expect("ops").clone();
        caller.session = self.random.pick(&self.sessions).clone();
        caller
    }

    pub(super) fn caller_of(&mut self, holder: &Holder) -> Caller {
        let of = self.actors.iter().find(|caller| caller.actor == holder.actor).expect("one of ours");
        let caller = Caller { session: holder.session.clone(), ..of.clone() };
        self.verify(caller)
    }

    pub(super) fn queue(&mut self) -> QueueName {
        self.random.pick(&self.queues).clone()
    }

    /// A queue in which nothing is ever created.
    pub(super) fn unused_queue(&mut self) -> QueueName {
        QueueName::new(&format!("unused{}", self.random.below(3))).expect("a name")
    }

    pub(super) fn item(&mut self, space: &SpaceName) -> ItemId {
        if let Some((of, item)) = &self.focus
            && of == space
            && self.random.percent(35)
        {
            return item.clone();
        }
        if self.random.percent(60)
            && let Some(item) = self.item_there(space, false)
        {
            return item;
        }
        self.any_item(space)
    }

    /// An existing item, terminal or not.
    pub(super) fn item_there(&mut self, space: &SpaceName, terminal: bool) -> Option<ItemId> {
        let there = self.there.iter().filter(|((of, _), is_terminal)| of == space && **is_terminal == terminal);
        let there: Vec<_> = there.map(|((_, item), _)| item).collect();
        if there.is_empty() { None } else { Some((*self.random.pick(&there)).clone()) }
    }

    pub(super) fn any_item(&mut self, space: &SpaceName) -> ItemId {
        let of = if *space == self.spaces[0] { &self.items } else { &self.items_elsewhere };
        self.random.pick(of).clone()
    }

    pub(super) fn held_in(&mut self, space: &SpaceName) -> Option<Known> {
        let here: Vec<_> = self.held.values().filter(|known| known.space == *space).collect();
        if here.is_empty() { None } else { Some((*self.random.pick(&here)).clone()) }
    }

    pub(super) fn some_held(&mut self) -> Option<Known> {
        let index = self.random.index(self.held.len());
        self.held.values().nth(index).cloned()
    }

    pub(super) fn some_waiting(&mut self) -> Option<Request> {
        if self.waiting.is_empty() { None } else { Some(self.random.pick(&self.waiting).clone()) }
    }

    pub(super) fn item_likely_held(&mut self, space: &SpaceName) -> ItemId {
        match self.held_in(space) {
            Some(known) if self.random.percent(85) => known.item,
            _ => self.item(space),
        }
    }

    /// A token of another item, or one that was never minted.
    pub(super) fn stray_token(&mut self) -> Token {
        match self.some_held() {
            Some(known) if self.random.percent(70) => known.token,
            _ => Token(self.random.between(1, 2_000)),
        }
    }
}
