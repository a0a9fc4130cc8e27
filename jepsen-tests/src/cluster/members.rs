//! Who belongs to the cluster: seats are taken, given up and taken again under new ids, leadership moves, snapshots are taken. Each is
//! asked for until it is so, because each may be repeated.

use super::{Cluster, LIMIT, LOOK_EVERY, Seat};
use crate::shim::Control;
use client::api::cluster::ClusterStatus;
use std::fs;
use std::io;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// One attempt at a change.
const ATTEMPT: Duration = Duration::from_secs(12);
/// A node that is refused says so at once; one that starts is ready by then.
const REFUSED_WITHIN: Duration = Duration::from_secs(30);

impl Cluster {
    /// Waits until the node of a seat is a voter by its own word.
    ///
    /// # Errors
    /// When it is not, in time, or ended by itself.
    pub async fn has_vote(&self, seat: Seat, within: Duration) -> io::Result<()> {
        let by = Instant::now() + within;
        let id = self.id(seat).ok_or_else(|| io::Error::other(format!("nobody sits on seat {seat}")))?;
        loop {
            let status = self.status(seat).await?;
            if status.is_some_and(|status| status.members.iter().any(|member| member.id == id && member.votes)) {
                return self.with(seat, |node| {
                    node.has_begun = true;
                    Ok(())
                });
            }
            if let Some(ended) = self.ended(seat) {
                return Err(io::Error::other(ended));
            }
            if Instant::now() > by {
                return Err(io::Error::other(format!("seat {seat} has no vote:\n{}", self.last_words(seat))));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// How the cluster is, as the node of a seat sees it: members, roles, hashes. Nothing if it does not answer in time.
    ///
    /// # Errors
    /// When the place is gone.
    pub async fn status(&self, seat: Seat) -> io::Result<Option<ClusterStatus>> {
        self.ask(seat, |client| async move { client.cluster().within(Duration::from_secs(4)).await.ok() }).await
    }

    /// A new node on a free seat, with a vote.
    ///
    /// # Errors
    /// When it does not get it in time.
    pub async fn grow(&self, seat: Seat) -> io::Result<()> {
        self.sit(seat)?;
        self.start_seat(seat).await?;
        self.has_vote(seat, LIMIT).await
    }

    /// Takes the node of a seat out of the cluster and ends it, whether it runs or not. The seat is free then.
    ///
    /// # Errors
    /// When the others do not let it go in time.
    pub async fn shrink(&self, seat: Seat) -> io::Result<()> {
        let id = self.id(seat).ok_or_else(|| io::Error::other(format!("nobody sits on seat {seat}")))?;
        self.remove(id, seat).await?;
        if self.running().contains(&seat) {
            self.may_end(seat, true)?;
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
        while Instant::now() < by {
            for other in self.others(seat) {
                let asked = self.ask(other, move |client| async move {
                    client.remove_member(id).within(ATTEMPT).await.map_err(|error| error.to_string())
                });
                match asked.await? {
                    Ok(_) => return Ok(()),
                    Err(error) => why = error,
                }
            }
            sleep(LOOK_EVERY).await;
        }
        Err(io::Error::other(format!("node {id} cannot be removed: {why}")))
    }

    /// Seats to ask, the leader first.
    fn others(&self, seat: Seat) -> Vec<Seat> {
        let leader = self.leader();
        let mut others: Vec<Seat> = self.running().into_iter().filter(|other| *other != seat).collect();
        others.sort_by_key(|other| Some(*other) != leader);
        others
    }

    /// Kills the node of a seat, takes everything from its disk, and checks that it is not let in again under its id; then
    /// removes it and lets another one take the seat. Says whether the wiped one was refused.
    ///
    /// # Errors
    /// When the cluster does not come out of it whole.
    pub async fn replace_wiped(&self, seat: Seat) -> io::Result<bool> {
        self.kill(seat)?;
        let refused = self.is_refused_when_wiped(seat).await?;
        self.replace(seat).await?;
        Ok(refused)
    }

    /// Another node, with another id and an empty directory, takes the seat of one that is gone.
    ///
    /// # Errors
    /// When the others do not let the old one go, or the new one in.
    pub async fn replace(&self, seat: Seat) -> io::Result<()> {
        let id = self.id(seat).ok_or_else(|| io::Error::other(format!("nobody sits on seat {seat}")))?;
        let data = self.data(seat);
        self.kill(seat)?;
        self.remove(id, seat).await?;
        self.leave(seat);
        if let Some(data) = data.filter(|data| data.exists()) {
            fs::remove_dir_all(data)?;
        }
        self.grow(seat).await
    }

    /// The disk of a seat is empty: started under its old id, its node has to be turned away.
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

    /// How the node of a seat ended by itself, if it does so in time.
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

    /// A node whose disk was damaged has been started: it is ready, or it refused and is replaced. Says whether it refused.
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
                    "seat {seat} neither serves nor refuses:\n{}",
                    self.last_words(seat)
                )));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Makes the node of a seat lead. Says whether it was told that it does.
    ///
    /// # Errors
    /// When nobody sits there.
    pub async fn transfer(&self, to: Seat) -> io::Result<bool> {
        let id = self.id(to).ok_or_else(|| io::Error::other(format!("nobody sits on seat {to}")))?;
        let Some(at) = self.leader() else { return Ok(false) };
        let asked = self.ask(at, move |client| async move {
            client.transfer_leader(Some(id)).within(Duration::from_secs(4)).await.is_ok()
        });
        asked.await
    }

    /// Stops the node of a seat and starts it again as a build of later rules, or as one of the same as the others. Waits until it is
    /// ready.
    ///
    /// # Errors
    /// When there is no such build, or it is not ready in time.
    pub async fn change_build(&self, seat: Seat, to_newer: bool) -> io::Result<()> {
        if to_newer && self.options().newer_daemon.is_none() {
            return Err(io::Error::other("no newer build was given"));
        }
        self.stop(seat).await?;
        self.with(seat, |node| {
            node.is_newer = to_newer;
            Ok(())
        })?;
        self.start_seat(seat).await?;
        self.ready(LIMIT).await
    }

    /// Asks the node of a seat for the rules behind those that it works under. Says why they were not raised.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn later_rules_refused(&self, seat: Seat) -> io::Result<Option<String>> {
        let status =
            self.status(seat).await?.ok_or_else(|| io::Error::other(format!("seat {seat} does not answer")))?;
        let asked = self.ask(seat, move |client| async move {
            client.raise_rules(status.rules_version + 1).within(ATTEMPT).await.err().map(|error| error.to_string())
        });
        asked.await
    }

    /// Takes a snapshot on a seat. Says which entry is the last in it, if one was taken.
    ///
    /// # Errors
    /// When the place is gone.
    pub async fn snapshot(&self, seat: Seat) -> io::Result<Option<u64>> {
        let asked = self.ask(seat, |client| async move {
            let node = client.node(client.endpoints()[0].clone());
            node.snapshot().within(ATTEMPT).await.ok().map(|taken| taken.applied)
        });
        asked.await
    }
}
