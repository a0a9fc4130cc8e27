//! An intruder: a node with a certificate of the cluster's CA that tries to join under an id that no operator admitted.

use super::certificates::STRANGER;
use super::process::{self, Process};
use super::{Cluster, LIMIT, LOOK_EVERY, Seat};
use crate::history::soak::Intruder;
use crate::shim::Control;
use crate::wire::SEATS;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The seat that is reserved for a restored cluster.
const SEAT: Seat = SEATS;
/// No node of a run gets an id as high as this.
const FIRST_ID: u64 = 9_000;

impl Cluster {
    /// Runs an intruder for the given time, stops it, and returns what happened. If it became a member it is removed
    /// again, so that the next one does not cost the cluster its majority.
    ///
    /// # Errors
    /// When it cannot be started, or cannot be removed.
    pub async fn intrude(&self, nth: u64, lasts: Duration) -> io::Result<Intruder> {
        let began = self.now();
        let node = FIRST_ID + nth;
        let folder = self.options.folder.join("intruder");
        fs::create_dir_all(&folder)?;
        // In memory where that is possible: an intruder stands for another machine, and must not load the disk of the
        // nodes.
        let memory = Path::new("/dev/shm");
        let scratch = tempfile::tempdir_in(if memory.is_dir() { memory } else { &folder })?;
        let (data, log) = (scratch.path().join("data"), folder.join(format!("node-{node}.log")));
        let control = Control::create(folder.join("control"))?;
        let mut arguments = self.arguments(SEAT, node, &data);
        let seats = self.seats();
        arguments.extend(["--join".into(), self.peer_addresses(&seats).join(",")]);
        // Every second intruder has a certificate for another host than its own.
        let is_stranger = nth % 2 == 1;
        if is_stranger {
            for (flag, file) in ["--peer-cert", "--peer-key"].into_iter().zip(self.certificates.stranger()) {
                let at = arguments.iter().position(|argument| argument == flag).map_or(0, |at| at + 1);
                arguments[at] = file.display().to_string();
            }
        }
        // It gets nothing from the cluster except its certificate.
        let environment = if self.wire.has_packets() { Vec::new() } else { self.under_shim(SEAT, &control, &data) };
        let command = process::command_of_low_priority(&self.options.daemon, &arguments, &environment);
        let at = log.clone();
        let mut process = self.wire.place(SEAT).run(move || async move { Process::start(command, &at) }).await??;
        let by = Instant::now() + lasts;
        let mut was_member = false;
        while Instant::now() < by && process.ended().is_none() {
            was_member |= self.is_member(node).await?;
            sleep(LOOK_EVERY * 20).await;
        }
        let was_let_in = data.join("IDENTITY").exists();
        drop::<Process>(process);
        // It may have become a member just now.
        was_member |= self.is_member(node).await?;
        if was_member {
            self.remove_absent(node).await?;
        }
        let said = process::tail(&String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()));
        scratch.close()?;
        let certificate = if is_stranger { STRANGER.to_owned() } else { self.wire.shown_host(SEAT).to_string() };
        Ok(Intruder { node, certificate, began, ended: self.now(), was_member, was_let_in, said })
    }

    /// According to any node that answers.
    async fn is_member(&self, node: u64) -> io::Result<bool> {
        let by = Instant::now() + LIMIT;
        while Instant::now() < by {
            for seat in self.running() {
                if let Some(status) = self.status(seat).await? {
                    return Ok(status.members.iter().any(|member| member.id == node));
                }
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(false)
    }
}
