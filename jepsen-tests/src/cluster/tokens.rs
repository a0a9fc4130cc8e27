//! Who the callers of a run are.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROLES: &str = "reader,worker,dispatcher,operator";

#[derive(Debug)]
pub(super) struct Tokens {
    path: PathBuf,
    tokens: BTreeMap<String, String>,
}

impl Tokens {
    /// `operator`, and `actor-0` and so on: each may do everything, everywhere. `others`: actors with a role in a space and its queues.
    pub(super) fn make(
        daemon: &Path,
        path: &Path,
        actors: u32,
        others: &[(&str, &str, &str, &str)],
    ) -> io::Result<Self> {
        let mut made = Self { path: path.to_owned(), tokens: BTreeMap::new() };
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

    /// What belongs into the file of tokens.
    fn one(&mut self, daemon: &Path, actor: &str, rights: &[&str]) -> io::Result<String> {
        let mut command = Command::new(daemon);
        command.env_clear().args(["token", "--actor", actor]).args(rights);
        let made = command.output();
        let made = made.map_err(|error| io::Error::other(format!("{}: {error}", daemon.display())))?;
        let said = String::from_utf8_lossy(&made.stderr);
        let token = said.lines().nth(1).filter(|_| made.status.success());
        let token = token.ok_or_else(|| io::Error::other(format!("tenured token: {said}")))?;
        self.tokens.insert(actor.to_owned(), token.trim().to_owned());
        Ok(String::from_utf8_lossy(&made.stdout).into_owned() + "\n")
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn of(&self, actor: &str) -> Option<&str> {
        self.tokens.get(actor).map(String::as_str)
    }
}
