//! Backups, and a cluster that is restored from one while the original runs: a node on a free seat that no other node
//! knows.

use super::process::{self, Process};
use super::{Cluster, LIMIT, LOOK_EVERY, Seat};
use crate::history::Micros;
use crate::shim::Control;
use crate::wire::SEATS;
use client::Client;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// The only node of the new cluster.
const NODE: u64 = 1;
/// How far the restored node's wall clock is ahead. It must be later than a wall clock that a fault set a day ahead.
/// The backup must also be accepted after `wrong-date` set a clock years ahead, because that clock was corrected.
const LATER_MS: i64 = 3 * 24 * 60 * 60 * 1_000;

/// A backup.
#[derive(Clone, Debug)]
pub struct Taken {
    /// When it was requested, and when all of it had arrived.
    pub began: Micros,
    pub ended: Micros,
    file: PathBuf,
}

/// A cluster restored from a backup. It ends when this is dropped.
#[derive(Debug)]
pub struct Beside {
    /// The client of its operator.
    pub client: Client,
    log: PathBuf,
    _process: Process,
    _control: Control,
}

impl Beside {
    /// The last log lines of its node.
    #[must_use]
    pub fn last_words(&self) -> String {
        process::tail(&String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()))
    }
}

impl Cluster {
    /// Gets a backup from a node and replaces the one before. Returns its size in bytes.
    ///
    /// # Errors
    /// When it was refused or interrupted.
    pub async fn take_backup(&self, seat: Seat) -> io::Result<u64> {
        let file = self.options().folder.join("backup");
        let coming = self.options().folder.join("backup.coming");
        let (began, to) = (self.now(), coming.clone());
        let asked = self.ask(seat, |client| async move { timeout(LIMIT, receive(client, &to)).await });
        let bytes = asked.await?.map_err(io::Error::other)??;
        fs::rename(&coming, &file)?;
        self.state().taken = Some(Taken { began, ended: self.now(), file });
        Ok(bytes)
    }

    /// The last backup.
    #[must_use]
    pub fn taken(&self) -> Option<Taken> {
        self.state().taken.clone()
    }

    /// Restores a backup as a cluster, and waits until it answers.
    ///
    /// # Errors
    /// When the backup is refused, or the node does not start.
    pub async fn restore(&self, taken: &Taken) -> io::Result<Beside> {
        let folder = self.options().folder.join("restored");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let taken_seats = self.seats();
        let seat = (1..=SEATS).rfind(|seat| !taken_seats.contains(seat));
        let seat = seat.ok_or_else(|| io::Error::other("every seat is taken"))?;
        let (data, log) = (folder.join("node"), folder.join("log"));
        let control = Control::create(folder.join("control"))?;
        control.shift_wall(LATER_MS)?;

        let from = [("--from", taken.file.display().to_string()), ("--data", data.display().to_string())];
        let from = from.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
        let mut arguments: Vec<String> = ["restore".to_owned()].into_iter().chain(from).collect();
        arguments.extend(["--node-id".to_owned(), NODE.to_string()]);
        let mut restoring =
            process::command(&self.options().daemon, &arguments, &self.environment(seat, &control, &data));
        let done = tokio::task::spawn_blocking(move || restoring.output()).await.map_err(io::Error::other)??;
        if !done.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()));
        }
        let mut arguments = self.arguments(seat, NODE, &data);
        arguments.push("--bootstrap".into());
        let process = self.spawn(seat, &arguments, &control, &data, &log).await?;
        let client = self.client("operator", Some(seat))?;
        let beside = Beside { client, log, _process: process, _control: control };
        let by = Instant::now() + LIMIT;
        loop {
            let status = beside.client.cluster().within(Duration::from_secs(4)).await;
            if status.is_ok_and(|status| status.leader.is_some()) {
                return Ok(beside);
            }
            if Instant::now() > by {
                return Err(io::Error::other(format!("the restored node does not serve:\n{}", beside.last_words())));
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

async fn receive(client: Client, to: &Path) -> io::Result<u64> {
    let mut backup = client.backup().await.map_err(io::Error::other)?;
    let mut file = File::create(to)?;
    let mut bytes = 0;
    while let Some(chunk) = backup.chunk().await.map_err(io::Error::other)? {
        file.write_all(&chunk)?;
        bytes += chunk.len() as u64;
    }
    Ok(bytes)
}
