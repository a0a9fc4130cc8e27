//! Raises the cluster's rules version, only when every member's build knows it.

use crate::replica::change::ChangeError;
use crate::replica::no_outcome::NoOutcome;
use crate::replica::node::Node;
use crate::replica::peer_calls::PeerCalls;
use crate::replica::propose::Responds;
use futures_util::future::join_all;
use lease::{Command, Outcome, Request};
use raft_store::state::disk::StateDisk;
use raft_store::types::NodeId;
use std::time::Duration;

const ANSWER_WITHIN: Duration = Duration::from_secs(2);

impl<C: Responds, D: StateDisk, P: PeerCalls> Node<C, D, P> {
    /// Asks every member whether it knows the new rules, and if all do, proposes this request, which raises the
    /// version.
    ///
    /// # Errors
    /// When this node does not lead, or members do not know the rules or did not answer; the error names them.
    pub async fn raise_rules(&self, request: Request, within: Duration) -> Result<Outcome, ChangeError> {
        let Command::RaiseRules { version } = request.command else {
            return Err(ChangeError::Refused("the request does not raise the rules".into()));
        };
        if self.leader() != Some(self.id()) {
            return Err(ChangeError::NotLeader(self.leader()));
        }
        let asked = self.membership();
        let behind = self.behind(version).await;
        if !behind.is_empty() {
            let names: Vec<String> = behind.iter().map(|(id, known)| name(*id, *known)).collect();
            return Err(ChangeError::Refused(format!(
                "the rules stay as they are, because not every member knows rules {version}: {}. Upgrade or remove them, then \
                 repeat it",
                names.join(", ")
            )));
        }
        if self.membership() != asked {
            return Err(ChangeError::Refused("the membership changed during the check: repeat it".into()));
        }
        // Only on this node: another leader may have other members, which were not asked.
        match self.proposer().submit_here(vec![request], within).await {
            Ok(mut outcomes) => {
                outcomes.pop().ok_or_else(|| ChangeError::Unknown("an answer without an outcome".into()))
            }
            Err(NoOutcome::Unavailable(_)) => Err(ChangeError::NotLeader(self.leader())),
            Err(error @ (NoOutcome::TooLarge { .. } | NoOutcome::LowOnDisk(_))) => {
                Err(ChangeError::Refused(error.to_string()))
            }
            Err(NoOutcome::Unknown(why) | NoOutcome::InDoubt(why)) => Err(ChangeError::Unknown(why)),
        }
    }

    /// The members whose builds do not know these rules, or that did not answer. Empty: the rules may be raised.
    pub async fn cannot_follow(&self, version: u32) -> Vec<NodeId> {
        self.behind(version).await.into_iter().map(|(id, _)| id).collect()
    }

    /// The members that do not know these rules, each with the version that it knows. A silent member is included.
    async fn behind(&self, version: u32) -> Vec<(NodeId, Option<u32>)> {
        let membership = self.membership();
        let asking = membership.nodes().map(|(id, member)| async move {
            let known = if *id == self.id() {
                Some(self.store().known_rules())
            } else {
                self.calls().rules_version(*id, member, ANSWER_WITHIN).await
            };
            (*id, known)
        });
        let mut all = join_all(asking).await;
        all.retain(|(_, known)| known.is_none_or(|known| known < version));
        all
    }
}

fn name(id: NodeId, known: Option<u32>) -> String {
    match known {
        Some(known) => format!("node {id} knows rules up to {known}"),
        None => format!("node {id} did not answer"),
    }
}
