//! Carries out commands of this node's callers. A claim that waits in line waits here.

use crate::replica::hub::Topic;
use crate::replica::no_outcome::NoOutcome;
use crate::replica::node::Node;
use crate::replica::peer_calls::PeerCalls;
use crate::replica::propose::Responds;
use lease::{Outcome, Request};
use openraft::Instant as _;
use openraft::type_config::TypeConfigExt;
use raft_store::state::disk::StateDisk;
use std::time::Duration;

impl<C: Responds, D: StateDisk, P: PeerCalls> Node<C, D, P> {
    /// Carries out commands of one caller, wherever the leader is. Returns an outcome per request, in order. Commands
    /// that the caller has no right to are answered without being proposed.
    ///
    /// # Errors
    /// When there is no outcome: it did not happen, or it is unknown whether it happened.
    pub async fn submit(&self, requests: Vec<Request>, within: Duration) -> Result<Vec<Outcome>, NoOutcome> {
        if requests.iter().all(Request::has_rights_anywhere) {
            return self.proposer().submit(requests, within).await;
        }
        self.submit_with_rights(requests, within).await
    }

    /// Carries out a single command; if it cannot be sent `within` this time, it does not happen. A claim that waits in
    /// line waits here until it is answered or `poll` is over, counted from now. Then its place is returned, and a
    /// repeat under the same request id continues to wait.
    ///
    /// # Errors
    /// Those of [`Node::submit`].
    pub async fn call(&self, request: Request, within: Duration, poll: Duration) -> Result<Outcome, NoOutcome> {
        let (by, poll_by) = (C::now() + within, C::now() + poll);
        // Subscribe only if the command may wait: every event is matched against all subscriptions.
        let topic = request.command.waits_for();
        let topic = topic.map(|item| Topic::Place(request.space.clone(), item.clone(), request.caller.holder()));
        let mut place: Option<Outcome> = None;
        loop {
            // Subscribe before the command: the grant may come between its answer and the wait.
            let waiter = topic.clone().map(|topic| self.hub().wait_for(topic));
            // Once it has a place, a repeat takes no longer than the poll.
            let left = if place.is_none() { by } else { poll_by }.saturating_duration_since(C::now());
            let mut outcomes = match self.submit(vec![request.clone()], left.max(Duration::from_millis(1))).await {
                Ok(outcomes) => outcomes,
                // Only the repeat failed: the claim keeps its place in line.
                Err(no @ (NoOutcome::Unavailable(_) | NoOutcome::LowOnDisk(_))) => return place.ok_or(no),
                Err(error) => return Err(error),
            };
            let outcome = outcomes.pop().ok_or_else(|| NoOutcome::Unknown("an answer without an outcome".into()))?;
            let (Some(waiter), Outcome::Waiting { poll_within, .. }) = (waiter, &outcome) else { return Ok(outcome) };
            let left = poll_by.saturating_duration_since(C::now());
            if left.is_zero() {
                return Ok(outcome);
            }
            // A place in line ends unless the claim is repeated within `poll_within`.
            let _ = waiter.woken_within::<C>(left.min(Duration::from_millis(poll_within.0))).await;
            place = Some(outcome);
        }
    }
}
