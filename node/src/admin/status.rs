//! The status of the cluster: the view of one node, and the reports of the members.

use super::Admin;
use crate::peers::wire::{NodeQuestion, NodeReply, ReportReply};
use crate::replica::role::Role;
use api::cluster::{ClusterStatus, MemberReport, MemberStatus};
use futures_util::future::join_all;
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::codec::records::HashMark;
use raft_store::types::{Member, NodeId};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// A member that takes longer is shown as not answering.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

impl Admin {
    /// Asks every member at once. Works without a leader, and with members that are gone.
    ///
    /// # Errors
    /// When this node's disk failed.
    pub async fn status(&self) -> io::Result<ClusterStatus> {
        let (leader, term, membership) = {
            let metrics = self.node.raft().metrics();
            let metrics = metrics.borrow_watched();
            (metrics.current_leader, metrics.current_term, metrics.membership_config.membership().clone())
        };
        let (rules_version, activated) =
            self.node.store().read(|state, _| (state.rules_version(), state.is_activated()))?;
        let asking = membership.nodes().map(|(id, member)| async move { (*id, member, self.ask(*id, member).await) });
        let told = join_all(asking).await;

        let marks: Vec<&[HashMark]> =
            told.iter().filter_map(|(_, _, said)| said.as_ref().ok().map(|report| report.marks.as_slice())).collect();
        let hashes_at = compared_at(&marks);
        let last = told.iter().find(|(id, ..)| Some(*id) == leader).and_then(|(.., said)| said.as_ref().ok()?.last);
        let members = told.iter().map(|(id, member, said)| MemberStatus {
            id: *id,
            peer_address: member.peer_address.clone(),
            api_address: member.api_address.clone(),
            votes: membership.voter_ids().any(|voter| voter == *id),
            report: said.as_ref().ok().map(|said| report(said, hashes_at, last)),
            unreachable: said.as_ref().err().cloned(),
        });
        Ok(ClusterStatus {
            cluster: format!("{:032x}", self.identity.cluster),
            node: self.node.id(),
            leader,
            term,
            rules_version,
            activated,
            hashes_at,
            hashes_agree: hashes_at.and_then(|index| agree_at(index, &marks)),
            members: members.collect(),
        })
    }

    /// This node's report, for another node's status.
    pub(crate) fn report(&self) -> ReportReply {
        // Release the metrics before anything else reads them: if Raft waits to write, a second reader deadlocks.
        let (role, term, last) = {
            let metrics = self.node.raft().metrics();
            let metrics = metrics.borrow_watched();
            (Role::of(&metrics), metrics.current_term, metrics.last_log_index)
        };
        ReportReply {
            role,
            term,
            last,
            applied: self.node.hub().current().applied.map(|applied| applied.index),
            marks: self.node.store().hash_marks(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            known_rules: self.node.store().known_rules(),
            is_draining: self.is_draining(),
            failure: self.failure(),
        }
    }

    async fn ask(&self, id: NodeId, member: &Member) -> Result<ReportReply, String> {
        if id == self.node.id() {
            return Ok(self.report());
        }
        match self.node.calls().ask(id, member, NodeQuestion::Report, ANSWER_WITHIN).await {
            Ok(NodeReply::Report(report)) => Ok(report),
            Ok(other) => Err(format!("it answered {other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn report(said: &ReportReply, hashes_at: Option<u64>, last: Option<u64>) -> MemberReport {
    let hash = said.marks.iter().find(|mark| Some(mark.index) == hashes_at).map(|mark| format!("{:032x}", mark.hash.0));
    MemberReport {
        role: said.role.name().to_owned(),
        term: said.term,
        applied: said.applied,
        lag: last.map(|last| last.saturating_sub(said.applied.unwrap_or(0))),
        hash,
        version: said.version.clone(),
        known_rules: said.known_rules,
        draining: said.is_draining,
        failure: said.failure.clone(),
    }
}

/// The index at which to compare: the newest where hashes differ, else the newest that most nodes have. A node that is
/// far behind does not hide a difference between the others.
fn compared_at(marks: &[&[HashMark]]) -> Option<u64> {
    let mut nodes_at: BTreeMap<u64, usize> = BTreeMap::new();
    for mark in marks.iter().copied().flatten() {
        *nodes_at.entry(mark.index).or_default() += 1;
    }
    let differ = |index| agree_at(index, marks) == Some(false);
    nodes_at.into_iter().max_by_key(|(index, nodes)| (differ(*index), *nodes, *index)).map(|(index, _)| index)
}

fn agree_at(index: u64, marks: &[&[HashMark]]) -> Option<bool> {
    let hashes: Vec<_> = marks.iter().filter_map(|marks| marks.iter().find(|mark| mark.index == index)).collect();
    (hashes.len() > 1).then(|| hashes.windows(2).all(|pair| pair[0].hash == pair[1].hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lease::StateHash;

    fn marks(hashes: &[(u64, u128)]) -> Vec<HashMark> {
        hashes.iter().map(|(index, hash)| HashMark { index: *index, hash: StateHash(*hash) }).collect()
    }

    fn compared(all: &[&[(u64, u128)]]) -> (Option<u64>, Option<bool>) {
        let all: Vec<_> = all.iter().map(|hashes| marks(hashes)).collect();
        let all: Vec<_> = all.iter().map(Vec::as_slice).collect();
        let at = compared_at(&all);
        (at, at.and_then(|index| agree_at(index, &all)))
    }

    #[test]
    fn hashes_are_compared_at_the_newest_index_that_all_have_reached() {
        assert_eq!(compared(&[&[(1_024, 7), (2_048, 8)], &[(1_024, 7)]]), (Some(1_024), Some(true)));
        assert_eq!(compared(&[&[(1_024, 7), (2_048, 8)], &[(1_024, 7), (2_048, 9)]]), (Some(2_048), Some(false)));
    }

    #[test]
    fn a_node_that_is_far_behind_does_not_prevent_comparing_the_others() {
        let others: &[(u64, u128)] = &[(8_192, 7), (9_216, 8)];
        assert_eq!(compared(&[others, others, &[(1_024, 5)]]), (Some(9_216), Some(true)));
        assert_eq!(compared(&[others, &[]]), (Some(9_216), None), "one alone agrees with nobody");
        assert_eq!(compared(&[&[], &[]]), (None, None));
        let (one, other) = (&[(4_096, 5), (9_216, 8)], &[(4_096, 5), (9_216, 6)]);
        assert_eq!(compared(&[one, other, &[(4_096, 5)]]), (Some(9_216), Some(false)));
    }
}
