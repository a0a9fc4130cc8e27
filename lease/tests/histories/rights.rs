//! When a node refuses a command for lack of a right before it is applied, applying it has the same outcome; and a
//! command that the node admits is not refused for lack of a right.

use crate::run::Failure;
use crate::store::Store;
use lease::caller::Role;
use lease::command::{Command, Entry, Request};
use lease::item::Edit;
use lease::{Applied, Code, Foreseen, Outcome, Refusal, State};
use std::collections::BTreeSet;

/// What is foreseen of an entry's first command, in the state that it meets.
#[derive(Debug, Default)]
pub(crate) struct Rights {
    foreseen: Option<Foreseen>,
    /// Request ids that were sent before.
    sent: BTreeSet<String>,
    pub(crate) refused: u64,
}

impl Rights {
    /// Called before the entry is applied.
    pub(crate) fn foresee(&mut self, state: &State, store: &Store, entry: &Entry) {
        self.foreseen = None;
        let Some(request) = entry.commands.first().filter(|request| lease::validate(request).is_ok()) else { return };
        // Time passes first, and what is due happens.
        let (mut state, mut store) = (state.clone(), store.clone());
        let ticked = state.apply(&Entry { commands: Vec::new(), ..*entry }, &store);
        store.take(&ticked.changes, |_| false);
        self.foreseen = state.foresee(&store, request);
    }

    pub(crate) fn check(&mut self, entry: &Entry, applied: &Applied) -> Result<(), Failure> {
        let sent: Vec<String> = entry.commands.iter().map(name_of).collect();
        let is_first_time = sent.first().is_some_and(|name| !self.sent.contains(name));
        self.sent.extend(sent);
        let (Some(request), Some(outcome)) = (entry.commands.first(), applied.outcomes.first()) else { return Ok(()) };
        let fail = |kind: &str, what: String| {
            Err(Failure::new(format!("rights: {kind}"), format!("{request:?}\n{what}, but was {outcome:?}")))
        };
        match &self.foreseen {
            Some(Foreseen::Refused(foreseen) | Foreseen::InDoubt(foreseen)) => {
                self.refused += 1;
                if !is_alike(foreseen, outcome) {
                    return fail("not as foreseen", format!("foreseen: {foreseen:?}"));
                }
                if request.has_rights_anywhere() && is_forbidden(foreseen) {
                    return fail("refused with a right to everything", "was to be let through".into());
                }
            }
            None if is_first_time && lacks_a_right(request, outcome) => {
                return fail("not foreseen", "was to be let through".into());
            }
            None => {}
        }
        Ok(())
    }
}

fn name_of(request: &Request) -> String {
    format!("{} {:?} {}", request.space, request.caller.holder(), request.request_id)
}

fn is_alike(foreseen: &Outcome, outcome: &Outcome) -> bool {
    let each = |foreseen: &[Outcome], outcomes: &[Outcome]| {
        let is_alike = |(foreseen, outcome): (&Outcome, &Outcome)| {
            // Another entry of the batch lacks a right: this one is refused for that, or for its own reason.
            let is_none = matches!(foreseen, Outcome::Refused(Refusal::AllOrNone));
            foreseen == outcome || is_none && outcome.refusal().is_some()
        };
        foreseen.len() == outcomes.len() && foreseen.iter().zip(outcomes).all(is_alike)
    };
    match (foreseen, outcome) {
        (Outcome::ClaimedMany { claims, releases }, Outcome::ClaimedMany { claims: claimed, releases: released }) => {
            each(claims, claimed) && each(releases, released)
        }
        _ => foreseen == outcome,
    }
}

/// As a whole or in part.
fn is_forbidden(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::CreatedMany(outcomes) => outcomes.iter().any(is_forbidden),
        Outcome::ClaimedMany { claims, releases } => claims.iter().chain(releases).any(is_forbidden),
        _ => outcome.refusal().is_some_and(|refusal| refusal.code() == Code::Forbidden),
    }
}

/// For a command that is not a batch: a batch is admitted if one of its entries is.
fn lacks_a_right(request: &Request, outcome: &Outcome) -> bool {
    let edits_target = |edits: &[Edit]| edits.iter().any(|edit| matches!(edit, Edit::Target(Some(_))));
    let is_operator = request.caller.rights.iter().any(|right| right.role == Role::Operator);
    match (outcome.refusal().map(Refusal::code), &request.command) {
        // Its target is in a queue that the caller has no role in.
        (Some(Code::Forbidden), Command::Create(item)) => item.target.is_none(),
        (Some(Code::Forbidden), Command::Update(update)) => !edits_target(&update.edits),
        // An operator sees the local items of others, and cannot claim them.
        (Some(Code::NotFound), Command::Claim(_)) => !is_operator,
        (Some(Code::NotFound), Command::Update(update)) => !(update.start && is_operator),
        (Some(Code::Forbidden | Code::NotFound), _) => true,
        _ => false,
    }
}
