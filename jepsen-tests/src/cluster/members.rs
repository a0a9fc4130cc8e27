//! Membership changes: nodes are added, removed and added again under new ids, leadership moves, snapshots are taken.
//! Each change is repeated until it succeeds, because each is safe to repeat.

use super::{Cluster, LIMIT, LOOK_EVERY, Seat};
use crate::history::{Change, ChangeOf, Micros, SeenMembers};
use crate::shim::Control;
use crate::wire::{EDGE_PORT, PEER_PORT};
use client::api::cluster::{ClusterStatus, NewJoinSecret, NewMember};
use client::api::hold::RenewAll;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The time for one attempt at a change.
const ATTEMPT: Duration = Duration::from_secs(12);
/// The error of a node that is rejected because its join secret has expired.
pub(super) const EXPIRED: &str = "its join secret has expired";
/// Longer than any run, and than any fault that moves wall clocks ahead, except the fault that moves one by years.
const JOIN_SECRET_FOR_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// A rejected node exits within this time; a node that starts is ready by then.
const REFUSED_WITHIN: Duration = Duration::from_secs(30);

impl Cluster {
    /// Waits until the node of a seat says that it is a voter.
    ///
    /// # Errors
    /// When it does not in time, or exited by itself.
    pub async fn has_vote(&self, seat: Seat, within: Duration) -> io::Result<()> {
        let by = Instant::now() + within;
        let id = self.id(seat).ok_or_else(|| io::Error::other(format!("seat {seat} has no node")))?;
        loop {
            let status = self.status(seat).await?;
            if status.is_some_and(|status| status.members.iter().any(|member| member.id == id && member.votes)) {
                return self.with(seat, |node| {
                    node.has_begun = true;
                    Ok(())
                });
            }
            self.is_taken(seat).await?;
            if Instant::now() > by {
                return Err(io::Error::other(format!(
                    "the node on seat {seat} got no vote in time:\n{}",
                    self.last_words(seat)
                )));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// The status of the cluster as the node of a seat sees it: members, roles, hashes. `None` if it does not answer in
    /// time.
    ///
    /// # Errors
    /// When the namespace no longer exists.
    pub async fn status(&self, seat: Seat) -> io::Result<Option<ClusterStatus>> {
        self.ask(seat, |client| async move { client.cluster().within(Duration::from_secs(4)).await.ok() }).await
    }

    /// Adds a new node with a vote on a free seat.
    ///
    /// # Errors
    /// When it does not get its vote in time.
    pub async fn grow(&self, seat: Seat) -> io::Result<()> {
        self.sit(seat, false)?;
        self.start_seat(seat).await?;
        self.joins(seat, LIMIT).await
    }

    /// Adds a new node without a vote on a free seat. Waits until it serves.
    ///
    /// # Errors
    /// When it does not serve in time.
    pub async fn grow_learner(&self, seat: Seat) -> io::Result<()> {
        let asked = self.now();
        self.sit(seat, true)?;
        self.start_seat(seat).await?;
        let by = Instant::now() + LIMIT;
        while !self.follows(seat).await? {
            self.is_taken(seat).await?;
            if Instant::now() > by {
                return Err(io::Error::other(format!(
                    "the node on seat {seat} does not follow:\n{}",
                    self.last_words(seat)
                )));
            }
            sleep(LOOK_EVERY).await;
        }
        let id = self.with(seat, |node| {
            node.has_begun = true;
            Ok(node.id)
        })?;
        self.changed(id, ChangeOf::Learn, asked, Some(self.now()));
        Ok(())
    }

    /// Whether the node of a seat says that it serves, and that it is a member without a vote.
    ///
    /// # Errors
    /// When the namespace no longer exists.
    pub async fn follows(&self, seat: Seat) -> io::Result<bool> {
        let id = self.id(seat);
        let status = self.status(seat).await?;
        let is_learner =
            status.is_some_and(|status| status.members.iter().any(|member| Some(member.id) == id && !member.votes));
        Ok(is_learner && self.is_ready(seat).await)
    }

    /// Waits until the node of a seat, which was just started, has a vote. Records what the cluster acknowledges
    /// meanwhile.
    ///
    /// # Errors
    /// When it does not get its vote in time.
    pub async fn joins(&self, seat: Seat, within: Duration) -> io::Result<()> {
        let asked = self.now();
        let voted = self.has_vote(seat, within).await;
        self.with(seat, |node| Ok((node.id, node.data.join("IDENTITY").exists())))
            .map(|(node, was_let_in)| self.changed(node, ChangeOf::Join, asked, was_let_in.then(|| self.now())))?;
        voted?;
        self.confirm_vote(seat).await
    }

    /// Asks the cluster for the vote that the node of a seat says it has: an answer means that the change is committed.
    async fn confirm_vote(&self, seat: Seat) -> io::Result<()> {
        let id = self.id(seat).ok_or_else(|| io::Error::other(format!("seat {seat} has no node")))?;
        let asked = self.now();
        let confirmed = self.ask(seat, move |client| async move { client.promote_member(id).within(ATTEMPT).await });
        let confirmed = confirmed.await?.is_ok();
        self.changed(id, ChangeOf::Vote, asked, confirmed.then(|| self.now()));
        Ok(())
    }

    /// Restarts a node that was rejected because a leader's wall clock was years ahead.
    ///
    /// # Errors
    /// When it exited for another reason.
    async fn is_taken(&self, seat: Seat) -> io::Result<()> {
        match self.ended(seat) {
            None => Ok(()),
            Some(ended) if ended.contains(EXPIRED) => self.start_seat(seat).await,
            Some(ended) => Err(io::Error::other(ended)),
        }
    }

    /// Gives every node that starts from now on a secret to join and to move.
    pub(super) async fn make_join_secret(&self, seat: Seat) -> io::Result<()> {
        let new = NewJoinSecret { node: None, valid_for_ms: Some(JOIN_SECRET_FOR_MS) };
        let made = self.ask(seat, move |client| async move { client.join_secret(&new).within(LIMIT).await }).await?;
        self.state().join_secret = Some(made.map_err(io::Error::other)?.secret);
        Ok(())
    }

    fn changed(&self, node: u64, what: ChangeOf, asked: Micros, answered: Option<Micros>) {
        self.state().members.changes.push(Change { node, what, asked, answered });
    }

    /// Reads the members from a leader that commits an entry during the read: it knows every change that was answered
    /// before.
    ///
    /// # Errors
    /// When no leader does so in time.
    pub async fn sight(&self, within: Duration) -> io::Result<SeenMembers> {
        let by = Instant::now() + within;
        while Instant::now() < by {
            let asked = self.now();
            if let Some(status) = self.status_of_leader().await? {
                let ids = |votes: bool| {
                    let members = status.members.iter().filter(|member| member.votes == votes);
                    members.map(|member| member.id).collect()
                };
                let seen = SeenMembers { asked, answered: self.now(), voters: ids(true), learners: ids(false) };
                self.state().members.seen.push(seen.clone());
                return Ok(seen);
            }
            sleep(LOOK_EVERY).await;
        }
        Err(io::Error::other("no leader committed an entry in time"))
    }

    async fn status_of_leader(&self) -> io::Result<Option<ClusterStatus>> {
        let Some((seat, id)) = self.leader().and_then(|seat| self.id(seat).map(|id| (seat, id))) else {
            return Ok(None);
        };
        let asked = self.ask(seat, move |client| async move {
            let before = client.cluster().within(ATTEMPT).await.ok()?;
            // The call renews nothing, but it commits an entry.
            client.renew_all(&RenewAll::default()).within(ATTEMPT).await.ok()?;
            let after = client.cluster().within(ATTEMPT).await.ok()?;
            let is_same = |status: &ClusterStatus| status.leader == Some(id) && status.term == before.term;
            (is_same(&before) && is_same(&after)).then_some(after)
        });
        asked.await
    }

    /// Records the members. Stops each node that was admitted and no longer is a member, because it considers itself
    /// removed: healing must not wait for it.
    ///
    /// # Errors
    /// When the members cannot be read.
    pub async fn drop_outsiders(&self) -> io::Result<Vec<Seat>> {
        let seen = self.sight(LIMIT).await?;
        let mut outside = Vec::new();
        for seat in self.seats() {
            let (id, was_let_in) = self.with(seat, |node| Ok((node.id, node.data.join("IDENTITY").exists())))?;
            if was_let_in && !seen.voters.contains(&id) && !seen.learners.contains(&id) {
                self.kill(seat)?;
                self.leave(seat);
                outside.push(seat);
            }
        }
        Ok(outside)
    }

    /// Removes again every node that was removed but is still a member: without a process it would cost the cluster its
    /// majority. The members were already recorded, so the violation is found.
    ///
    /// # Errors
    /// When the members cannot be read, or the node cannot be removed.
    pub async fn remove_ghosts(&self) -> io::Result<()> {
        let seen = self.sight(LIMIT).await?;
        let is_removal = |change: &&Change| change.what == ChangeOf::Remove && change.answered.is_some();
        let changes = self.members().changes;
        let removed: BTreeSet<u64> = changes.iter().filter(is_removal).map(|change| change.node).collect();
        for ghost in seen.voters.iter().chain(&seen.learners).filter(|id| removed.contains(id)) {
            self.remove(*ghost, 0).await?;
        }
        Ok(())
    }

    /// Adds a node under an id that was never used, and does not start it. Returns its id.
    ///
    /// # Errors
    /// When the cluster does not add it in time.
    pub async fn add_absent(&self, seat: Seat) -> io::Result<u64> {
        let id = {
            let mut state = self.state();
            state.next_id += 1;
            state.next_id - 1
        };
        let host = self.wire.shown_host(seat);
        let member = NewMember {
            node: id,
            peer_address: format!("{host}:{PEER_PORT}"),
            api_address: format!("{host}:{EDGE_PORT}"),
            instance: 0,
        };
        let (by, asked_at) = (Instant::now() + LIMIT, self.now());
        let mut why = String::new();
        while Instant::now() < by {
            for other in self.others(seat) {
                let member = member.clone();
                let asked = self.ask(other, move |client| async move {
                    client.add_member(&member).within(ATTEMPT).await.map_err(|error| error.to_string())
                });
                match asked.await? {
                    Ok(_) => {
                        self.changed(id, ChangeOf::Join, asked_at, Some(self.now()));
                        return Ok(id);
                    }
                    Err(error) => why = error,
                }
            }
            sleep(LOOK_EVERY).await;
        }
        Err(io::Error::other(format!("could not add node {id}: {why}")))
    }

    /// # Errors
    /// When the others do not remove it in time.
    pub async fn remove_absent(&self, id: u64) -> io::Result<()> {
        self.remove(id, 0).await
    }

    /// Moves a stopped node with its directory to another address.
    ///
    /// # Errors
    /// When it runs, or the other seat is taken.
    pub fn move_node(&self, from: Seat, to: Seat) -> io::Result<()> {
        let mut state = self.state();
        if state.seats.contains_key(&to) {
            return Err(io::Error::other(format!("seat {to} is taken")));
        }
        if state.seats.get(&from).is_none_or(|node| node.process.is_some()) {
            return Err(io::Error::other(format!("seat {from} has no stopped node")));
        }
        if let Some(mut node) = state.seats.remove(&from) {
            node.log = self.options.folder.join(format!("seat-{to}.log"));
            state.seats.insert(to, node);
        }
        Ok(())
    }

    /// Removes the node of a seat and frees the seat, while the node keeps running. It is stopped when the others have
    /// removed it.
    ///
    /// # Errors
    /// When the others do not remove it in time.
    pub async fn remove_running(&self, seat: Seat) -> io::Result<()> {
        let id = self.id(seat).ok_or_else(|| io::Error::other(format!("seat {seat} has no node")))?;
        self.may_end(seat, true)?;
        self.remove(id, seat).await
    }

    /// Stops the node of a seat, which is no longer a member, and frees the seat.
    ///
    /// # Errors
    /// When the seat has no node.
    pub fn clear(&self, seat: Seat) -> io::Result<()> {
        self.kill(seat)?;
        self.leave(seat);
        Ok(())
    }

    /// Removes the node of a seat from the cluster and stops it, whether it runs or not. Frees the seat.
    ///
    /// # Errors
    /// When the others do not remove it in time.
    pub async fn shrink(&self, seat: Seat) -> io::Result<()> {
        let id = self.id(seat).ok_or_else(|| io::Error::other(format!("seat {seat} has no node")))?;
        self.may_end(seat, true)?;
        self.remove(id, seat).await?;
        if self.running().contains(&seat) {
            self.stop(seat).await?;
        }
        self.leave(seat);
        Ok(())
    }

    fn leave(&self, seat: Seat) {
        self.not_leading(seat);
        self.state().seats.remove(&seat);
    }

    async fn remove(&self, id: u64, seat: Seat) -> io::Result<()> {
        let by = Instant::now() + LIMIT;
        let mut why = String::new();
        let asked_at = self.now();
        self.changed(id, ChangeOf::Remove, asked_at, None);
        while Instant::now() < by {
            for other in self.others(seat) {
                let asked = self.ask(other, move |client| async move {
                    client.remove_member(id).within(ATTEMPT).await.map_err(|error| error.to_string())
                });
                match asked.await? {
                    Ok(_) => {
                        self.changed(id, ChangeOf::Remove, asked_at, Some(self.now()));
                        return Ok(());
                    }
                    Err(error) => why = error,
                }
            }
            sleep(LOOK_EVERY).await;
        }
        Err(io::Error::other(format!("could not remove node {id}: {why}")))
    }

    /// Seats to ask, the leader first.
    fn others(&self, seat: Seat) -> Vec<Seat> {
        let leader = self.leader();
        let mut others: Vec<Seat> = self.running().into_iter().filter(|other| *other != seat).collect();
        others.sort_by_key(|other| Some(*other) != leader);
        others
    }

    /// Kills the node of a seat, empties its disk, and checks that it is rejected under its old id. Then removes it and
    /// puts another node on the seat. Returns whether the wiped node was rejected.
    ///
    /// # Errors
    /// When the cluster is not complete again afterwards.
    pub async fn replace_wiped(&self, seat: Seat) -> io::Result<bool> {
        self.kill(seat)?;
        let refused = self.is_refused_when_wiped(seat).await?;
        self.replace(seat).await?;
        Ok(refused)
    }

    /// Puts another node, with another id and an empty directory, on the seat of a lost one.
    ///
    /// # Errors
    /// When the others do not remove the old node, or do not admit the new one.
    pub async fn replace(&self, seat: Seat) -> io::Result<()> {
        let (id, learns) = self.with(seat, |node| Ok((node.id, node.learns)))?;
        let data = self.data(seat);
        self.kill(seat)?;
        self.remove(id, seat).await?;
        self.leave(seat);
        if let Some(data) = data.filter(|data| data.exists()) {
            fs::remove_dir_all(data)?;
        }
        if learns { self.grow_learner(seat).await } else { self.grow(seat).await }
    }

    /// Empties the disk of a seat: a node that starts there under its old id must be rejected.
    async fn is_refused_when_wiped(&self, seat: Seat) -> io::Result<bool> {
        let (data, path) = self.with(seat, |node| {
            node.may_end = true;
            node.has_begun = false;
            Ok((node.data.clone(), node.control.path().to_owned()))
        })?;
        if data.exists() {
            fs::remove_dir_all(&data)?;
        }
        let control = std::sync::Arc::new(Control::create(path)?);
        self.with(seat, |node| {
            node.control = control;
            Ok(())
        })?;
        self.start_seat(seat).await?;
        let ended = self.ends_within(seat, REFUSED_WITHIN).await;
        Ok(ended.is_some_and(|ended| ended.contains("is a member with another directory")))
    }

    /// How the node of a seat exited by itself, if it does so in time.
    pub async fn ends_within(&self, seat: Seat, within: Duration) -> Option<String> {
        let by = Instant::now() + within;
        while Instant::now() < by {
            if let Some(ended) = self.ended(seat) {
                return Some(ended);
            }
            sleep(LOOK_EVERY).await;
        }
        None
    }

    /// After the start of a node with a damaged disk: waits until it is ready, or replaces it if it refused to start.
    /// Returns whether it refused.
    ///
    /// # Errors
    /// When it does neither in time.
    pub async fn mend(&self, seat: Seat) -> io::Result<bool> {
        let by = Instant::now() + LIMIT;
        loop {
            if self.ended(seat).is_some() {
                self.replace(seat).await?;
                return Ok(true);
            }
            if self.is_ready(seat).await {
                self.with(seat, |node| {
                    node.is_damaged = false;
                    Ok(())
                })?;
                return Ok(false);
            }
            if Instant::now() > by {
                return Err(io::Error::other(format!(
                    "the node on seat {seat} neither serves nor refuses to start:\n{}",
                    self.last_words(seat)
                )));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Transfers leadership to the node of a seat. Returns whether the cluster confirmed it.
    ///
    /// # Errors
    /// When the seat has no node.
    pub async fn transfer(&self, to: Seat) -> io::Result<bool> {
        let id = self.id(to).ok_or_else(|| io::Error::other(format!("seat {to} has no node")))?;
        let Some(at) = self.leader() else { return Ok(false) };
        let asked = self.ask(at, move |client| async move {
            client.transfer_leader(Some(id)).within(Duration::from_secs(4)).await.is_ok()
        });
        asked.await
    }

    /// Restarts the node of a seat as a build of later rules, or as the same build as the others. Waits until it is
    /// ready.
    ///
    /// # Errors
    /// When there is no such build, or it is not ready in time.
    pub async fn change_build(&self, seat: Seat, to_newer: bool) -> io::Result<()> {
        if to_newer && self.options().newer_daemon.is_none() {
            return Err(io::Error::other("a newer build is needed: give --newer"));
        }
        self.stop(seat).await?;
        self.with(seat, |node| {
            node.is_newer = to_newer;
            Ok(())
        })?;
        self.start_seat(seat).await?;
        self.ready(LIMIT).await
    }

    /// Asks the node of a seat to raise the rules to the next version. Returns why they were not raised.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn later_rules_refused(&self, seat: Seat) -> io::Result<Option<String>> {
        let status = self
            .status(seat)
            .await?
            .ok_or_else(|| io::Error::other(format!("the node on seat {seat} does not answer")))?;
        let asked = self.ask(seat, move |client| async move {
            client.raise_rules(status.rules_version + 1).within(ATTEMPT).await.err().map(|error| error.to_string())
        });
        asked.await
    }

    /// Starts or ends draining of the node of a seat. Returns whether the node confirmed it.
    ///
    /// # Errors
    /// When the namespace no longer exists.
    pub async fn drain(&self, seat: Seat, drains: bool) -> io::Result<bool> {
        let asked = self.ask(seat, move |client| async move {
            let node = client.node(client.endpoints()[0].clone());
            let call = if drains { node.drain() } else { node.undrain() };
            call.within(ATTEMPT).await.is_ok_and(|said| said.draining == drains)
        });
        asked.await
    }

    /// Takes a snapshot on a seat. Returns the last entry in it, if one was taken.
    ///
    /// # Errors
    /// When the namespace no longer exists.
    pub async fn snapshot(&self, seat: Seat) -> io::Result<Option<u64>> {
        let asked = self.ask(seat, |client| async move {
            let node = client.node(client.endpoints()[0].clone());
            node.snapshot().within(ATTEMPT).await.ok().map(|taken| taken.applied)
        });
        asked.await
    }
}
