//! Nodes compare their state hashes at the same indexes while they run. A difference stops the odd one out; where no
//! side has a majority, all stop: a wrong state must not go on answering. Silence alone stops nobody, but a difference
//! that the silent ones leave open stops those who differ.

use crate::calls::Calls;
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
/// Comparisons that a difference may stay open for: about a minute, in which a node that is restarted is back.
const OPEN_COMPARISONS: u32 = 6;

/// In every reason that this gives.
pub(crate) const DIFFERS: &str = "this node's state differs from that of nodes";

/// Compares until it finds that this node must stop, and stops it.
pub(crate) async fn run<C: Types, D: StateDisk, P: Calls>(
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

/// What this node has found out by comparing.
struct Comparison {
    id: NodeId,
    /// Up to here all is known.
    judged: u64,
    dispute: Option<Dispute>,
}

/// A difference that no majority has decided.
struct Dispute {
    index: u64,
    /// Who has another hash there.
    with: Vec<NodeId>,
    comparisons: u32,
}

impl Comparison {
    /// Compares this node's marks with those of the others. Who is silent has none.
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
                        "another node's state is not the cluster's: it will stop"
                    );
                    self.judge_upto(mark.index);
                }
                Verdict::Disputed(nodes) => disputed = disputed.or(Some((mark.index, nodes))),
                Verdict::IsOdd(nodes) => {
                    return Err(format!(
                        "{DIFFERS} {nodes:?} at index {}: it must not go on. Keep its \
                         directory for the makers of Tenure, remove node {} from the cluster and add a new one",
                        mark.index, self.id
                    ));
                }
            }
        }
        self.note_dispute(disputed, others)
    }

    fn judge_upto(&mut self, index: u64) {
        self.judged = self.judged.max(index);
        // What a majority has at a later index it had before.
        self.dispute = self.dispute.take().filter(|dispute| dispute.index > index);
    }

    /// A dispute stays when the other side falls silent: it may have stopped because of it.
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
            tracing::error!(index, nodes = ?with, "nodes have another state than this one, and no majority says whose is right");
        }
        if *comparisons >= OPEN_COMPARISONS {
            let silent: Vec<_> = others.iter().map(|(node, _)| node).filter(|node| !with.contains(node)).collect();
            return Err(format!(
                "{DIFFERS} {with:?} at index {index}, and nodes {silent:?} did not say \
                 theirs: nobody knows whose is right, so it must not go on. Keep the directories of all nodes. Start nodes \
                 {silent:?} first, then nodes {with:?} and this one: the odd one stops again, and is the one to replace. If \
                 nodes {silent:?} are lost, restore the newest backup from before that index"
            ));
        }
        self.dispute = Some(dispute);
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Everyone has this hash.
    Agreed,
    /// Nobody has another one; some have not answered, or are not that far.
    Open,
    /// These have another one, and so many are silent that either may be the majority's.
    Disputed(Vec<NodeId>),
    /// A majority has this hash, these do not.
    OthersDiffer(Vec<NodeId>),
    /// Even if all who are silent had it, this hash would have no majority.
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
    fn the_odd_one_out_stops_and_the_majority_goes_on() {
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
    fn silence_is_not_held_against_anyone() {
        assert_eq!(verdict(7, &[None, None]), Verdict::Open);
        assert_eq!(verdict(7, &[Some(8), None]), Verdict::Disputed(vec![2]));
        assert_eq!(verdict(7, &[Some(7), None]), Verdict::Open);
        assert_eq!(verdict(7, &[Some(7), Some(8), None, None]), Verdict::Disputed(vec![3]));
        assert_eq!(verdict(7, &[Some(8), Some(8), Some(8), None]), Verdict::IsOdd(vec![2, 3, 4]));
    }

    /// Node 1, whose hash is 7, compares again and again. Says after how many comparisons it stops, and why.
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
    fn a_difference_that_stays_open_stops_this_node_and_says_whom_to_ask() {
        let (after, why) = stops(&[[Some(8), None]; 100]).unwrap();
        assert_eq!(after, 6);
        assert!(why.contains("differs from that of nodes [2] at index 1024"), "{why}");
        assert!(why.contains("Start nodes [3] first, then nodes [2] and this one"), "{why}");
        // The other one has stopped first.
        let rounds = [vec![[Some(8), None]; 2], vec![[None, None]; 100]].concat();
        assert_eq!(stops(&rounds).map(|(after, _)| after), Some(6));
    }

    #[test]
    fn a_difference_that_is_decided_in_time_stops_the_odd_one_only() {
        let open = vec![[Some(8), None]; 5];
        assert_eq!(stops(&[open.clone(), vec![[Some(8), Some(7)]; 100]].concat()), None);
        let (after, why) = stops(&[open, vec![[Some(8), Some(8)]]].concat()).unwrap();
        assert!(after == 6 && why.contains("remove node 1 from the cluster"), "{why}");
    }

    #[test]
    fn a_difference_with_one_that_was_removed_is_over() {
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
