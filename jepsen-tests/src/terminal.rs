//! What a run says while it goes on: lines that stay, and one that is written over where there is a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Without a terminal, progress is a line this often.
const LINE_EVERY: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub struct Terminal {
    is_terminal: bool,
    last_line: Option<Instant>,
}

impl Default for Terminal {
    fn default() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), last_line: None }
    }
}

impl Terminal {
    /// A line that stays.
    pub fn say(&self, words: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        let _ = writeln!(io::stderr(), "{clear}{words}");
    }

    /// A line of the outcome, on the standard output.
    ///
    /// # Errors
    /// When nobody takes it.
    pub fn tell(&self, words: &str) -> io::Result<()> {
        if self.is_terminal {
            write!(io::stderr(), "\r\x1b[K")?;
        }
        writeln!(io::stdout(), "{words}")
    }

    /// Written over by the next word.
    pub fn progress(&mut self, words: &str) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K{words}");
            let _ = io::stderr().flush();
        } else if self.last_line.is_none_or(|last| last.elapsed() >= LINE_EVERY) {
            self.last_line = Some(Instant::now());
            let _ = writeln!(io::stderr(), "{words}");
        }
    }
}
