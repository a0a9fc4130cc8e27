//! Shell completions and manual pages.

use super::Cli;
use super::failure::Failure;
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
