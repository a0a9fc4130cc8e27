//! The process of a node. It ends when this is dropped, and with the harness, however that ends.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// How much of a process's log is shown when it exited by itself.
const LAST_LINES: usize = 12;

#[derive(Debug)]
pub(super) struct Process {
    child: Child,
}

/// Started by `setpriv`, so that the kernel kills it when the harness exits. The environment is set after that, so that
/// the library is loaded only into the node.
pub(super) fn command(daemon: &Path, arguments: &[String], environment: &[(String, String)]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "env"]);
    command.args(environment.iter().map(|(name, value)| format!("{name}={value}")));
    command.arg(daemon).args(arguments);
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Only the harness handles Ctrl-C.
    command.env_clear().env("PATH", path).process_group(0);
    command
}

/// Like `command`, with the CPU time that nothing else wants: on another machine it would take none from what is
/// measured.
pub(super) fn command_of_low_priority(
    program: &Path,
    arguments: &[String],
    environment: &[(String, String)],
) -> Command {
    let mut all = vec!["--idle".to_owned(), "0".to_owned(), program.display().to_string()];
    all.extend_from_slice(arguments);
    command(Path::new("chrt"), &all, environment)
}

impl Process {
    pub(super) fn start(mut command: Command, log: &Path) -> io::Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let child = child.map_err(|error| io::Error::other(format!("could not run setpriv (util-linux): {error}")))?;
        Ok(Self { child })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = i32::try_from(self.child.id()).map_err(io::Error::other)?;
        kill(Pid::from_raw(pid), signal).map_err(io::Error::from)
    }

    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns whether it was alive.
    pub(super) fn kill(&mut self) -> bool {
        if self.ended().is_some() {
            return false;
        }
        let killed = self.child.kill().is_ok();
        let _ = self.child.wait();
        killed
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether the kernel has stopped all of its threads.
pub(super) fn is_stopped(pid: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    tasks.flatten().all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The state comes after the name, which may contain any characters.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

pub(super) fn tail(words: &str) -> String {
    let lines: Vec<&str> = words.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}
