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
    /// `operator`, and `actor-0` and so on: each may do everything, everywhere.
    pub(super) fn make(daemon: &Path, path: &Path, actors: u32) -> io::Result<Self> {
        let mut file = String::new();
        let mut tokens = BTreeMap::new();
        let names = (0..actors).map(|nth| format!("actor-{nth}")).chain(["operator".to_owned()]);
        for actor in names {
            let mut command = Command::new(daemon);
            command.env_clear().args([
                "token",
                "--actor",
                &actor,
                "--role",
                ROLES,
                "--space",
                "*",
                "--cluster",
                "admin",
            ]);
            let made = command.output();
            let made = made.map_err(|error| io::Error::other(format!("{}: {error}", daemon.display())))?;
            let said = String::from_utf8_lossy(&made.stderr);
            let token = said.lines().nth(1).filter(|_| made.status.success());
            let token = token.ok_or_else(|| io::Error::other(format!("tenured token: {said}")))?;
            file += &String::from_utf8_lossy(&made.stdout);
            file.push('\n');
            tokens.insert(actor, token.trim().to_owned());
        }
        std::fs::write(path, file)?;
        Ok(Self { path: path.to_owned(), tokens })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn of(&self, actor: &str) -> Option<&str> {
        self.tokens.get(actor).map(String::as_str)
    }
}
