//! What can be done to the process of a seat: it is killed, loses power, stands still, is told to stop.

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
    /// SIGKILL, in the middle of whatever it does. Says whether it was alive.
    ///
    /// # Errors
    /// When nobody sits there.
    pub fn kill(&self, seat: Seat) -> io::Result<bool> {
        let killed = self.with(seat, |node| {
            node.is_paused = false;
            Ok(node.process.take().is_some_and(|mut process| process.kill()))
        })?;
        self.not_leading(seat);
        Ok(killed)
    }

    /// Kills these at one moment, and takes from their disks what was not synced.
    ///
    /// # Errors
    /// When their files cannot be read or cut.
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

    /// SIGSTOP. Says whether the process has really stopped.
    ///
    /// # Errors
    /// When nobody runs there.
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

    /// SIGCONT.
    ///
    /// # Errors
    /// When nobody runs there.
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

    /// SIGTERM, and whether it ended as it should.
    ///
    /// # Errors
    /// When nobody runs there.
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

    /// Whether it may end by itself from now on: its disk is full, or not what it was.
    ///
    /// # Errors
    /// When nobody sits there.
    pub fn may_end(&self, seat: Seat, may: bool) -> io::Result<()> {
        self.with(seat, |node| {
            node.may_end = may;
            Ok(())
        })
    }

    /// Its disk does not hold what it held. If it does not start it is replaced when the cluster is healed.
    ///
    /// # Errors
    /// When nobody sits there.
    pub fn damaged(&self, seat: Seat) -> io::Result<()> {
        self.with(seat, |node| {
            (node.is_damaged, node.may_end) = (true, true);
            Ok(())
        })
    }

    /// How the node of a seat ended by itself, since it was last started.
    #[must_use]
    pub fn ended(&self, seat: Seat) -> Option<String> {
        self.state().seats.get(&seat).and_then(|node| node.ended.clone())
    }

    /// What a seat's nodes said, in all their lives.
    #[must_use]
    pub fn words(&self, seat: Seat) -> String {
        let log = self.state().seats.get(&seat).map(|node| node.log.clone());
        log.and_then(|log| fs::read(log).ok())
            .map_or_else(String::new, |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}
