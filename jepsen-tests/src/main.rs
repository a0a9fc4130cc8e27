//! The command `jepsen`.

use clap::{Parser, Subcommand};
use jepsen_tests::{controls, faults, hostile, run};
use std::io::Write as _;
use std::process::ExitCode;

/// Runs a cluster of real nodes under faults and checks every promise that the project makes
#[derive(Parser)]
#[command(
    name = "jepsen",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "./x jepsen builds the daemon: the release build by default, with --dev-build the development build, which has the debug \
                  assertions of openraft"
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::Asked,
}

#[derive(Subcommand)]
enum Command {
    /// Break each promise on purpose, and check that the suite finds it
    Controls(controls::Asked),
    /// Check the history of an earlier run again
    Check(run::Kept),
    /// Do each fault once, and show whether it took effect
    Faults(faults::Asked),
    /// Measure the throughput and latency of the simulated network
    Wire,
    /// The hostile callers next to one node of a run, which starts this process
    #[command(hide = true)]
    Hostile(hostile::Asked),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        None => run::main(cli.run),
        Some(Command::Controls(asked)) => controls::main(&asked),
        Some(Command::Check(kept)) => run::check_kept(&kept),
        Some(Command::Faults(asked)) => faults::main(asked),
        Some(Command::Wire) => faults::measure().map(|()| true),
        Some(Command::Hostile(asked)) => hostile::main(&asked),
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
