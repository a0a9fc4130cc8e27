//! Requests that are invalid whatever the state.

use super::World;
use lease::caller::Caller;
use lease::command::{Claim, ClaimMany, Command, Extend, Next, Renew, SetPolicy, Update, Write};
use lease::names::SpaceName;
use lease::numbers::{Span, Token};
use lease::policy::Setting;

impl World {
    /// A request that is invalid whatever the state.
    pub(super) fn invalid(&mut self, space: &SpaceName, caller: &Caller) -> Command {
        let item = self.item(space);
        match self.random.below(12) {
            0 => Command::Claim(Claim { lease_for: Some(Span(0)), ..Claim::new(item) }),
            1 => Command::Next(Next { count: 0, ..Next::new(self.queue()) }),
            2 => Command::Next(Next { count: 101, ..Next::new(self.queue()) }),
            3 => Command::CreateMany(Vec::new()),
            4 => {
                let mut new = self.new_item(space, caller);
                new.depends_on = vec![new.id.clone()];
                Command::Create(Box::new(new))
            }
            5 => {
                let (mut one, mut two) = (self.new_item(space, caller), self.new_item(space, caller));
                one.depends_on = vec![two.id.clone()];
                two.depends_on = vec![one.id.clone()];
                Command::CreateMany(vec![one, two])
            }
            6 => Command::Renew(Renew { item, token: Token(0), lease_for: None }),
            7 => Command::Extend(Extend { item, token: Token(1), by: Span(u64::MAX) }),
            8 => {
                let mut claim = self.claim(space);
                claim.on_conflict = self.patience();
                Command::ClaimMany(ClaimMany { claims: vec![claim], releases: Vec::new(), all_or_none: true })
            }
            9 => Command::SetPolicy(SetPolicy {
                queue: self.queue(),
                settings: vec![Setting::Retention(Span(0))],
                version: None,
            }),
            10 => {
                let mut new = self.new_item(space, caller);
                new.title = "t".repeat(513);
                Command::Create(Box::new(new))
            }
            _ => {
                let write = Write { item, token: None, read_at: None };
                Command::Update(Update { write, edits: Vec::new(), start: false })
            }
        }
    }
}
