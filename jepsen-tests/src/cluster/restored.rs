//! Backups, and the cluster that is made of one beside the cluster it was taken of: a node on a seat that nobody sits on, which
//! no other node knows.

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
/// It is restored so much later. A wall clock that a fault set a day ahead is behind it then; so has to be the one that `wrong-date` set
/// years ahead, because it was set right again.
const LATER_MS: i64 = 3 * 24 * 60 * 60 * 1_000;

/// A backup.
#[derive(Clone, Debug)]
pub struct Taken {
    /// When it was asked for, and when all of it had come.
    pub began: Micros,
    pub ended: Micros,
    file: PathBuf,
}

/// A cluster made from a backup. It ends with this.
#[derive(Debug)]
pub struct Beside {
    /// Of its operator.
    pub client: Client,
    log: PathBuf,
    _process: Process,
    _control: Control,
}

impl Beside {
    /// What its node said last.
    #[must_use]
    pub fn last_words(&self) -> String {
        process::tail(&String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()))
    }
}

impl Cluster {
    /// Asks a node for a backup, which takes the place of the one before. Says how many bytes it has.
    ///
    /// # Errors
    /// When it was refused or broke off.
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

    /// Makes a cluster of a backup, and waits until it answers.
    ///
    /// # Errors
    /// When the backup is refused, or the node does not come up.
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
