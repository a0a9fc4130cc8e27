//! The place where the commands of a document run: its own folder, addresses and processes, which are removed at the
//! end.

use crate::shown::{Document, Shown, read};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
use test_support::authority::Authority;
use test_support::documents::root;
use test_support::network::Network;
use test_support::process::Process;
use test_support::program::tenured;
use test_support::relay::{self, Relay};
use test_support::timeless::timeless;
use test_support::until;

/// Commands that are not run, and why. Their options are still checked.
pub(crate) const ELSEWHERE: &[(&str, &str)] = &[
    (
        "./x ",
        "builds, tests or measures the whole tree: `.ci/run` runs the README's two, and the verb is looked up here",
    ),
    ("cargo build ", "these tests were built by it"),
    ("systemctl ", "there is no service manager where tests run: `cluster-scripts/test` has the units verified"),
    ("systemd-analyze ", "`cluster-scripts/test` runs it where it is installed"),
    ("kubectl ", "there is no Kubernetes where tests run: `node/tests/cluster_scripts.rs` reads the manifests"),
];

pub(crate) struct Scene {
    folder: TempDir,
    document: Document,
    run: BTreeSet<usize>,
    network: Network,
    nodes: Vec<(String, Process)>,
    api_key: String,
    forwarded: Option<Relay>,
}

impl Scene {
    pub(crate) fn of(document: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(tenured(), bin.join("tenured")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tenure"), bin.join("tenure")).unwrap();
        // curl has no terminal here.
        fs::write(folder.path().join(".curlrc"), "silent\nshow-error\n").unwrap();
        let document = read(document);
        let scene = Self {
            folder,
            document,
            run: BTreeSet::new(),
            network: Network::free(),
            nodes: Vec::new(),
            api_key: String::new(),
            forwarded: None,
        };
        scene.certify();
        scene
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates certificates for callers and between nodes, from one authority.
    fn certify(&self) {
        let authority = Authority::new();
        let mut hosts: Vec<String> = [1, 2, 3, 9].map(|host| format!("{}.{host}", self.network)).into();
        hosts.push("tenure.tenure.svc".into());
        let signed = authority.sign(&hosts);
        fs::write(self.path("ca.pem"), authority.certificate()).unwrap();
        fs::write(self.path("node.pem"), signed.certificate).unwrap();
        fs::write(self.path("node.key"), signed.key).unwrap();
    }

    /// Creates an API key with all rights, in the nodes' file.
    pub(crate) fn admit(&mut self) {
        let said = self.must(
            "tenured api-key --actor root --cluster admin --space '*' --role reader,worker,dispatcher,operator >> api-keys.toml",
        );
        self.api_key = said.lines().find(|line| line.starts_with("tenure_")).unwrap().to_owned();
        fs::write(self.path("token.header"), format!("Authorization: Bearer {}\n", self.api_key)).unwrap();
    }

    /// Replaces the addresses and folders of other machines by local ones.
    fn here(&self, command: &str) -> String {
        let machine = command.split("10.0.0.").nth(1).and_then(|rest| rest.chars().next()).unwrap_or('0');
        let files = "--api-keys api-keys.toml --peer-ca ca.pem --peer-cert node.pem --peer-key node.key \
            --tls-cert node.pem --tls-key node.key";
        let data = self.path(&format!("machine-{machine}"));
        let command = command.replace("127.0.0.1:7400", &format!("{}.9:7400", self.network));
        let command = command.replace("10.0.0.", &format!("{}.", self.network));
        command.replace("/var/lib/tenure", data.to_str().unwrap()).replace("‹files›", files)
    }

    fn bash(&self, text: &str) -> Command {
        let mut command = Command::new("bash");
        let path = std::env::var("PATH").unwrap();
        command.args(["-o", "pipefail", "-c", text]).current_dir(self.folder.path()).env_clear();
        command.env("PATH", format!("{}:{path}", self.path("bin").display())).env("HOME", self.folder.path());
        command.env("XDG_CONFIG_HOME", self.path("config")).env("USER", "ada").env("TOKEN", &self.api_key);
        command.env("CURL_CA_BUNDLE", self.path("ca.pem")).env("TENURED_LISTEN", format!("{}.9:7400", self.network));
        command.env("TENURE_ENDPOINT", format!("http://{}.9:7400", self.network)).stdin(Stdio::null());
        command
    }

    /// Runs a line that is not from the document; it must succeed.
    #[track_caller]
    pub(crate) fn must(&self, text: &str) -> String {
        let output = self.bash(&self.here(text)).output().unwrap();
        assert!(output.status.success(), "{text}: {output:?}");
        said(&output)
    }

    /// Starts a node and waits until it is ready, or alive if it waits for a restore.
    pub(crate) async fn start(&mut self, text: &str) {
        let text = self.here(text.trim_end_matches('&'));
        let words: Vec<&str> = text.split_whitespace().collect();
        let listen = words.iter().position(|word| *word == "--listen").map(|at| words[at + 1].to_owned());
        let scheme = if text.contains("--tls-cert") { "https" } else { "http" };
        let address = listen.unwrap_or_else(|| format!("{}.9:7400", self.network));
        let command = self.bash(&format!("exec {text}"));
        let mut node = Process::start(command, self.path(&format!("stderr-{}", self.nodes.len())));
        let path = if text.contains("--await-restore") { "healthz" } else { "readyz" };
        let asks = format!("curl --silent --fail --max-time 5 {scheme}://{address}/{path}");
        until(&format!("{text} serves"), async || {
            node.check_alive();
            self.bash(&asks).output().unwrap().status.success()
        })
        .await;
        self.nodes.push((address, node));
    }

    pub(crate) fn kill_all(&mut self) {
        self.nodes.clear();
    }

    pub(crate) fn kill(&mut self, host: u8) {
        let address = format!("{}.{host}:7400", self.network);
        self.nodes.retain(|(one, _)| *one != address);
    }

    /// Forwards the address of a development node to one of the three nodes.
    pub(crate) async fn forward(&mut self, host: u8) {
        let (near, far) = (self.network.callers(9), self.network.callers(host));
        self.forwarded = Some(Relay::between(near, far, relay::everything).await);
    }

    fn find(&mut self, begins: &str) -> Shown {
        let is_it = |(at, shown): &(usize, &Shown)| shown.command.starts_with(begins) && !self.run.contains(at);
        let found = self.document.commands.iter().enumerate().find(is_it);
        let (at, shown) = found.unwrap_or_else(|| panic!("the document has no command {begins:?} any more"));
        let shown = shown.clone();
        self.run.insert(at);
        shown
    }

    /// Marks a command as run: the test did the same by itself.
    pub(crate) fn skip(&mut self, begins: &str) {
        let shown = self.find(begins);
        eprintln!("not installed here: {}", shown.place());
    }

    /// Runs the first command with this beginning that was not run yet, and compares its output with the document.
    pub(crate) async fn run(&mut self, begins: &str) -> String {
        let shown = self.find(begins);
        self.play(&shown).await
    }

    /// Runs all commands in blocks that are not listed in `ELSEWHERE`, in order.
    pub(crate) async fn run_blocks(&mut self) {
        for at in 0..self.document.commands.len() {
            let shown = self.document.commands[at].clone();
            if !shown.is_inline && reason(&shown.command).is_none() && self.run.insert(at) {
                self.play(&shown).await;
            }
        }
    }

    async fn play(&mut self, shown: &Shown) -> String {
        if is_daemon(&shown.command) {
            self.start(&shown.command).await;
            return String::new();
        }
        let output = self.bash(&self.here(&shown.command)).output().unwrap();
        let said = said(&output);
        match &shown.output {
            Some(lines) if !lines.is_empty() => compare(shown, lines, &said, self.network),
            _ => assert!(output.status.success(), "{}: {output:?}", shown.place()),
        }
        said
    }

    /// Checks that every command that was not run is listed with a reason or is part of a sentence, and that its
    /// options exist.
    pub(crate) fn ends(&mut self) {
        for (at, shown) in self.document.commands.iter().enumerate() {
            if self.run.contains(&at) {
                continue;
            }
            // Sentences name verbs and options of our own programs, with placeholders.
            let is_named = shown.is_inline && ["tenure", "tenured"].contains(&shown.program());
            let is_listed = is_named || reason(&shown.command).is_some();
            assert!(is_listed, "{}: is not run here, and is not listed in ELSEWHERE", shown.place());
            self.parses(shown);
        }
        for other in &self.document.others {
            let is_known = crate::NO_COMMANDS.iter().any(|known| other.first.starts_with(known));
            assert!(is_known, "{}: {:?} is not a command, and is not listed in NO_COMMANDS", other.place, other.first);
        }
    }

    fn parses(&self, shown: &Shown) {
        match shown.program() {
            "tenure" | "tenured" => {
                let line = shown.command.replace(['‹', '›'], "");
                let (words, _) = line.split_once(" -- ").unwrap_or((&line, ""));
                let asks = if words.contains("help") { words.to_owned() } else { format!("{words} --help") };
                let output = self.bash(&asks).output().unwrap();
                assert!(output.status.success(), "{}: {}", shown.place(), said(&output));
            }
            "./x" => {
                let mut words = shown.command.split_whitespace().skip(1);
                let (verb, next) = (words.next().unwrap_or_default(), words.next());
                assert!(helps(&["help"], verb), "{}: ./x does not know {verb}", shown.place());
                let next = next.filter(|word| verb == "cluster" && !word.starts_with('#'));
                let is_known = next.is_none_or(|next| next == "help" || helps(&["cluster", "help"], next));
                assert!(is_known, "{}: ./x cluster does not know it", shown.place());
            }
            _ => {}
        }
    }
}

/// Whether `./x` lists a verb.
fn helps(words: &[&str], verb: &str) -> bool {
    let output = Command::new(root().join("x")).args(words).output().unwrap();
    let text = said(&output);
    text.lines()
        .any(|line| line.strip_prefix("  ").is_some_and(|line| line.split_whitespace().any(|word| word == verb)))
}

pub(crate) fn reason(command: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(begins, _)| command.starts_with(begins)).map(|(_, reason)| *reason)
}

fn is_daemon(command: &str) -> bool {
    ["tenured --dev", "tenured --node-id"].iter().any(|begins| command.starts_with(begins))
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).unwrap();
    text(&output.stdout) + &text(&output.stderr)
}

/// Compares line by line. `…` matches anything, and at the end of the last line also more lines. Dates and addresses
/// are ignored.
fn compare(shown: &Shown, lines: &[String], said: &str, network: Network) {
    let said = said.replace(&format!("{network}.9:7400"), "127.0.0.1:7400");
    let (wanted, said) = (timeless(&(lines.join("\n") + "\n")), timeless(&said));
    let fits = {
        let open = wanted.trim_end().ends_with('…');
        let (wanted, said): (Vec<&str>, Vec<&str>) = (wanted.lines().collect(), said.lines().collect());
        let are_all = wanted.len() == said.len() || open && wanted.len() <= said.len();
        are_all && wanted.iter().zip(&said).all(|(wanted, said)| is_like(wanted, said))
    };
    assert!(fits, "{}\nthe document says:\n{wanted}\nit said:\n{said}", shown.place());
}

fn is_like(wanted: &str, said: &str) -> bool {
    let mut pieces = wanted.split('…');
    let Some(mut rest) = pieces.next().and_then(|first| said.strip_prefix(first)) else { return false };
    let mut is_open = false;
    for piece in pieces {
        is_open = piece.is_empty();
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    is_open || rest.is_empty()
}
