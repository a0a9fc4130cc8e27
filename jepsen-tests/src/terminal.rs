//! The output of a running run: lines that stay and, on a terminal, a progress line that is overwritten.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Without a terminal, a progress line is written this often.
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
    /// Writes a line that stays, to standard error.
    pub fn say(&self, words: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        let _ = writeln!(io::stderr(), "{clear}{words}");
    }

    /// Writes a line of the result to standard output.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn tell(&self, words: &str) -> io::Result<()> {
        if self.is_terminal {
            write!(io::stderr(), "\r\x1b[K")?;
        }
        writeln!(io::stdout(), "{words}")
    }

    /// Writes a progress line, which the next line overwrites.
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
