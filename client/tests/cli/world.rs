//! `tenure` as a process, and nodes for it to speak to: a development node, or three with tokens.

use crate::daemon::{Daemon, program, until};
use client::api;
use expect_test::Expect;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A folder for what a user has, and a development node.
pub(crate) struct World {
    pub(crate) daemon: Daemon,
    pub(crate) home: TempDir,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self { daemon: Daemon::start().await, home: tempfile::tempdir().unwrap() }
    }

    /// `tenure`, as ada.
    pub(crate) fn tenure<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Tenure {
        self.tenure_as("ada", words)
    }

    pub(crate) fn tenure_as<S: AsRef<OsStr>>(&self, actor: &str, words: impl IntoIterator<Item = S>) -> Tenure {
        let endpoint = format!("http://{}", self.daemon.address);
        Tenure::new(self.home.path(), words).env("TENURE_ENDPOINT", endpoint).env("TENURE_ACTOR", actor)
    }

    /// A line of words, said by ada, that ends well.
    pub(crate) fn says(&self, line: &str) -> Said {
        self.tenure(line.split(' ')).said().ends_with(0)
    }

    /// The same with `--json`: the very JSON of the interface.
    pub(crate) fn says_json<T: Serialize + DeserializeOwned>(&self, line: &str) -> T {
        self.tenure(line.split(' ').chain(["--json"])).said().ends_with(0).json()
    }

    pub(crate) fn adds(&self, item: &str) {
        self.says(&format!("add {item} --queue ops"));
    }

    /// Claims an item for ada; its token.
    pub(crate) fn claims(&self, item: &str) -> u64 {
        let claimed: Value = self.tenure(["claim", item, "--json"]).said().ends_with(0).value();
        claimed["token"].as_u64().unwrap()
    }

    pub(crate) fn state(&self, item: &str) -> String {
        let shown: Value = self.tenure(["show", item, "--json"]).said().ends_with(0).value();
        shown["state"].as_str().unwrap().to_owned()
    }
}

/// A run of `tenure` that is yet to come.
pub(crate) struct Tenure {
    command: Command,
    input: Option<String>,
}

impl Tenure {
    pub(crate) fn new<S: AsRef<OsStr>>(home: &Path, words: impl IntoIterator<Item = S>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(words).current_dir(home).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", home).env("XDG_CONFIG_HOME", home.join("config")).env("USER", "zoe");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, input: None }
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub(crate) fn input(mut self, text: &str) -> Self {
        self.command.stdin(Stdio::piped());
        self.input = Some(text.to_owned());
        self
    }

    pub(crate) fn begins(mut self) -> Child {
        let mut child = self.command.spawn().unwrap();
        if let (Some(text), Some(mut pipe)) = (self.input.take(), child.stdin.take()) {
            pipe.write_all(text.as_bytes()).unwrap();
        }
        child
    }

    pub(crate) fn said(self) -> Said {
        Said::new(self.begins().wait_with_output().unwrap())
    }
}

/// What a run said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn new(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// For people, without what no two runs have in common.
    #[track_caller]
    pub(crate) fn reads(&self, expect: &Expect) {
        expect.assert_eq(&timeless(&self.out));
    }

    #[track_caller]
    pub(crate) fn complains(&self, expect: &Expect) {
        expect.assert_eq(&timeless(&self.err));
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Exactly what the interface would have answered: nothing of it is lost or added.
    pub(crate) fn json<T: Serialize + DeserializeOwned>(&self) -> T {
        let value: T = serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        assert_eq!(serde_json::to_value(&value).unwrap(), self.value());
        value
    }

    pub(crate) fn problem(&self) -> api::Problem {
        self.json()
    }
}

/// Dates and what they are away from now look the same in every run.
pub(crate) fn timeless(text: &str) -> String {
    let mut timeless = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let is_date = rest.len() >= 20 && {
            let bytes = rest.as_bytes();
            bytes[..4].iter().all(u8::is_ascii_digit)
                && bytes[4] == b'-'
                && bytes[7] == b'-'
                && bytes[13] == b':'
                && bytes[19] == b'Z'
        };
        if is_date {
            timeless.push_str("DATE");
            rest = &rest[20..];
            // `, in 14m59s` or `, 3s ago`
            if let Some(away) = rest.strip_prefix(", ") {
                let end = away.find(['\n', ';']).unwrap_or(away.len());
                let away = &away[..end];
                let words = away.split("  ").next().unwrap();
                let words = words.strip_prefix("in ").map_or_else(
                    || words.find(" ago").map(|at| at + " ago".len()),
                    |span| Some("in ".len() + span.find(' ').unwrap_or(span.len())),
                );
                if let Some(length) = words {
                    timeless.push_str(", AWAY");
                    rest = &rest[2 + length..];
                }
            }
            // Columns behind a date are as wide as it was.
            let blanks = rest.len() - rest.trim_start_matches(' ').len();
            if blanks > 1 {
                timeless.push_str("  ");
                rest = &rest[blanks..];
            }
            continue;
        }
        let next = rest.chars().next().unwrap();
        timeless.push(next);
        rest = &rest[next.len_utf8()..];
    }
    let lines = timeless.lines().map(|line| {
        // A head over dates is as wide as they are.
        let is_head = line.chars().all(|c| c.is_ascii_uppercase() || c == ' ') && line.contains("  ");
        let words: Vec<_> = line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
        if is_head { words.join("  ") } else { line.to_owned() }
    });
    lines.map(|line| line + "\n").collect()
}

fn is_over(process: &mut Child) -> bool {
    process.try_wait().unwrap().is_some()
}

/// Three nodes that belong together, and an admin's token.
pub(crate) struct Cluster {
    folder: TempDir,
    nodes: Vec<Node>,
}

struct Node {
    peers: SocketAddr,
    callers: SocketAddr,
    process: Option<Child>,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        // A port that was free may be somebody else's a moment later: then all begin anew.
        for _ in 0..5 {
            if let Some(cluster) = Self::begin().await {
                return cluster;
            }
        }
        panic!("nodes end instead of beginning");
    }

    async fn begin() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new(program())
            .args(["token", "--actor", "root", "--kind", "user", "--space", "*"])
            .args(["--role", "reader,worker,dispatcher,operator,admin"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        std::fs::write(folder.path().join("tokens.toml"), &made.stdout).unwrap();
        let said = String::from_utf8(made.stderr).unwrap();
        let token = said.lines().find(|line| line.starts_with("tenure_")).unwrap();
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(folder.path().join("token")).unwrap();
        file.write_all(token.as_bytes()).unwrap();
        // All at once, so that no two are the same.
        let free: Vec<_> = (0..6).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let address = |at: usize| free[at].local_addr().unwrap();
        let nodes = (0..3).map(|at| Node { peers: address(at), callers: address(3 + at), process: None }).collect();
        drop(free);
        let mut cluster = Self { folder, nodes };
        for at in 0..3 {
            cluster.launch(at);
        }
        let mut has_ended = false;
        until("three nodes vote", async || {
            has_ended = cluster.nodes.iter_mut().filter_map(|node| node.process.as_mut()).any(is_over);
            let said = cluster.tenure(["cluster", "status", "--json", "--timeout", "2s"]).said();
            has_ended
                || said.code == 0 && {
                    let status: api::cluster::ClusterStatus = said.json();
                    status.leader.is_some() && status.members.iter().filter(|member| member.votes).count() == 3
                }
        })
        .await;
        (!has_ended).then_some(cluster)
    }

    fn launch(&mut self, at: usize) {
        let mut command = Command::new(program());
        let folder = self.folder.path();
        command.arg("--node-id").arg((at + 1).to_string()).arg("--data").arg(folder.join(format!("node-{at}")));
        command.arg("--peer-listen").arg(self.nodes[at].peers.to_string());
        command.arg("--listen").arg(self.nodes[at].callers.to_string());
        command.arg("--tokens").arg(folder.join("tokens.toml"));
        if at == 0 {
            command.arg("--bootstrap");
        } else {
            command.arg("--join").arg(self.nodes[0].peers.to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.nodes[at].process = Some(command.spawn().unwrap());
    }

    /// A fresh node that waits for a backup; it takes the place of the first, with the same tokens.
    pub(crate) fn await_restore(&mut self) {
        self.kill(0);
        let mut command = Command::new(program());
        let folder = self.folder.path();
        command.args(["--await-restore", "--node-id", "1"]).arg("--data").arg(folder.join("restored"));
        command.arg("--peer-listen").arg(self.nodes[0].peers.to_string());
        command.arg("--listen").arg(self.nodes[0].callers.to_string());
        command.arg("--tokens").arg(folder.join("tokens.toml"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.nodes[0].process = Some(command.spawn().unwrap());
    }

    /// As a power cut would.
    pub(crate) fn kill(&mut self, at: usize) {
        if let Some(mut process) = self.nodes[at].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub(crate) fn kill_all(&mut self) {
        (0..3).for_each(|at| self.kill(at));
    }

    pub(crate) fn endpoint(&self, at: usize) -> String {
        format!("http://{}", self.nodes[at].callers)
    }

    pub(crate) fn token_file(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `tenure`, as an admin who knows all three.
    pub(crate) fn tenure<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Tenure {
        let endpoints: Vec<_> = (0..3).map(|at| self.endpoint(at)).collect();
        let tenure = Tenure::new(self.folder.path(), words).env("TENURE_ENDPOINT", endpoints.join(","));
        tenure.env("TENURE_TOKEN_FILE", self.token_file())
    }

    /// Without the others.
    pub(crate) fn tenure_at<S: AsRef<OsStr>>(&self, at: usize, words: impl IntoIterator<Item = S>) -> Tenure {
        self.tenure(words).env("TENURE_ENDPOINT", self.endpoint(at))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill_all();
    }
}
