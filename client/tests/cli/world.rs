//! Runs `tenure` as a process against nodes: a cluster of three, or a development node.

use client::api;
use expect_test::Expect;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use test_support::cluster::Cluster;
use test_support::daemon::Daemon;
use test_support::timeless::timeless;
use test_support::until;

/// The actors that call the nodes of a world.
pub(crate) const ACTORS: [&str; 4] = ["ada", "bob", "eve", "boss"];

/// A home folder for the user, and nodes.
pub(crate) struct World {
    pub(crate) home: TempDir,
    nodes: Nodes,
    /// The number of runs: each run asks another node first.
    runs: AtomicUsize,
}

enum Nodes {
    Three(Cluster),
    Development(Daemon),
}

impl World {
    /// Three nodes, each a separate process. Their callers have API keys with all rights.
    pub(crate) async fn start() -> Self {
        Self::new(Nodes::Three(Cluster::start_for(ACTORS).await))
    }

    /// A development node, which trusts its callers.
    pub(crate) async fn development() -> Self {
        Self::new(Nodes::Development(Daemon::start().await))
    }

    fn new(nodes: Nodes) -> Self {
        Self { home: tempfile::tempdir().unwrap(), nodes, runs: AtomicUsize::new(0) }
    }

    pub(crate) fn daemon(&self) -> &Daemon {
        match &self.nodes {
            Nodes::Development(daemon) => daemon,
            Nodes::Three(_) => panic!("there are three"),
        }
    }

    pub(crate) fn cluster(&mut self) -> &mut Cluster {
        match &mut self.nodes {
            Nodes::Three(cluster) => cluster,
            Nodes::Development(_) => panic!("there is one"),
        }
    }

    /// The endpoints of all nodes, starting with another one each time.
    pub(crate) fn endpoints(&self) -> String {
        match &self.nodes {
            Nodes::Development(daemon) => format!("http://{}", daemon.address),
            Nodes::Three(cluster) => {
                let first = self.runs.fetch_add(1, Ordering::Relaxed);
                (0..3).map(|nth| cluster.endpoint((first + nth) % 3)).collect::<Vec<_>>().join(",")
            }
        }
    }

    /// A run of `tenure` as ada.
    pub(crate) fn tenure<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Tenure {
        self.tenure_as("ada", words)
    }

    pub(crate) fn tenure_as<S: AsRef<OsStr>>(&self, actor: &str, words: impl IntoIterator<Item = S>) -> Tenure {
        let tenure = Tenure::new(self.home.path(), words).env("TENURE_ENDPOINT", self.endpoints());
        match &self.nodes {
            Nodes::Development(_) => tenure.env("TENURE_ACTOR", actor),
            Nodes::Three(cluster) => tenure.env("TENURE_API_KEY_FILE", cluster.api_key_file_of(actor)),
        }
    }

    /// Runs a command line as ada; it must succeed.
    pub(crate) fn says(&self, line: &str) -> Said {
        self.tenure(line.split(' ')).said().ends_with(0)
    }

    /// Like `says`, with `--json`: returns the API's JSON.
    pub(crate) fn says_json<T: Serialize + DeserializeOwned>(&self, line: &str) -> T {
        self.tenure(line.split(' ').chain(["--json"])).said().ends_with(0).json()
    }

    pub(crate) fn adds(&self, item: &str) {
        self.says(&format!("add {item} --queue ops"));
    }

    /// Claims an item for ada; returns its token.
    pub(crate) fn claims(&self, item: &str) -> u64 {
        let claimed: Value = self.tenure(["claim", item, "--json"]).said().ends_with(0).value();
        claimed["token"].as_u64().unwrap()
    }

    pub(crate) fn state(&self, item: &str) -> String {
        let shown: Value = self.tenure(["show", item, "--json"]).said().ends_with(0).value();
        shown["state"].as_str().unwrap().to_owned()
    }
}

/// A run of `tenure` that has not started yet.
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

    /// A run as an admin of a cluster with all three endpoints.
    pub(crate) fn of<S: AsRef<OsStr>>(cluster: &Cluster, words: impl IntoIterator<Item = S>) -> Self {
        let endpoints: Vec<_> = (0..3).map(|at| cluster.endpoint(at)).collect();
        let tenure = Self::new(cluster.folder(), words).env("TENURE_ENDPOINT", endpoints.join(","));
        tenure.env("TENURE_API_KEY_FILE", cluster.api_key_file())
    }

    /// The same with one endpoint.
    pub(crate) fn at<S: AsRef<OsStr>>(cluster: &Cluster, at: usize, words: impl IntoIterator<Item = S>) -> Self {
        Self::of(cluster, words).env("TENURE_ENDPOINT", cluster.endpoint(at))
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

    /// Sets this file as the standard input.
    pub(crate) fn reads(mut self, file: File) -> Self {
        self.command.stdin(file);
        self
    }

    /// Writes the output to this terminal instead of capturing it.
    pub(crate) fn on(mut self, terminal: &OwnedFd) -> Self {
        self.command.stdout(terminal.try_clone().unwrap()).stderr(terminal.try_clone().unwrap());
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

/// Waits until a run has ended, with a limit.
pub(crate) async fn ended(mut run: Child) -> Said {
    until("it ended", async || run.try_wait().unwrap().is_some()).await;
    Said::new(run.wait_with_output().unwrap())
}

/// The output and the exit code of a run.
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

    /// Compares the output for people, without the parts that differ in every run.
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

    /// Parses the output, and checks that the JSON is exactly what the API returns.
    pub(crate) fn json<T: Serialize + DeserializeOwned>(&self) -> T {
        let value: T = serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        assert_eq!(serde_json::to_value(&value).unwrap(), self.value());
        value
    }

    pub(crate) fn problem(&self) -> api::Problem {
        self.json()
    }
}
