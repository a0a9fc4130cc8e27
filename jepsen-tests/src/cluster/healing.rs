//! Undoes all faults, and waits until the cluster is well again.

use super::{Cluster, LOOK_EVERY, Seat, process};
use client::Health;
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};
use tokio::time::sleep;

impl Cluster {
    /// Whether the node says that it is ready for callers.
    pub async fn is_ready(&self, seat: Seat) -> bool {
        let asked = self.ask(seat, |client| async move {
            let node = client.node(client.endpoints()[0].clone());
            matches!(tokio::time::timeout(Duration::from_secs(4), node.readiness()).await, Ok(Ok(Health::Fine)))
        });
        asked.await.unwrap_or(false)
    }

    /// Waits until every seat's node runs and says that it is ready.
    ///
    /// # Errors
    /// When that takes too long: names the nodes that are not ready, and why.
    pub async fn ready(&self, within: Duration) -> io::Result<()> {
        let by = Instant::now() + within;
        let mut left: BTreeSet<Seat> = self.seats().into_iter().collect();
        loop {
            for seat in left.clone() {
                if self.is_ready(seat).await {
                    left.remove(&seat);
                }
            }
            if left.is_empty() && self.leader().is_some() {
                return Ok(());
            }
            if Instant::now() > by {
                let words: Vec<String> =
                    left.iter().map(|seat| format!("seat {seat}: {}", self.last_words(*seat))).collect();
                return Err(io::Error::other(format!(
                    "seats {left:?} are not ready after {within:?}\n{}",
                    words.join("\n")
                )));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    pub(super) fn last_words(&self, seat: Seat) -> String {
        process::tail(&self.words(seat))
    }

    /// Undoes everything: the wire is complete, disks and clocks are right, paused nodes continue, killed nodes are
    /// started, and nodes that cannot start because of a damaged disk are replaced. Waits until all are ready.
    ///
    /// # Errors
    /// When they are not ready in time.
    pub async fn heal(&self, within: Duration) -> io::Result<()> {
        self.wire.heal();
        self.machines.heal();
        for seat in self.seats() {
            self.control(seat)?.heal()?;
            let (paused, runs) = self.with(seat, |node| Ok((node.is_paused, node.process.is_some())))?;
            if paused && runs {
                self.resume(seat)?;
            }
        }
        let mut ready = Ok(());
        // A node that exits during its start is started once more: the cause was removed just now.
        for _ in 0..2 {
            for seat in self.seats() {
                if !self.running().contains(&seat) {
                    self.start_seat(seat).await?;
                }
            }
            for seat in self.damaged_seats() {
                self.mend(seat).await?;
            }
            for seat in self.running() {
                self.drain(seat, false).await?;
            }
            ready = self.ready(within).await;
            if ready.is_ok() {
                break;
            }
        }
        for seat in self.seats() {
            self.may_end(seat, false)?;
        }
        ready
    }

    fn damaged_seats(&self) -> Vec<Seat> {
        self.state().seats.iter().filter(|(_, node)| node.is_damaged).map(|(seat, _)| *seat).collect()
    }

    /// Stops all nodes, the leader last, and returns those that did not stop cleanly.
    pub async fn shut_down(&self) -> Vec<String> {
        let leader = self.leader();
        let mut seats = self.running();
        seats.sort_by_key(|seat| leader == Some(*seat));
        let mut wrong = Vec::new();
        for seat in seats {
            match self.stop(seat).await {
                Ok(true) => {}
                Ok(false) => {
                    wrong.push(format!("the node on seat {seat} did not stop cleanly:\n{}", self.last_words(seat)))
                }
                Err(error) => wrong.push(error.to_string()),
            }
        }
        wrong
    }
}
