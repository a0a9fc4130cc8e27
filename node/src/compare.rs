//! Nodes compare their state hashes at the same indexes while they run. A difference stops the odd one out; where no
//! side has a majority, all stop: a wrong state must not go on answering.

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

/// Compares until it finds that this node must stop, and stops it.
pub(crate) async fn run<C: Types, D: StateDisk, P: Calls>(
    id: NodeId,
    every: Duration,
    raft: Raft<C, Machine<C, D>>,
    store: Arc<StateStore<D>>,
    calls: P,
    failure: Arc<Mutex<Option<String>>>,
) {
    let mut judged = 0;
    loop {
        C::sleep(every).await;
        let members: Vec<(NodeId, Member)> = {
            let metrics = raft.server_metrics();
            let metrics = metrics.borrow_watched();
            metrics.membership_config.nodes().map(|(id, member)| (*id, member.clone())).collect()
        };
        let own: Vec<_> = store.hash_marks().into_iter().filter(|mark| mark.index > judged).collect();
        if own.is_empty() || members.len() < 2 {
            continue;
        }
        let mut others = Vec::new();
        for (other, member) in members.iter().filter(|(other, _)| *other != id) {
            others.push((*other, calls.hash_marks(*other, member, ANSWER_WITHIN).await.unwrap_or_default()));
        }
        for mark in own {
            match judge(mark, &others) {
                Verdict::Agreed => judged = judged.max(mark.index),
                Verdict::Open => {}
                Verdict::OthersDiffer(nodes) => {
                    tracing::error!(
                        index = mark.index,
                        ?nodes,
                        "another node's state is not the cluster's: it will stop"
                    );
                    judged = judged.max(mark.index);
                }
                Verdict::IsOdd(nodes) => {
                    let why = format!(
                        "this node's state differs from that of nodes {nodes:?} at index {}: it must not go on. Keep its \
                         directory for the makers of Tenure, remove node {id} from the cluster and add a new one",
                        mark.index
                    );
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                    let _ = raft.shutdown().await;
                    return;
                }
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Everyone has this hash.
    Agreed,
    /// Some have not answered, or are not that far.
    Open,
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
        Verdict::Open
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
        assert_eq!(verdict(7, &[Some(8), None]), Verdict::Open);
        assert_eq!(verdict(7, &[Some(7), None]), Verdict::Open);
        assert_eq!(verdict(7, &[Some(7), Some(8), None, None]), Verdict::Open);
        assert_eq!(verdict(7, &[Some(8), Some(8), Some(8), None]), Verdict::IsOdd(vec![2, 3, 4]));
    }
}
