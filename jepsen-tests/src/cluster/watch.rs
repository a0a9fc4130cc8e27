//! Watches the nodes all the time: which one leads, and which one exited by itself. Reads their logs, so neither the
//! wire nor a clock can hide anything.

use super::members::EXPIRED;
use super::{Cluster, LOOK_EVERY, Seat, process};
use crate::history::{Death, Leader};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Weak;
use tokio::time::sleep;

/// The read position in a log.
#[derive(Default)]
struct Read {
    upto: u64,
    /// A line that is not complete yet.
    rest: String,
}

pub(super) async fn run(cluster: Weak<Cluster>) {
    let mut logs: BTreeMap<Seat, Read> = BTreeMap::new();
    loop {
        let Some(cluster) = cluster.upgrade() else { return };
        for (seat, path) in cluster.logs() {
            for line in logs.entry(seat).or_default().lines(&path) {
                if let Some((leads, term)) = role(&line) {
                    cluster.told(seat, leads, term);
                }
            }
        }
        cluster.look_for_deaths();
        drop(cluster);
        sleep(LOOK_EVERY).await;
    }
}

impl Read {
    fn lines(&mut self, path: &PathBuf) -> Vec<String> {
        let Ok(file) = File::open(path) else { return Vec::new() };
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = file.read_at(&mut bytes, self.upto) {
            self.upto += length as u64;
            self.rest += &String::from_utf8_lossy(&bytes[..length]);
        }
        let whole = self.rest.rfind('\n').map_or(0, |at| at + 1);
        let lines = self.rest[..whole].lines().map(ToOwned::to_owned).collect();
        self.rest.drain(..whole);
        lines
    }
}

/// Whether the node leads, and in which term, if the line contains this.
fn role(line: &str) -> Option<(bool, u64)> {
    let (_, said) = line.split_once(": role node=")?;
    let field = |name: &str| said.split(' ').find_map(|part| part.strip_prefix(name));
    Some((field("role=")? == "Leader", field("term=")?.parse().ok()?))
}

impl Cluster {
    fn logs(&self) -> Vec<(Seat, PathBuf)> {
        self.state().seats.iter().map(|(seat, node)| (*seat, node.log.clone())).collect()
    }

    fn told(&self, seat: Seat, leads: bool, term: u64) {
        let at = self.now();
        let mut state = self.state();
        let runs = state.seats.get(&seat).is_some_and(|node| node.process.is_some());
        let last = state.leaders.last().copied().unwrap_or(Leader { at: 0, node: None, term: 0 });
        let next = if leads && runs && term >= last.term {
            Leader { at, node: Some(seat), term }
        } else if !leads && last.node == Some(seat) {
            Leader { at, node: None, term: term.max(last.term) }
        } else {
            return;
        };
        if (next.node, next.term) != (last.node, last.term) {
            state.leaders.push(next);
        }
    }

    /// The run itself killed, stopped or removed it.
    pub(super) fn not_leading(&self, seat: Seat) {
        self.told(seat, false, 0);
    }

    fn look_for_deaths(&self) {
        let at = self.now();
        let mut ended = Vec::new();
        let mut state = self.state();
        for (seat, node) in &mut state.seats {
            if let Some(status) = node.process.as_mut().and_then(process::Process::ended) {
                node.process = None;
                let words = std::fs::read(&node.log).unwrap_or_default();
                let words = process::tail(&String::from_utf8_lossy(&words));
                let said = format!("node {} on seat {seat} exited by itself, with {status}:\n{words}", node.id);
                node.ended = Some(said.clone());
                let may_end = node.may_end || words.contains(EXPIRED);
                ended.push((*seat, (!may_end).then_some(said)));
            }
        }
        let deaths = ended.iter().filter_map(|(_, said)| said.clone());
        state.deaths.extend(deaths.map(|what| Death { at, what }));
        drop(state);
        for (seat, _) in ended {
            self.not_leading(seat);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_in_its_log_whether_it_leads() {
        let line = "2026-11-16T20:00:00.0Z  INFO node::leadership: role node=2 role=Leader leader=Some(2) term=7";
        assert_eq!(role(line), Some((true, 7)));
        let line = "2026-11-16T20:00:00.0Z  INFO node::leadership: role node=2 role=Follower leader=Some(1) term=8";
        assert_eq!(role(line), Some((false, 8)));
        assert_eq!(role("2026-11-16T20:00:00.0Z  INFO node::leadership: members node=2 index=7"), None);
    }
}
