//! A request for each verb: by whom, about which item, with which arguments.

use super::verb::Verb;
use super::{Known, World};
use lease::caller::Caller;
use lease::command::{
    Activity, AwaitInput, Cancel, Command, Complete, Extend, Fail, HandOn, Registration, Release, Renew, RenewAll,
    Request, Reserve, Revoke, Update, Write,
};
use lease::item::{ActivityKind, RunsIn};
use lease::names::SpaceName;
use lease::numbers::{EventNumber, Span, Token};

impl World {
    pub(super) fn request_of(&mut self, verb: Verb) -> Request {
        let space = match &self.focus {
            Some((space, _)) if self.random.percent(80) => space.clone(),
            _ => self.spaces[usize::from(self.random.percent(25))].clone(),
        };
        let mut caller = self.caller();
        if verb.is_operators() && self.random.percent(85) {
            caller = self.operator();
        }
        let command = match verb {
            Verb::Create => Command::Create(Box::new(self.new_item(&space, &caller))),
            Verb::CreateMany => self.create_many(&space),
            Verb::Claim => Command::Claim(self.claim(&space)),
            Verb::Wait => {
                let mut claim = self.claim(&space);
                if self.random.percent(70)
                    && let Some(known) = self.held_in(&space)
                {
                    claim.item = known.item;
                }
                claim.on_conflict = self.patience();
                Command::Claim(claim)
            }
            Verb::ClaimMany => {
                // The caller of the claims also sends the releases.
                let known = self.held_in(&space).filter(|_| self.random.percent(70));
                if let Some(known) = &known {
                    caller = self.caller_of(&known.holder);
                }
                self.claim_many(&space, &caller)
            }
            Verb::Next => Command::Next(self.next()),
            Verb::RenewAll => {
                let expected = self.random.below(3);
                let expected = (0..expected).map(|_| (self.item(&space), self.stray_token())).collect();
                Command::RenewAll(RenewAll { lease_for: self.lease_for(), expected })
            }
            Verb::Withdraw => {
                if let Some(waiting) = self.some_waiting() {
                    let Command::Claim(claim) = &waiting.command else { unreachable!("only claims wait") };
                    let command = Command::Withdraw { item: claim.item.clone() };
                    return self.fresh(waiting.space, waiting.caller, command);
                }
                Command::Withdraw { item: self.item(&space) }
            }
            Verb::Reorder => {
                let mut actors: Vec<_> = self.actors.iter().map(|caller| caller.actor.clone()).collect();
                let first = self.random.index(actors.len());
                actors.swap(0, first);
                actors.truncate(self.random.index(3));
                let waiting = self.some_waiting();
                let item = match waiting.map(|waiting| waiting.command) {
                    Some(Command::Claim(claim)) => claim.item,
                    _ => self.item(&space),
                };
                Command::Reorder { item, actors }
            }
            Verb::Revoke => Command::Revoke(Revoke {
                item: self.item_likely_held(&space),
                reason: "because".into(),
                assign_to: self.random.maybe(30, |random| random.pick(&self.actors).actor.clone()),
            }),
            Verb::Assign => {
                Command::Assign { item: self.item(&space), actor: self.random.pick(&self.actors).actor.clone() }
            }
            Verb::Unassign => {
                Command::Unassign { item: self.item(&space), actor: self.random.pick(&self.actors).actor.clone() }
            }
            Verb::Cancel => Command::Cancel(Cancel {
                item: if self.random.percent(60) { self.item_likely_held(&space) } else { self.item(&space) },
                reason: "enough".into(),
                force: self.random.percent(25),
            }),
            Verb::Reopen => {
                let ended = self.item_there(&space, true).filter(|_| self.random.percent(70));
                Command::Reopen { item: ended.unwrap_or_else(|| self.item(&space)) }
            }
            Verb::Retry => {
                let ended = self.item_there(&space, true).filter(|_| self.random.percent(30));
                Command::Retry { item: ended.unwrap_or_else(|| self.item(&space)) }
            }
            Verb::SetPolicy => self.set_policy(),
            Verb::Pause => Command::Pause { queue: self.queue() },
            Verb::Unpause if self.random.percent(30) => Command::Unpause { queue: self.unused_queue() },
            Verb::Unpause => Command::Unpause { queue: self.queue() },
            Verb::Drain => Command::Drain { queue: self.queue() },
            Verb::SetSpacePolicy => Command::SetSpacePolicy(self.space_policy()),
            Verb::RegisterWorker => Command::RegisterWorker(Registration {
                capabilities: self.labels(3),
                labels: self.labels(2),
                mode: *self.random.pick(&[RunsIn::Any, RunsIn::Any, RunsIn::Cloud, RunsIn::Local]),
                alive_for: Span(self.random.between(1, 30_000)),
            }),
            Verb::DrainWorker | Verb::RemoveWorker => {
                let worker = if self.random.percent(60) { caller.holder() } else { self.caller().holder() };
                if verb == Verb::DrainWorker {
                    Command::DrainWorker { worker }
                } else {
                    Command::RemoveWorker { worker }
                }
            }
            Verb::BeginEpoch => {
                let token_floor = self.random.maybe(10, |random| Token(random.between(1, 1 << 50)));
                match self.random.percent(30) {
                    true => Command::BeginEpochAcceptingClock { token_floor },
                    false => Command::BeginEpoch { token_floor },
                }
            }
            Verb::Activate => Command::Activate,
            Verb::RaiseRules => Command::RaiseRules { version: u32::from(self.random.percent(80)) },
            Verb::Invalid => self.invalid(&space, &caller),
            Verb::Renew
            | Verb::Extend
            | Verb::Release
            | Verb::Reserve
            | Verb::Update
            | Verb::Activity
            | Verb::AwaitInput
            | Verb::Resume
            | Verb::HandOn
            | Verb::Complete
            | Verb::Fail => return self.holders_request(verb, space, caller),
        };
        self.fresh(space, caller, command)
    }

    /// A command about the holder's lease, one that it lost, or another actor's.
    pub(super) fn holders_request(&mut self, verb: Verb, space: SpaceName, stranger: Caller) -> Request {
        let known = match self.random.below(100) {
            0..78 => self.some_held(),
            78..92 => self.random.maybe(100, |random| random.index(self.gone.len())).and_then(|index| {
                // The lease that was lost last is named most often.
                let index = if index % 2 == 0 { self.gone.len().checked_sub(1)? } else { index };
                self.gone.get(index).cloned()
            }),
            _ => None,
        };
        let known = known.unwrap_or_else(|| Known {
            item: self.item(&space),
            token: self.stray_token(),
            holder: stranger.holder(),
            space,
        });
        let mut caller = self.caller_of(&known.holder);
        let mut token = Some(known.token);
        match self.random.below(100) {
            0..4 => caller = stranger,
            4..7 => caller.session = self.random.pick(&self.sessions).clone(),
            7..10 => token = Some(self.stray_token()),
            10..14 => token = None,
            _ => {}
        }
        let path = (known.space.clone(), known.item.clone());
        let read_at = match self.random.below(100) {
            0..60 => self.revisions.get(&path).copied(),
            60..70 => Some(EventNumber { seq: self.random.below(50), ..EventNumber::default() }),
            _ => None,
        };
        let item = known.item;
        let bare = token.unwrap_or(known.token);
        let write = Write { item: item.clone(), token, read_at };
        let command = match verb {
            Verb::Renew => Command::Renew(Renew { item, token: bare, lease_for: self.lease_for() }),
            Verb::Extend => Command::Extend(Extend { item, token: bare, by: Span(self.random.between(1, 70_000)) }),
            Verb::Release => Command::Release(Release { item, token, keep_assignment: self.random.percent(25) }),
            Verb::Reserve => Command::Reserve(Reserve {
                item,
                token: bare,
                span: self.random.maybe(70, |random| Span(random.between(1, 90_000))),
            }),
            Verb::Update => {
                if self.random.percent(15) {
                    let write = Write { token: None, ..write };
                    Command::Update(Update { write, edits: self.edits(&path.0, &caller), start: true })
                } else {
                    Command::Update(Update { write, edits: self.edits(&path.0, &caller), start: false })
                }
            }
            Verb::Activity => {
                use ActivityKind::{ExternalUrlUpdated, PlanUpdated, PolicyDecision, Progress};
                let kind = *self.random.pick(&[Progress, PlanUpdated, ExternalUrlUpdated, PolicyDecision]);
                Command::Activity(Activity { write, kind, note: self.words() })
            }
            Verb::AwaitInput => Command::AwaitInput(AwaitInput { write, question: "which?".into() }),
            Verb::Resume => Command::Resume(write),
            Verb::HandOn => Command::HandOn(HandOn { write, phase: self.phase() }),
            Verb::Complete => {
                let result = self.random.maybe(50, |_| "done".to_owned());
                Command::Complete(Complete { write, result })
            }
            _ => Command::Fail(Fail {
                write,
                error: self.random.maybe(50, |_| "broke".to_owned()),
                is_final: self.random.percent(20),
            }),
        };
        self.fresh(path.0, caller, command)
    }
}
