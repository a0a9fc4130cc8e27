//! `jepsen`: tears a cluster of real nodes apart and checks every promise of docs/GUARANTEES.md.

mod cluster;
mod dice;
mod faults;
mod history;
mod nemesis;
mod shim;
mod wire;

use clap::{Parser, Subcommand};
use std::io::Write as _;
use std::process::ExitCode;

#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every fault once, and what it was seen to do
    Faults(faults::Asked),
    /// What the wire between nodes costs
    Wire,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Faults(asked) => faults::main(asked),
        Command::Wire => faults::measure().map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "jepsen: {error}");
            ExitCode::FAILURE
        }
    }
}
