//! Nodes compare their state hashes at the same indexes while they run. A node whose hash differs from a majority's
//! stops. If no hash can have a majority, all stop: a wrong state must not answer. Silence alone stops no node, but a
//! difference that stays undecided because other nodes are silent stops the nodes that differ.

use crate::replica::peer_calls::PeerCalls;
use openraft::Raft;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::type_config::TypeConfigExt;
use raft_store::codec::records::HashMark;
use raft_store::state::disk::StateDisk;
use raft_store::state::{Machine, StateStore};
use raft_store::types::{Member, NodeId, Types};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// A difference may stay undecided for this many comparisons: about a minute, enough for a restarted node to come back.
const OPEN_COMPARISONS: u32 = 6;

/// Part of every reason that this module returns. Exit code 3 depends on it.
pub const DIFFERS: &str = "this node's state differs from that of nodes";

/// Compares until it finds that this node must stop, and stops it.
pub(crate) async fn run<C: Types, D: StateDisk, P: PeerCalls>(
    id: NodeId,
    every: Duration,
    raft: Raft<C, Machine<C, D>>,
    store: Arc<StateStore<D>>,
    calls: P,
    failure: Arc<Mutex<Option<String>>>,
) {
    let mut comparison = Comparison { id, judged: 0, dispute: None };
    loop {
        C::sleep(every).await;
        let members: Vec<(NodeId, Member)> = {
            let metrics = raft.server_metrics();
            let metrics = metrics.borrow_watched();
            metrics.membership_config.nodes().map(|(id, member)| (*id, member.clone())).collect()
        };
        let own: Vec<_> = store.hash_marks().into_iter().filter(|mark| mark.index > comparison.judged).collect();
        if own.is_empty() || members.len() < 2 {
            continue;
        }
        let mut others = Vec::new();
        for (other, member) in members.iter().filter(|(other, _)| *other != id) {
            others.push((*other, calls.hash_marks(*other, member, ANSWER_WITHIN).await.unwrap_or_default()));
        }
        if let Err(why) = comparison.compare(&own, &others) {
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            let _ = raft.shutdown().await;
            return;
        }
    }
}

/// The results of this node's comparisons.
struct Comparison {
    id: NodeId,
    /// Indexes up to this one are decided.
    judged: u64,
    dispute: Option<Dispute>,
}

/// A difference that no majority has decided.
struct Dispute {
    index: u64,
    /// The nodes with another hash at this index.
    with: Vec<NodeId>,
    comparisons: u32,
}

impl Comparison {
    /// Compares this node's marks with those of the others. A silent node has none.
    ///
    /// # Errors
    /// Why this node must stop.
    fn compare(&mut self, own: &[HashMark], others: &[(NodeId, Vec<HashMark>)]) -> Result<(), String> {
        let mut disputed = None;
        for mark in own {
            match judge(*mark, others) {
                Verdict::Agreed => self.judge_upto(mark.index),
                Verdict::Open => {}
                Verdict::OthersDiffer(nodes) => {
                    tracing::error!(
                        index = mark.index,
                        ?nodes,
                        "the state of another node differs from the majority's: that node will stop"
                    );
                    self.judge_upto(mark.index);
                }
                Verdict::Disputed(nodes) => disputed = disputed.or(Some((mark.index, nodes))),
                Verdict::IsOdd(nodes) => {
                    return Err(format!(
                        "{DIFFERS} {nodes:?} at index {}: it must not continue. Keep its \
                         directory for a bug report, remove node {} from the cluster and add a new one",
                        mark.index, self.id
                    ));
                }
            }
        }
        self.note_dispute(disputed, others)
    }

    fn judge_upto(&mut self, index: u64) {
        self.judged = self.judged.max(index);
        // A majority that agrees at a later index also agreed before.
        self.dispute = self.dispute.take().filter(|dispute| dispute.index > index);
    }

    /// A dispute remains when the other side falls silent: it may have stopped because of the dispute.
    fn note_dispute(
        &mut self,
        seen: Option<(u64, Vec<NodeId>)>,
        others: &[(NodeId, Vec<HashMark>)],
    ) -> Result<(), String> {
        let is_member = |node: &NodeId| others.iter().any(|(other, _)| other == node);
        let known = self.dispute.take().filter(|dispute| dispute.with.iter().any(is_member));
        let seen = || seen.map(|(index, with)| Dispute { index, with, comparisons: 0 });
        let Some(mut dispute) = known.or_else(seen) else { return Ok(()) };
        dispute.comparisons += 1;
        let Dispute { index, with, comparisons } = &dispute;
        if *comparisons == 1 {
            tracing::error!(index, nodes = ?with, "the state of other nodes differs from this one's, and no majority decides which is right");
        }
        if *comparisons >= OPEN_COMPARISONS {
            let silent: Vec<_> = others.iter().map(|(node, _)| node).filter(|node| !with.contains(node)).collect();
            return Err(format!(
                "{DIFFERS} {with:?} at index {index}, and nodes {silent:?} did not report \
                 theirs: it is unknown which state is right, so this node must not continue. Keep the directories of all nodes. \
                 Start nodes {silent:?} first, then nodes {with:?} and this one: the wrong one stops again; replace it. If nodes \
                 {silent:?} are lost, restore the newest backup from before that index"
            ));
        }
        self.dispute = Some(dispute);
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// All nodes have this hash.
    Agreed,
    /// No node has another hash; some have not answered, or have not reached the index.
    Open,
    /// These nodes have another hash, and with the silent nodes either hash may have the majority.
    Disputed(Vec<NodeId>),
    /// A majority has this hash; these nodes do not.
    OthersDiffer(Vec<NodeId>),
    /// This hash has no majority, even if all silent nodes had it.
    IsOdd(Vec<NodeId>),
}

fn judge(mark: HashMark, others: &[(NodeId, Vec<HashMark>)]) -> Verdict {
    let members = others.len() + 1;
    let majority = members / 2 + 1;
    let mut agree = 1;
    let mut differ = Vec::new();
    for (node, marks) in others {
        match marks.iter().find(|other| other.index == mark.index) {
            Some(other) if other.hash == mark.hash => agree += 1,
            Some(_) => differ.push(*node),
            None => {}
        }
    }
    let silent = members - agree - differ.len();
    if differ.is_empty() {
        if silent == 0 { Verdict::Agreed } else { Verdict::Open }
    } else if agree >= majority {
        Verdict::OthersDiffer(differ)
    } else if agree + silent < majority {
        Verdict::IsOdd(differ)
    } else {
        Verdict::Disputed(differ)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lease::StateHash;

    fn mark(index: u64, hash: u128) -> HashMark {
        HashMark { index, hash: StateHash(hash) }
    }

    fn verdict(own: u128, others: &[Option<u128>]) -> Verdict {
        let others: Vec<_> = (2..)
            .zip(others)
            .map(|(node, hash)| (node, hash.map(|hash| vec![mark(512, 9), mark(1_024, hash)]).unwrap_or_default()))
            .collect();
        judge(mark(1_024, own), &others)
    }

    #[test]
    fn a_node_that_differs_from_the_majority_stops() {
        assert_eq!(verdict(7, &[Some(7), Some(7)]), Verdict::Agreed);
        assert_eq!(verdict(8, &[Some(7), Some(7)]), Verdict::IsOdd(vec![2, 3]));
        assert_eq!(verdict(7, &[Some(7), Some(8)]), Verdict::OthersDiffer(vec![3]));
    }

    #[test]
    fn without_a_majority_all_stop() {
        assert_eq!(verdict(7, &[Some(8)]), Verdict::IsOdd(vec![2]));
        assert_eq!(verdict(7, &[Some(8), Some(9)]), Verdict::IsOdd(vec![2, 3]));
        assert_eq!(verdict(7, &[Some(7), Some(8), Some(8)]), Verdict::IsOdd(vec![3, 4]));
    }

    #[test]
    fn silent_nodes_count_for_neither_side() {
        assert_eq!(verdict(7, &[None, None]), Verdict::Open);
        assert_eq!(verdict(7, &[Some(8), None]), Verdict::Disputed(vec![2]));
        assert_eq!(verdict(7, &[Some(7), None]), Verdict::Open);
        assert_eq!(verdict(7, &[Some(7), Some(8), None, None]), Verdict::Disputed(vec![3]));
        assert_eq!(verdict(7, &[Some(8), Some(8), Some(8), None]), Verdict::IsOdd(vec![2, 3, 4]));
    }

    /// Node 1, with hash 7, compares repeatedly. Returns after how many comparisons it stops, and why.
    fn stops(rounds: &[[Option<u128>; 2]]) -> Option<(usize, String)> {
        let mut comparison = Comparison { id: 1, judged: 0, dispute: None };
        rounds.iter().enumerate().find_map(|(round, others)| {
            let others: Vec<_> = (2..)
                .zip(others)
                .map(|(node, hash)| (node, hash.map(|hash| vec![mark(1_024, hash)]).unwrap_or_default()))
                .collect();
            comparison.compare(&[mark(1_024, 7)], &others).err().map(|why| (round + 1, why))
        })
    }

    #[test]
    fn silence_alone_stops_nobody() {
        assert_eq!(stops(&[[None, None]; 100]), None);
        assert_eq!(stops(&[[Some(7), None]; 100]), None);
    }

    #[test]
    fn an_undecided_difference_stops_this_node_and_names_the_nodes_to_start() {
        let (after, why) = stops(&[[Some(8), None]; 100]).unwrap();
        assert_eq!(after, 6);
        assert!(why.contains("differs from that of nodes [2] at index 1024"), "{why}");
        assert!(why.contains("Start nodes [3] first, then nodes [2] and this one"), "{why}");
        // The other one has stopped first.
        let rounds = [vec![[Some(8), None]; 2], vec![[None, None]; 100]].concat();
        assert_eq!(stops(&rounds).map(|(after, _)| after), Some(6));
    }

    #[test]
    fn a_difference_that_is_decided_in_time_stops_only_the_wrong_node() {
        let open = vec![[Some(8), None]; 5];
        assert_eq!(stops(&[open.clone(), vec![[Some(8), Some(7)]; 100]].concat()), None);
        let (after, why) = stops(&[open, vec![[Some(8), Some(8)]]].concat()).unwrap();
        assert!(after == 6 && why.contains("remove node 1 from the cluster"), "{why}");
    }

    #[test]
    fn a_difference_with_a_removed_node_is_dropped() {
        let mut comparison = Comparison { id: 1, judged: 0, dispute: None };
        let own = [mark(1_024, 7)];
        for _ in 0..5 {
            comparison.compare(&own, &[(2, vec![mark(1_024, 8)]), (3, Vec::new())]).unwrap();
        }
        for _ in 0..100 {
            comparison.compare(&own, &[(4, vec![mark(1_024, 7)]), (3, Vec::new())]).unwrap();
        }
    }
}
