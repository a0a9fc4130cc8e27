//! Output: data goes to standard output, messages to standard error.

use super::failure::Failure;
use super::text::wants_colour;
pub(crate) use super::text::{clean, clean_lines, say, word};
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub(crate) is_json: bool,
    is_coloured: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Bold,
    Dim,
    Good,
    Warn,
    Bad,
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Good => "\x1b[32m",
            Self::Warn => "\x1b[33m",
            Self::Bad => "\x1b[31m",
        }
    }
}

impl Out {
    pub(crate) fn new(is_json: bool) -> Self {
        let is_coloured = !is_json && wants_colour() && io::stdout().is_terminal();
        Self { is_json, is_coloured }
    }

    /// Writes a line of data.
    pub(crate) fn line(&self, text: impl Display) -> Result<(), Failure> {
        writeln!(io::stdout().lock(), "{text}").map_err(Failure::writing)
    }

    pub(crate) fn raw(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::writing)
    }

    /// Writes a value as one line of JSON.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|error| Failure::other(error.to_string()))?;
        self.line(text)
    }

    /// Writes an answer: as JSON with `--json`, otherwise as text.
    pub(crate) fn answer<T: Serialize>(
        &self,
        value: &T,
        people: impl FnOnce(&Self, &T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.is_json { self.json(value) } else { people(self, value) }
    }

    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        if self.is_coloured && paint != Paint::Plain { format!("{}{text}\x1b[0m", paint.code()) } else { text.into() }
    }

    pub(crate) fn table(&self, table: &Table) -> Result<(), Failure> {
        self.raw(&table.text(self))
    }
}

/// A table: rows under a head, or pairs of a name and a value.
#[derive(Debug, Default)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<(String, Paint)>>,
}

impl Table {
    pub(crate) fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (String, Paint)>) {
        self.rows.push(cells.into_iter().map(|(text, paint)| (clean(&text), paint)).collect());
    }

    pub(crate) fn plain<T: Display>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.row(cells.into_iter().map(|cell| (cell.to_string(), Paint::Plain)));
    }

    /// Adds a name and its value.
    pub(crate) fn pair(&mut self, name: &'static str, value: impl Display) {
        self.row([(name.to_owned(), Paint::Dim), (value.to_string(), Paint::Plain)]);
    }

    /// Adds a name and its value, if there is one.
    pub(crate) fn pair_if(&mut self, name: &'static str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.pair(name, value);
        }
    }

    pub(crate) fn text(&self, out: &Out) -> String {
        let columns = self.rows.iter().map(Vec::len).chain([self.head.len()]).max().unwrap_or(0);
        let mut widths = vec![0; columns];
        let heads = self.head.iter().map(|name| name.chars().count()).collect::<Vec<_>>();
        let rows = self.rows.iter().map(|row| row.iter().map(|(text, _)| text.chars().count()).collect());
        for row in rows.chain([heads]) {
            for (at, width) in row.into_iter().enumerate() {
                widths[at] = widths[at].max(width);
            }
        }
        let mut text = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = (String, Paint)>| {
            let mut line = String::new();
            let mut pending = 0;
            for (at, (cell, paint)) in cells.enumerate() {
                // No trailing blanks.
                if !cell.is_empty() {
                    line.extend(std::iter::repeat_n(' ', pending));
                    pending = 0;
                    line += &out.paint(paint, &cell);
                }
                pending += widths[at] - cell.chars().count() + 2;
            }
            text += &line;
            text.push('\n');
        };
        if !self.head.is_empty() {
            line(&mut self.head.iter().map(|name| ((*name).to_owned(), Paint::Bold)));
        }
        for row in &self.rows {
            line(&mut row.iter().cloned());
        }
        text
    }
}

/// The progress of a long operation, shown on the terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    is_shown: bool,
    last: Option<std::time::Instant>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { is_shown: io::stderr().is_terminal(), last: None }
    }

    /// Shows the progress, at most a few times a second: `done` of `total`, if that is known.
    pub(crate) fn at(&mut self, done: u64, total: Option<u64>, text: impl Display) {
        const EVERY: std::time::Duration = std::time::Duration::from_millis(100);
        const WIDTH: usize = 24;
        if !self.is_shown || self.last.is_some_and(|last| last.elapsed() < EVERY) {
            return;
        }
        self.last = Some(std::time::Instant::now());
        let bar = total.filter(|total| *total > 0).map(|total| {
            let share = done.min(total).saturating_mul(100) / total;
            let full = usize::try_from(share).unwrap_or(0) * WIDTH / 100;
            format!("[{}{}] {share:>3} %  ", "#".repeat(full), " ".repeat(WIDTH - full))
        });
        let mut stderr = io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K{}{text}", bar.unwrap_or_default());
        let _ = stderr.flush();
    }

    pub(crate) fn end(&mut self) {
        if self.last.take().is_some() {
            let mut stderr = io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[K");
            let _ = stderr.flush();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

/// `12,345`
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1.5 MiB`
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if number < 1_024 {
        return format!("{number} B");
    }
    let (mut tenths, mut unit) = (number.saturating_mul(10) / 1_024, 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1_024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_their_cells_and_contain_no_control_characters() {
        let out = Out { is_json: false, is_coloured: false };
        let mut table = Table::new(&["ITEM", "TITLE", "LINE"]);
        table.plain(["disk-42", "ä\x1b[31mred", "2"]);
        table.plain(["x", "", ""]);
        assert_eq!(table.text(&out), "ITEM     TITLE      LINE\ndisk-42  ä\u{fffd}[31mred  2\nx\n");
    }

    #[test]
    fn large_numbers_are_readable() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1_023, 1_536, 5 << 30].map(bytes), ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]);
    }
}
