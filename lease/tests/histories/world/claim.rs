//! Claims: of one item, of several, of the next.

use super::{World, label, small};
use lease::caller::Caller;
use lease::command::{Claim, ClaimMany, Command, Filter, Next, OnConflict, Order, Release};
use lease::item::{Mirrors, RunsIn, Transition};
use lease::names::SpaceName;
use lease::numbers::Span;

impl World {
    pub(super) fn lease_for(&mut self) -> Option<Span> {
        match self.random.below(10) {
            0..5 => None,
            5..9 => Some(Span(self.random.between(1, 20_000))),
            _ => Some(Span(self.random.between(1, 200_000))),
        }
    }

    pub(super) fn patience(&mut self) -> OnConflict {
        OnConflict::Wait {
            wait_for: self.random.maybe(25, |random| Span(random.between(1, 20_000))),
            line_max: self.random.maybe(15, |random| u32::try_from(random.below(4)).expect("small")),
        }
    }

    pub(super) fn mirrors(&mut self) -> Mirrors {
        match self.random.below(10) {
            0..8 => Mirrors::ALL,
            8 => Mirrors::NONE,
            _ => Mirrors::NONE.with(Transition::Completed),
        }
    }

    pub(super) fn claim(&mut self, space: &SpaceName) -> Claim {
        Claim {
            lease_for: self.lease_for(),
            action: self.random.maybe(10, |_| "edit".to_owned()),
            field: self.random.maybe(5, |_| "title".to_owned()),
            takeover: self.random.percent(20),
            mirrors: self.mirrors(),
            ..Claim::new(self.item(space))
        }
    }

    pub(super) fn claim_many(&mut self, space: &SpaceName, caller: &Caller) -> Command {
        let all_or_none = self.random.percent(50);
        let own: Vec<_> =
            self.held.values().filter(|known| known.space == *space && known.holder.is(caller)).cloned().collect();
        let mut claims = Vec::new();
        for _ in 0..self.random.between(1, 4) {
            let mut claim = self.claim(space);
            if self.random.percent(30) && !own.is_empty() {
                claim.item = self.random.pick(&own).item.clone();
            }
            if !all_or_none && self.random.percent(25) {
                claim.on_conflict = self.patience();
            }
            claims.push(claim);
        }
        let mut releases = Vec::new();
        for known in own {
            if self.random.percent(40) && claims.iter().all(|claim| claim.item != known.item) {
                let token = self.random.maybe(60, |_| known.token);
                releases.push(Release { item: known.item, token, keep_assignment: self.random.percent(20) });
            }
        }
        Command::ClaimMany(ClaimMany { claims, releases, all_or_none })
    }

    pub(super) fn next(&mut self) -> Next {
        let filter = Filter {
            labels: self.random.maybe(8, |_| label("l0")).into_iter().collect(),
            capabilities: match self.random.below(10) {
                0..5 => Some(vec![label("l0"), label("l1"), label("l2")]),
                5..7 => Some(self.labels(2)),
                _ => None,
            },
            phase: if self.random.percent(8) { Some(self.phase()) } else { None },
            mode: self.random.maybe(8, |random| *random.pick(&[RunsIn::Any, RunsIn::Cloud, RunsIn::Local])),
            parent: self.random.maybe(4, |random| random.pick(&self.items).clone()),
            ancestor: self.random.maybe(4, |random| random.pick(&self.items).clone()),
            priority_min: self.random.maybe(5, |random| small(random.below(8))),
            priority_max: self.random.maybe(5, |random| small(random.below(10))),
        };
        Next {
            filter,
            lease_for: self.lease_for(),
            count: u32::from(small(*self.random.pick(&[1, 1, 1, 2, 3, 10]))),
            order: *self.random.pick(&[Order::Priority, Order::Priority, Order::Oldest, Order::Newest]),
            mirrors: self.mirrors(),
            ..Next::new(self.queue())
        }
    }
}
