//! Runs the example of a guarded row on its own PostgreSQL server. Prints that it is skipped if PostgreSQL is not
//! installed.

#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

const GUARDED: &str = include_str!("../examples/fenced_postgres.sql");
/// The same statement without the comparison.
const UNGUARDED: &str = "INSERT INTO disks (id, content, token) VALUES (:'id', :'content', :token)
    ON CONFLICT (id) DO UPDATE SET content = EXCLUDED.content, token = EXCLUDED.token RETURNING token;";

struct Postgres {
    binaries: PathBuf,
    folder: tempfile::TempDir,
    server: Child,
}

/// The folder with `initdb` and `postgres`.
fn binaries() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok().into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&paths));
    folders.into_iter().find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
}

/// PostgreSQL does not run as root.
fn command(program: &Path, owner: u32) -> Command {
    let mut command = Command::new(program);
    if owner == 0 {
        command.uid(65_534).gid(65_534);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Postgres {
    fn start() -> Option<Self> {
        let binaries = binaries()?;
        let folder = tempfile::tempdir().unwrap();
        let owner = fs::metadata(folder.path()).unwrap().uid();
        if owner == 0 {
            chown(folder.path(), Some(65_534), Some(65_534)).unwrap();
        }
        let data = folder.path().join("data");
        let mut initdb = command(&binaries.join("initdb"), owner);
        initdb.arg("--pgdata").arg(&data).args(["--auth=trust", "--username=tenure", "--no-sync", "--locale=C"]);
        assert!(initdb.current_dir(folder.path()).status().unwrap().success(), "initdb");
        let mut server = command(&binaries.join("postgres"), owner);
        server.arg("-D").arg(&data).arg("-k").arg(folder.path()).args(["-c", "listen_addresses="]);
        let server = server.current_dir(folder.path()).spawn().unwrap();
        let postgres = Self { binaries, folder, server };
        let by = Instant::now() + Duration::from_secs(60);
        while postgres.ask("SELECT 1;", &[]).as_deref() != Some("1") {
            assert!(Instant::now() < by, "PostgreSQL did not start");
            thread::sleep(Duration::from_millis(50));
        }
        Some(postgres)
    }

    /// The answer of one statement; `None` if it failed.
    fn ask(&self, statement: &str, variables: &[(&str, &str)]) -> Option<String> {
        let program = [self.binaries.join("psql"), PathBuf::from("psql")].into_iter().find(|path| path.exists());
        let mut psql = Command::new(program.unwrap_or_else(|| PathBuf::from("psql")));
        psql.arg("--host").arg(self.folder.path()).args(["--username=tenure", "--dbname=postgres", "--quiet"]);
        psql.args(["--tuples-only", "--no-align", "--no-psqlrc", "--set=ON_ERROR_STOP=1"]);
        for (name, value) in variables {
            psql.arg(format!("--set={name}={value}"));
        }
        // psql replaces variables only in its input, not in arguments.
        let file = self.folder.path().join("statement.sql");
        fs::write(&file, statement).unwrap();
        let answer = psql.arg("--file").arg(file).output().unwrap();
        answer.status.success().then(|| String::from_utf8(answer.stdout).unwrap().trim().to_owned())
    }

    fn write(&self, statement: &str, token: &str, content: &str) -> String {
        self.ask(statement, &[("id", "disk-42"), ("content", content), ("token", token)]).unwrap()
    }

    /// The content of the row after writes with a newer token and then an older one.
    fn after_a_late_write(&self, statement: &str) -> (String, String) {
        self.ask("DROP TABLE IF EXISTS disks; CREATE TABLE disks (id text PRIMARY KEY, content text NOT NULL, token bigint NOT NULL);", &[]).unwrap();
        assert_eq!(self.write(statement, "17", "ada's first"), "17");
        assert_eq!(self.write(statement, "18", "bob's, who holds it"), "18");
        let answer = self.write(statement, "17", "ada's, who lost it");
        (self.ask("SELECT content FROM disks;", &[]).unwrap(), answer)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_late_write_replaces_an_unguarded_row_and_is_rejected_by_a_guarded_one() {
    let Some(postgres) = Postgres::start() else {
        eprintln!("skipped: there is no PostgreSQL on this machine (initdb and postgres)");
        return;
    };
    let (unguarded, _) = postgres.after_a_late_write(UNGUARDED);
    assert_eq!(unguarded, "ada's, who lost it", "the unguarded twin must show the damage");
    let (guarded, answer) = postgres.after_a_late_write(GUARDED);
    assert_eq!((guarded.as_str(), answer.as_str()), ("bob's, who holds it", ""));
}
