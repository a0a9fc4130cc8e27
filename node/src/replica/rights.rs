//! Refuses commands without the needed right before they are proposed, so that they never enter the log.
//! [`lease::rights`] decides which right a command needs and how it is refused; apply checks it again.
//!
//! A refusal never comes from a stale state: if a right seems to be missing, it is checked again after a linearizable
//! read. A command that passes on a stale state is still checked by apply.

use crate::replica::no_outcome::NoOutcome;
use crate::replica::node::Node;
use crate::replica::peer_calls::PeerCalls;
use crate::replica::propose::Responds;
use lease::{Foreseen, Outcome, Request};
use openraft::Instant as _;
use openraft::type_config::TypeConfigExt;
use raft_store::state::disk::StateDisk;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl<C: Responds, D: StateDisk, P: PeerCalls> Node<C, D, P> {
    /// Like [`Node::submit`], for requests of callers whose roles are limited to some queues or spaces.
    pub(crate) async fn submit_with_rights(
        &self,
        requests: Vec<Request>,
        within: Duration,
    ) -> Result<Vec<Outcome>, NoOutcome> {
        let by = C::now() + within;
        let may_lack = |request: &Request| !request.has_rights_anywhere();
        let seems_to_lack = self.look(|state, archive| {
            requests.iter().any(|request| may_lack(request) && state.lacks_rights(archive, request).is_some())
        })?;
        if !seems_to_lack {
            return self.proposer().submit(requests, within).await;
        }
        self.in_step(within).await?;
        let foreseen: Vec<Option<Foreseen>> = self.look(|state, archive| {
            let foresee = |request: &Request| if may_lack(request) { state.foresee(archive, request) } else { None };
            requests.iter().map(foresee).collect()
        })?;
        if foreseen.iter().any(|foreseen| matches!(foreseen, Some(Foreseen::InDoubt(_)))) {
            let why = "the caller has no right to this; an earlier attempt may have had it";
            return Err(NoOutcome::InDoubt(why.into()));
        }
        let pairs = requests.into_iter().zip(&foreseen);
        let rest: Vec<Request> = pairs.filter(|(_, foreseen)| foreseen.is_none()).map(|(request, _)| request).collect();
        self.denied().fetch_add((foreseen.len() - rest.len()) as u64, Ordering::Relaxed);
        let answers = if rest.is_empty() {
            Vec::new()
        } else {
            self.proposer().submit(rest, by.saturating_duration_since(C::now())).await?
        };
        let mut answers = answers.into_iter();
        let each = foreseen.into_iter().map(|foreseen| match foreseen {
            Some(Foreseen::Refused(outcome) | Foreseen::InDoubt(outcome)) => Some(outcome),
            None => answers.next(),
        });
        each.collect::<Option<_>>().ok_or_else(|| NoOutcome::Unknown("an answer without an outcome".into()))
    }

    fn look<R>(&self, look: impl FnOnce(&lease::State, &dyn lease::Archive) -> R) -> Result<R, NoOutcome> {
        self.store().read(look).map_err(|error| NoOutcome::Unavailable(error.to_string()))
    }
}
