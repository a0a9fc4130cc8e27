//! Shell completions and manual pages.

use super::Cli;
use super::failure::{EXIT_CODES, Failure};
use super::out::{Out, say};
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Print completions for a shell
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, out: &Out) -> Result<(), Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "tenure", &mut text);
        out.raw(&String::from_utf8_lossy(&text))
    }
}

/// Write the manual pages to a folder
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Folder; created if it does not exist
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

#[derive(Serialize)]
struct Written<'f> {
    folder: &'f Path,
}

impl Man {
    pub(crate) fn run(self, out: &Out) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::other(format!("{}: {error}", self.folder.display()));
        fs::create_dir_all(&self.folder).map_err(failed)?;
        clap_mangen::generate_to(Cli::command(), &self.folder).map_err(failed)?;
        out.answer(&Written { folder: &self.folder }, |_, written| {
            say(format_args!("manual pages are in {}", written.folder.display()));
            Ok(())
        })
    }
}

#[derive(Serialize)]
struct Meaning<'t> {
    code: u8,
    means: &'t str,
}

/// Prints the meaning of the exit codes: one per line as JSON, or the whole text for people.
pub(crate) fn exit_codes(out: &Out) -> Result<(), Failure> {
    if !out.is_json {
        return out.line(EXIT_CODES);
    }
    let lines = EXIT_CODES.lines().filter_map(|line| line.strip_prefix("  ")?.split_once(' '));
    for (code, means) in lines {
        let code = code.parse::<u8>().map_err(|error| Failure::other(format!("{code}: {error}")))?;
        out.json(&Meaning { code, means: means.trim_start() })?;
    }
    Ok(())
}
