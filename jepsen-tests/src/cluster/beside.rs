//! Processes in the namespace of a node: they reach the node without the wire, and end with the cluster.

use super::process::{self, Process};
use super::{Cluster, Seat};
use crate::hostile::{KEYS, Kind, Plan};
use crate::wire::{EDGE_PORT, PEER_PORT};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Hostile callers next to one node. Dropping this stops them.
#[derive(Debug)]
pub struct Hostile {
    pub seat: Seat,
    report: PathBuf,
    process: Process,
}

impl Hostile {
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The file with their tallies so far.
    #[must_use]
    pub fn report(&self) -> &Path {
        &self.report
    }

    /// Whether they have ended by themselves, which they do when their time is over.
    pub fn has_ended(&mut self) -> bool {
        self.process.ended().is_some()
    }
}

impl Cluster {
    /// Starts hostile callers at the node of a seat, for the given time. `name` is part of the names of everything they
    /// create, and of their files.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub async fn be_hostile(&self, seat: Seat, name: &str, kinds: &[Kind], lasts: Duration) -> io::Result<Hostile> {
        let folder = self.options.folder.join("hostile");
        std::fs::create_dir_all(&folder)?;
        let [certificate, key] = self.certificates.stranger();
        let host = self.wire.own_host(seat);
        let key_of =
            |(actor, ..): &(&str, &str, &str, &str)| Some(((*actor).to_owned(), self.api_key(actor)?.to_owned()));
        let plan = Plan {
            kinds: kinds.to_vec(),
            edge: SocketAddr::from((host, EDGE_PORT)),
            peer: SocketAddr::from((host, PEER_PORT)),
            keys: KEYS.iter().filter_map(key_of).collect(),
            authority: self.certificates.authority(),
            certificate,
            key,
            name: name.to_owned(),
            lasts_ms: u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX),
            report: folder.join(format!("{name}.json")),
        };
        let file = folder.join(format!("{name}.plan"));
        std::fs::write(&file, serde_json::to_vec(&plan)?)?;
        let arguments = ["hostile".to_owned(), file.display().to_string()];
        let command = process::command_of_low_priority(&std::env::current_exe()?, &arguments, &[]);
        let log = folder.join("log");
        let process = self.wire.place(seat).run(move || async move { Process::start(command, &log) }).await??;
        Ok(Hostile { seat, report: plan.report, process })
    }
}
