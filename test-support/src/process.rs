//! A process of a test. It never outlives the test, and a test that fails shows what it wrote last.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// What of a process's standard error a failed test shows.
const LAST_WORDS: usize = 4_000;

#[derive(Debug)]
pub struct Process {
    child: Child,
    words: PathBuf,
}

impl Process {
    /// Starts a process whose standard error is added to this file.
    pub fn start(mut command: Command, words: PathBuf) -> Self {
        let stderr = File::options().create(true).append(true).open(&words).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        Self { child, words }
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Checks that it has not ended by itself.
    #[track_caller]
    pub fn check_alive(&mut self) {
        if let Some(status) = self.ended() {
            panic!("{} has ended by itself, with {status}", self.words.display());
        }
    }

    /// Sends a signal, for example `TERM`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", self.child.id())).status().unwrap();
        assert!(status.success(), "no process {} to send {name} to", self.child.id());
    }

    /// SIGKILL, in the middle of whatever it does. It must have been alive.
    #[track_caller]
    pub fn kill(mut self) {
        self.check_alive();
    }

    /// Everything in the file of its standard error.
    pub fn words(&self) -> String {
        fs::read_to_string(&self.words).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has ended cannot be killed, only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let words = self.words();
            let begin = words.char_indices().rev().nth(LAST_WORDS).map_or(0, |(at, _)| at);
            eprintln!("the end of {}:\n{}", self.words.display(), &words[begin..]);
        }
    }
}
