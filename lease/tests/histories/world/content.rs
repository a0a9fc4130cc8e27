//! New items, and edits of their content.

use super::{World, label, small};
use lease::Command;
use lease::caller::Caller;
use lease::item::{Edit, Mode, NewItem, Part};
use lease::names::{Label, Phase, SpaceName};
use lease::numbers::{Span, Wall};

impl World {
    pub(super) fn labels(&mut self, most: usize) -> Vec<Label> {
        (0..most).filter(|_| self.random.percent(25)).map(|number| label(&format!("l{number}"))).collect()
    }

    pub(super) fn phase(&mut self) -> Phase {
        let name = *self.random.pick(&["work", "review", "in_progress", "triage"]);
        Phase::new(name).expect("a name")
    }

    pub(super) fn words(&mut self) -> String {
        "w".repeat(self.random.index(12))
    }

    pub(super) fn new_item(&mut self, space: &SpaceName, caller: &Caller) -> NewItem {
        let id = self.any_item(space);
        let mut item = NewItem::new(id.clone(), self.queue());
        // Most creations of one id have the same content, so some find that their item exists.
        if self.random.percent(25) {
            item.queue = self.queues[0].clone();
            return item;
        }
        let other = |world: &mut Self| Some(world.item(space)).filter(|other| *other != id);
        item.priority = small(self.random.below(10));
        item.labels = self.labels(2);
        item.needs = if self.random.percent(25) { self.labels(3) } else { Vec::new() };
        if self.random.percent(15) {
            item.parent = other(self);
        }
        if self.random.percent(25) {
            item.target = other(self);
        }
        if self.random.percent(25) {
            let depends_on = (0..self.random.between(1, 3)).filter_map(|_| other(self));
            item.depends_on = depends_on.collect();
            item.depends_on.sort();
            item.depends_on.dedup();
        }
        item.delay = self.random.maybe(12, |random| Span(random.between(1, 20_000)));
        if self.random.percent(12) {
            item.not_before = Some(Wall(self.wall + self.random.below(60_000)));
        }
        item.mode = match self.random.below(20) {
            0..2 => Mode::Cloud,
            2 => Mode::Local { owner: caller.actor.clone() },
            _ => Mode::Any,
        };
        if self.random.percent(10) {
            item.phase = Some(self.phase());
        }
        if self.random.percent(20) {
            item.body = vec![(Part::Prompt, "p".repeat(1 + self.random.index(20)))];
        }
        item
    }

    pub(super) fn create_many(&mut self, space: &SpaceName) -> Command {
        let creator = self.actors.last().expect("ops").clone();
        let count = self.random.between(1, 6);
        Command::CreateMany((0..count).map(|_| self.new_item(space, &creator)).collect())
    }

    pub(super) fn edits(&mut self, space: &SpaceName, caller: &Caller) -> Vec<Edit> {
        let edit = |world: &mut Self| match world.random.below(14) {
            0..2 => Edit::Title(world.words()),
            2 => Edit::Priority(small(world.random.below(10))),
            3 => Edit::Labels(world.labels(2)),
            4 => Edit::Needs(world.labels(3)),
            5 => Edit::Parent(Some(world.item(space)).filter(|_| world.random.percent(60))),
            6 => Edit::Target(Some(world.item(space)).filter(|_| world.random.percent(70))),
            7 => Edit::NotBefore(Some(Wall(world.wall)).filter(|_| world.random.percent(50))),
            8 => Edit::Mode(match world.random.below(4) {
                0 => Mode::Local { owner: caller.actor.clone() },
                1 => Mode::Cloud,
                _ => Mode::Any,
            }),
            9 => Edit::Phase(world.phase()),
            10..12 => Edit::Body(Part::Plan, world.words()),
            _ => Edit::Body(Part::Context, world.words()),
        };
        (0..self.random.between(1, 2)).map(|_| edit(self)).collect()
    }
}
