//! The API keys of a run's callers.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROLES: &str = "reader,worker,dispatcher,operator";

#[derive(Debug)]
pub(super) struct ApiKeys {
    path: PathBuf,
    api_keys: BTreeMap<String, String>,
}

impl ApiKeys {
    /// Creates keys with all rights for `operator` and `actor-0`, `actor-1` …, and keys for `others`: actors with a
    /// role in a space and its queues.
    pub(super) fn make(
        daemon: &Path,
        path: &Path,
        actors: u32,
        others: &[(&str, &str, &str, &str)],
    ) -> io::Result<Self> {
        let mut made = Self { path: path.to_owned(), api_keys: BTreeMap::new() };
        let mut file = String::new();
        for actor in (0..actors).map(|nth| format!("actor-{nth}")).chain(["operator".to_owned()]) {
            file += &made.one(daemon, &actor, &["--role", ROLES, "--space", "*", "--cluster", "admin"])?;
        }
        for (actor, role, space, queue) in others {
            file += &made.one(daemon, actor, &["--role", role, "--space", space, "--queue", queue])?;
        }
        std::fs::write(path, file)?;
        Ok(made)
    }

    /// Creates one API key, and returns its entry for the API key file.
    fn one(&mut self, daemon: &Path, actor: &str, rights: &[&str]) -> io::Result<String> {
        let mut command = Command::new(daemon);
        command.env_clear().args(["api-key", "--actor", actor]).args(rights);
        let made = command.output();
        let made = made.map_err(|error| io::Error::other(format!("{}: {error}", daemon.display())))?;
        let said = String::from_utf8_lossy(&made.stderr);
        let api_key = said.lines().nth(1).filter(|_| made.status.success());
        let api_key = api_key.ok_or_else(|| io::Error::other(format!("tenured api-key failed: {said}")))?;
        self.api_keys.insert(actor.to_owned(), api_key.trim().to_owned());
        Ok(String::from_utf8_lossy(&made.stdout).into_owned() + "\n")
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn of(&self, actor: &str) -> Option<&str> {
        self.api_keys.get(actor).map(String::as_str)
    }
}
