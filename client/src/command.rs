//! The command line: one file for each noun or group of verbs. It makes no decisions about leases.

mod add;
mod at;
mod backup;
mod bench;
mod child;
mod claim;
mod cluster;
mod exec;
mod failure;
mod global;
mod hold;
mod item;
mod next;
mod out;
mod output;
mod parse;
mod profile;
mod profiles;
mod queue;
mod shell;
mod space;
mod span;
mod text;
mod top;
mod watch;
mod work;
mod worker;
mod write;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use failure::Failure;
use global::{Context, Global, Run};
use out::Out;
use std::process::ExitCode;

/// Leases, fencing tokens and fair wait lines: who works on what, until when.
///
/// Without a profile or an --endpoint, it calls the development node on this machine (`tenured --dev`) with the user
/// name as the actor.
#[derive(Parser, Debug)]
#[command(name = "tenure", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Add(add::Add),
    Claim(claim::Claim),
    Next(next::Next),
    Peek(next::Peek),
    Renew(hold::Renew),
    Extend(hold::Extend),
    Release(hold::Release),
    Reserve(hold::Reserve),
    Withdraw(claim::Withdraw),
    Revoke(hold::Revoke),
    Show(item::Show),
    List(item::List),
    Mine(item::Mine),
    Line(item::Line),
    Watch(watch::Watch),
    Update(write::Update),
    Complete(write::Complete),
    Fail(write::Fail),
    Cancel(item::Cancel),
    Assign(item::Assign),
    Unassign(item::Unassign),
    Retry(item::Retry),
    Reopen(item::Reopen),
    Activity(write::Activity),
    AwaitInput(write::AwaitInput),
    Resume(write::Resume),
    HandOn(write::HandOn),
    Exec(exec::Exec),
    Work(work::Work),
    /// Queues: counts, policy, pause and drain
    #[command(subcommand)]
    Queue(queue::Verb),
    /// Workers: list, register, drain and remove
    #[command(subcommand)]
    Worker(worker::Verb),
    /// Space: counts and policy
    #[command(subcommand)]
    Space(space::Verb),
    /// Cluster: members, leader, backup. Requires a right for the cluster
    #[command(subcommand)]
    Cluster(cluster::Verb),
    /// Profiles: named clusters and the identity to use there
    #[command(subcommand)]
    Profile(profile::Verb),
    Top(top::Top),
    Bench(bench::Bench),
    Completions(shell::Completions),
    Man(shell::Man),
    /// Explain the exit codes
    #[command(long_about = failure::EXIT_CODES, help_template = "{about}\n")]
    ExitCodes,
}

pub(crate) fn main() -> ExitCode {
    failure::began();
    let matches = Cli::command().get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    logs();
    let out = Out::new(cli.global.json);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::other(format!("cannot start the async runtime: {error}")).report(out.is_json),
    };
    let ended = runtime.block_on(run(cli, &matches));
    // A thread that still reads standard input must not keep the process alive.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(out.is_json),
    }
}

/// Writes the library's logs to standard error: warnings, or more with TENURE_LOG.
fn logs() {
    use std::io::IsTerminal as _;
    let filter = tracing_subscriber::EnvFilter::try_from_env("TENURE_LOG");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let is_coloured = text::wants_colour() && std::io::stderr().is_terminal();
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(is_coloured);
    logs.with_target(false).init();
}

async fn run(cli: Cli, matches: &ArgMatches) -> Result<(), Failure> {
    let Cli { global, verb } = cli;
    let asks = || Context::new(&global, Run::Shared);
    let runs = || Context::new(&global, Run::OfItsOwn);
    match verb {
        Verb::Add(add) => add.run(&asks()?).await,
        Verb::Claim(claim) => claim.run(&asks()?).await,
        Verb::Next(next) => next.run(&asks()?).await,
        Verb::Peek(peek) => peek.run(&asks()?).await,
        Verb::Renew(renew) => renew.run(&asks()?).await,
        Verb::Extend(extend) => extend.run(&asks()?).await,
        Verb::Release(release) => release.run(&asks()?).await,
        Verb::Reserve(reserve) => reserve.run(&asks()?).await,
        Verb::Withdraw(withdraw) => withdraw.run(&asks()?).await,
        Verb::Revoke(revoke) => revoke.run(&asks()?).await,
        Verb::Show(show) => show.run(&asks()?).await,
        Verb::List(list) => list.run(&asks()?).await,
        Verb::Mine(mine) => mine.run(&asks()?).await,
        Verb::Line(line) => line.run(&asks()?).await,
        Verb::Watch(watch) => watch.run(&asks()?).await,
        Verb::Update(update) => update.run(&asks()?).await,
        Verb::Complete(complete) => complete.run(&asks()?).await,
        Verb::Fail(fail) => fail.run(&asks()?).await,
        Verb::Cancel(cancel) => cancel.run(&asks()?).await,
        Verb::Assign(assign) => assign.run(&asks()?).await,
        Verb::Unassign(unassign) => unassign.run(&asks()?).await,
        Verb::Retry(retry) => retry.run(&asks()?).await,
        Verb::Reopen(reopen) => reopen.run(&asks()?).await,
        Verb::Activity(activity) => activity.run(&asks()?).await,
        Verb::AwaitInput(await_input) => await_input.run(&asks()?).await,
        Verb::Resume(resume) => resume.run(&asks()?).await,
        Verb::HandOn(hand_on) => hand_on.run(&asks()?).await,
        Verb::Exec(exec) => exec.run(&runs()?).await,
        Verb::Work(work) => work.run(&asks()?).await,
        Verb::Queue(verb) => verb.run(&asks()?).await,
        Verb::Worker(verb) => verb.run(&asks()?).await,
        Verb::Space(verb) => verb.run(&asks()?).await,
        Verb::Cluster(verb) => verb.run(&asks()?).await,
        Verb::Profile(verb) => profile::run(verb, &global, &|option| is_said(matches, option)),
        Verb::Top(top) => top.run(&asks()?).await,
        Verb::Bench(bench) => bench.run(&runs()?).await,
        Verb::Completions(completions) => completions.run(&Out::new(false)),
        Verb::Man(man) => man.run(&Out::new(global.json)),
        Verb::ExitCodes => shell::exit_codes(&Out::new(global.json)),
    }
}

/// Whether an option was given on the command line.
fn is_said(matches: &ArgMatches, option: &str) -> bool {
    let mut matches = matches;
    while let Some((_, inner)) = matches.subcommand() {
        matches = inner;
    }
    matches.value_source(option) == Some(ValueSource::CommandLine)
}
