//! The [`PeerCalls`] trait over this transport.
//!
//! It also decides what a missing answer means for commands: only commands that were certainly not sent, or certainly
//! not proposed, may be sent again.

use super::wire::{NodeQuestion, NodeReply};
use super::{PeerError, Peers};
use crate::replica::no_outcome::NoOutcome;
use crate::replica::peer_calls::PeerCalls;
use lease::encoding::{decode, encode};
use lease::{Outcome, Request};
use raft_store::codec::records::{Blob, HashMark};
use raft_store::types::{Member, NodeId};
use std::collections::BTreeMap;
use std::time::Duration;

impl PeerCalls for Peers {
    async fn forward(
        &self,
        to: NodeId,
        member: &Member,
        requests: Vec<Request>,
        within: Duration,
    ) -> Result<Vec<Outcome>, NoOutcome> {
        let question = NodeQuestion::Forward { requests: Blob(encode(&requests).into()) };
        forwarded(self.ask(to, member, question, within).await, requests.len())
    }

    async fn read_index(&self, to: NodeId, member: &Member, within: Duration) -> Option<u64> {
        match self.ask(to, member, NodeQuestion::ReadIndex, within).await {
            Ok(NodeReply::ReadIndexAt { index }) => Some(index),
            _ => None,
        }
    }

    async fn hash_marks(&self, to: NodeId, member: &Member, within: Duration) -> Option<Vec<HashMark>> {
        match self.ask(to, member, NodeQuestion::HashMarks, within).await {
            Ok(NodeReply::HashMarks(marks)) => Some(marks),
            _ => None,
        }
    }

    async fn rules_version(&self, to: NodeId, member: &Member, within: Duration) -> Option<u32> {
        match self.ask(to, member, NodeQuestion::Status, within).await {
            Ok(NodeReply::Status(status)) => Some(status.rules_version),
            _ => None,
        }
    }

    async fn is_draining(&self, to: NodeId, member: &Member, within: Duration) -> Option<bool> {
        match self.ask(to, member, NodeQuestion::Report, within).await {
            Ok(NodeReply::Report(report)) => Some(report.is_draining),
            _ => None,
        }
    }

    fn know(&self, members: BTreeMap<NodeId, Member>) {
        self.set_members(members);
    }
}

fn forwarded(reply: Result<NodeReply, PeerError>, requests: usize) -> Result<Vec<Outcome>, NoOutcome> {
    let unknown = |why: String| Err(NoOutcome::Unknown(why));
    let not_taken = |why: String| Err(NoOutcome::Unavailable(why));
    match reply {
        Ok(NodeReply::Forwarded { outcomes }) => match decode::<Vec<Outcome>>(&outcomes.0) {
            Ok(outcomes) if (1..=requests).contains(&outcomes.len()) => Ok(outcomes),
            Ok(outcomes) => unknown(format!("{} outcomes for {requests} requests", outcomes.len())),
            Err(error) => unknown(format!("cannot decode the outcomes: {error}")),
        },
        Ok(NodeReply::NotLeader { .. }) => not_taken("that node does not lead".to_owned()),
        Ok(NodeReply::Refused { why }) => not_taken(why),
        Ok(NodeReply::LowOnDisk { why }) => Err(NoOutcome::LowOnDisk(why)),
        Ok(NodeReply::Unknown { why }) => unknown(why),
        Ok(other) => unknown(format!("unexpected answer: {other:?}")),
        Err(error) if error.may_have_happened() => unknown(error.to_string()),
        Err(error) => not_taken(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_that_certainly_did_not_happen_may_be_sent_again() {
        let why = || "because".to_owned();
        let limit = Duration::from_secs(1);
        let may_repeat = |reply| matches!(forwarded(reply, 1), Err(NoOutcome::Unavailable(_)));
        let is_unknown = |reply| matches!(forwarded(reply, 1), Err(NoOutcome::Unknown(_)));
        assert!(may_repeat(Err(PeerError::Unreachable { why: why() })));
        assert!(may_repeat(Err(PeerError::Refused { why: why() })));
        assert!(may_repeat(Ok(NodeReply::NotLeader { leader: None })));
        assert!(may_repeat(Ok(NodeReply::Refused { why: why() })));
        assert!(is_unknown(Err(PeerError::Lost { why: why() })));
        assert!(is_unknown(Err(PeerError::TimedOut { limit })));
        assert_eq!(forwarded(Ok(NodeReply::LowOnDisk { why: why() }), 1), Err(NoOutcome::LowOnDisk(why())));
        assert!(is_unknown(Ok(NodeReply::Unknown { why: why() })));
        assert!(is_unknown(Ok(NodeReply::ReadIndexAt { index: 1 })));
        assert!(is_unknown(Ok(NodeReply::Forwarded { outcomes: Blob(b"rubbish".to_vec().into()) })));
        let answered = |count| {
            let outcomes = vec![Outcome::Activated; count];
            Ok(NodeReply::Forwarded { outcomes: Blob(encode(&outcomes).into()) })
        };
        assert!(is_unknown(answered(0)) && is_unknown(answered(2)));
        assert_eq!(forwarded(answered(1), 3), Ok(vec![Outcome::Activated]));
    }
}
