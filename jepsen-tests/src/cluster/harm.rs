//! Faults of the process on a seat: kill, power loss, pause, and stop.

use super::process;
use super::{Cluster, LOOK_EVERY, STOP_WITHIN, Seat};
use crate::dice::Dice;
use crate::shim::power::{self, Lost};
use nix::sys::signal::Signal;
use std::fs;
use std::io;
use std::time::Instant;
use tokio::time::sleep;

impl Cluster {
    /// Kills with SIGKILL at any moment. Returns whether the process was alive.
    ///
    /// # Errors
    /// When the seat has no node.
    pub fn kill(&self, seat: Seat) -> io::Result<bool> {
        let killed = self.with(seat, |node| {
            node.is_paused = false;
            Ok(node.process.take().is_some_and(|mut process| process.kill()))
        })?;
        self.not_leading(seat);
        Ok(killed)
    }

    /// Kills these at the same moment, and removes everything that was not synced from their disks.
    ///
    /// # Errors
    /// When their files cannot be read or truncated.
    pub fn power_loss(&self, seats: &[Seat], dice: &mut Dice) -> io::Result<Vec<(Seat, bool, Lost)>> {
        let mut lost = Vec::new();
        let mut killed = Vec::new();
        for seat in seats {
            killed.push(self.kill(*seat)?);
        }
        for (seat, killed) in seats.iter().zip(killed) {
            let (control, data) = self.with(*seat, |node| Ok((node.control.clone(), node.data.clone())))?;
            lost.push((*seat, killed, power::lose(&control, &data, dice)?));
        }
        Ok(lost)
    }

    /// Pauses with SIGSTOP. Returns whether the process has really stopped.
    ///
    /// # Errors
    /// When no process runs there.
    pub async fn pause(&self, seat: Seat) -> io::Result<bool> {
        let pid = self.signal(seat, Signal::SIGSTOP)?;
        self.with(seat, |node| {
            node.is_paused = true;
            Ok(())
        })?;
        for _ in 0..40 {
            if process::is_stopped(pid) {
                return Ok(true);
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(false)
    }

    /// Resumes with SIGCONT.
    ///
    /// # Errors
    /// When no process runs there.
    pub fn resume(&self, seat: Seat) -> io::Result<()> {
        self.signal(seat, Signal::SIGCONT)?;
        self.with(seat, |node| {
            node.is_paused = false;
            Ok(())
        })
    }

    fn signal(&self, seat: Seat, signal: Signal) -> io::Result<u32> {
        self.with(seat, |node| match &node.process {
            Some(process) => process.signal(signal).map(|()| process.id()),
            None => Err(io::Error::other(format!("no process runs on seat {seat}"))),
        })
    }

    /// Stops with SIGTERM. Returns whether the node exited as it should.
    ///
    /// # Errors
    /// When no process runs there.
    pub async fn stop(&self, seat: Seat) -> io::Result<bool> {
        let process = self.with(seat, |node| Ok(node.process.take()))?;
        let Some(mut process) = process else {
            return Err(io::Error::other(format!("no process runs on seat {seat}")));
        };
        process.signal(Signal::SIGTERM)?;
        let by = Instant::now() + STOP_WITHIN;
        let mut ended = None;
        while ended.is_none() && Instant::now() < by {
            ended = process.ended();
            sleep(LOOK_EVERY).await;
        }
        self.not_leading(seat);
        Ok(ended.is_some_and(|status| status.success()))
    }

    /// Sets whether the node may exit by itself from now on, because its disk is full or damaged.
    ///
    /// # Errors
    /// When the seat has no node.
    pub fn may_end(&self, seat: Seat, may: bool) -> io::Result<()> {
        self.with(seat, |node| {
            node.may_end = may;
            Ok(())
        })
    }

    /// Marks the disk as damaged. If the node does not start, healing replaces it.
    ///
    /// # Errors
    /// When the seat has no node.
    pub fn damaged(&self, seat: Seat) -> io::Result<()> {
        self.with(seat, |node| {
            (node.is_damaged, node.may_end) = (true, true);
            Ok(())
        })
    }

    /// How the node of a seat exited by itself since its last start.
    #[must_use]
    pub fn ended(&self, seat: Seat) -> Option<String> {
        self.state().seats.get(&seat).and_then(|node| node.ended.clone())
    }

    /// The log of all nodes of a seat, over all their starts.
    #[must_use]
    pub fn words(&self, seat: Seat) -> String {
        let log = self.state().seats.get(&seat).map(|node| node.log.clone());
        log.and_then(|log| fs::read(log).ok())
            .map_or_else(String::new, |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}
