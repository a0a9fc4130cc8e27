//! `tenured`: the daemon of a Tenure node.

mod status;

use clap::{Args, Parser, Subcommand};
use node::daemon::Daemon;
use node::daemon::config::{Options, describe};
use node::daemon::ending::{CODES, Ending};
use node::observe::logs::Logs;
use raft_store::restore::{Restored, Target};
use std::fs::File;
use std::io::{BufReader, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Commands spend most of their time waiting for memory: decision 0017.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often the daemon checks whether it must stop by itself.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A node of a Tenure cluster: replicated leases, fencing tokens, fair wait lines and dispatch.
#[derive(Parser)]
#[command(name = "tenured", version, after_help = CODES)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum Command {
    /// Check the options and print the resulting settings; starts nothing
    CheckConfig,
    /// Make an API key for a caller: prints the key once on stderr, and its entry for the --api-keys file on stdout
    ApiKey(ApiKeyOptions),
    /// Print the status of a running node and its cluster; connects with --peer-ca, --peer-cert and --peer-key
    Status {
        /// Address on which that node listens for other nodes
        #[arg(long, value_name = "HOST:PORT")]
        at: String,
    },
    /// Make a data folder from a backup, for the first node of a new cluster; then start that node with --bootstrap
    Restore(Restore),
}

#[derive(Args)]
struct Restore {
    /// Backup to restore; - reads it from stdin
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Folder for the node's data; must not exist or must be empty
    #[arg(long, env = "TENURED_DATA", value_name = "FOLDER")]
    data: PathBuf,
    /// The node's id in the new cluster, 1 or above
    #[arg(long, env = "TENURED_NODE_ID", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    node_id: u64,
    /// Grant only fencing tokens above this one; needed if another system also granted tokens, or the clock of the
    /// backup's cluster was ahead
    #[arg(long, value_name = "TOKEN")]
    token_floor: Option<u64>,
    /// Restore even if this machine's clock is not later than the newest time in the backup; if the clock is behind,
    /// tokens may repeat
    ///
    /// Use this only after you have checked that this clock is right and that the backup's newest time is wrong. If
    /// this clock is behind, tokens that the old cluster granted after the backup may be granted again, unless
    /// --token-floor is above them. The epoch and the tokens always rise above those in the backup.
    #[arg(long)]
    accept_clock: bool,
}

#[derive(Args)]
struct ApiKeyOptions {
    /// Name of the caller
    #[arg(long, value_name = "NAME")]
    actor: String,
    /// Kind of the caller: user, agent or system
    #[arg(long, value_name = "KIND", default_value = "agent", value_parser = ["user", "agent", "system"])]
    kind: String,
    /// Rights for the whole cluster: admin (includes the other two), backup, metrics
    #[arg(long, value_name = "RIGHT", value_delimiter = ',', value_parser = ["admin", "backup", "metrics"])]
    cluster: Vec<String>,
    /// Roles in --space: reader, worker, dispatcher, operator [default: worker, or none with --cluster]
    #[arg(long, value_name = "ROLE", value_delimiter = ',', value_parser = role)]
    role: Vec<String>,
    /// Space in which the caller has --role; * is every space [default: default]
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
    /// Queues in which the caller has --role: a name, or a prefix followed by * [default: every queue]
    #[arg(long, value_name = "QUEUE", value_delimiter = ',')]
    queue: Vec<String>,
}

fn role(text: &str) -> Result<String, String> {
    match text {
        "reader" | "worker" | "dispatcher" | "operator" => Ok(text.to_owned()),
        "admin" => Err("admin is a right for the whole cluster, not a role in a space: use --cluster admin".into()),
        _ => Err("the roles are reader, worker, dispatcher and operator".into()),
    }
}

fn main() -> ExitCode {
    let Cli { command, options } = Cli::parse();
    match &command {
        Some(Command::Status { at }) => return status(&options, at),
        Some(Command::Restore(asked)) => {
            return match Logs::start(options.log_format.unwrap_or_default(), None, asked.node_id) {
                Ok(_logs) => restore(asked),
                Err(why) => fail(&why),
            };
        }
        Some(Command::ApiKey(wanted)) => return api_key(wanted),
        Some(Command::CheckConfig) | None => {}
    }
    let files = node::daemon::open_files::raise();
    let read = options.with_file().and_then(|all| {
        let mut settings = all.settings()?;
        all.share_files(&mut settings, files)?;
        Ok((settings, all.log_format, all.spans()?))
    });
    #[cfg_attr(not(feature = "sabotage"), expect(unused_mut, reason = "only tests change what a build knows"))]
    let (mut settings, format, spans) = match read {
        Ok(read) => read,
        Err(error) => return fail_usage(&error),
    };
    #[cfg(feature = "sabotage")]
    if std::env::var_os("TENURED_NEWER").is_some() {
        // A build with the next rules version, for tests that mix it with others.
        settings.known_rules += 1;
    }
    if let Some(Command::CheckConfig) = command {
        let _ = std::io::stdout().write_all(describe(&settings).as_bytes());
        return ExitCode::SUCCESS;
    }
    let logs = match Logs::start(format.unwrap_or_default(), spans.as_ref(), settings.node) {
        Ok(logs) => logs,
        Err(why) => return fail(&why),
    };
    #[cfg(feature = "sabotage")]
    if let Err(why) = break_what_was_asked() {
        return fail(&why);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let ended = runtime.block_on(run(settings, files));
    logs.stop();
    ended
}

/// Breaks the promise that `TENURED_BREAK` names; only in builds for tests that must see it broken.
#[cfg(feature = "sabotage")]
fn break_what_was_asked() -> Result<(), String> {
    use sabotage::{Broken, break_it};
    let Ok(name) = std::env::var("TENURED_BREAK") else { return Ok(()) };
    let broken = Broken::named(&name).ok_or_else(|| format!("TENURED_BREAK: {name} is unknown"))?;
    tracing::warn!("{name} is broken on purpose: do not rely on any answer of this node");
    break_it(broken);
    Ok(())
}

async fn run(settings: node::daemon::Settings, files: u64) -> ExitCode {
    let (mut terminate, mut interrupt) = match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
        (Err(error), _) | (_, Err(error)) => return fail(&error),
    };
    if let Some(edge) = &settings.edge {
        tracing::info!(
            open_files_max = files,
            callers = edge.server.connections_max,
            of_one_address = edge.server.address_connections_max,
            nodes = settings.peer_connections_max,
            "connection limits"
        );
    }
    let directory = settings.directory.clone();
    let started = tokio::select! {
        started = Daemon::start(settings) => started,
        _ = terminate.recv() => return ExitCode::SUCCESS,
        _ = interrupt.recv() => return ExitCode::SUCCESS,
    };
    let daemon = match started {
        Ok(daemon) => daemon,
        Err(error) => return fail(&error),
    };
    tracing::info!(
        node = daemon.node().id(),
        peers = daemon.member().peer_address,
        callers = daemon.edge().map(|edge| edge.address().to_string()),
        data = %directory.display(),
        version = env!("CARGO_PKG_VERSION"),
        "started"
    );
    let why = tokio::select! {
        why = must_stop(&daemon) => Some(why),
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
    };
    match why {
        Some(why) => {
            tracing::error!("stopping: {why}");
            if daemon.failure().is_some() {
                daemon.abandon().await;
            } else {
                daemon.leave().await;
            }
            Ending::of(&why).code().into()
        }
        None => {
            tracing::info!("stopping");
            daemon.stop().await;
            tracing::info!("stopped");
            ExitCode::SUCCESS
        }
    }
}

fn restore(asked: &Restore) -> ExitCode {
    let target = Target {
        directory: asked.data.clone(),
        node: asked.node_id,
        token_floor: asked.token_floor.map(lease::numbers::Token),
        accept_clock: asked.accept_clock,
    };
    let restored = if asked.from.as_os_str() == "-" {
        node::admin::restore::from_reader(std::io::stdin().lock(), &target)
    } else {
        match File::open(&asked.from) {
            // The reader asks for one record at a time; most are large, some are very small.
            Ok(file) => node::admin::restore::from_reader(BufReader::new(file), &target),
            Err(error) => return fail(&format!("{}: cannot be read: {error}", asked.from.display())),
        }
    };
    let Restored { cluster, backup } = match restored {
        Ok(restored) => restored,
        Err(error) => return fail(&error),
    };
    let said = format!(
        "restored entry {} of cluster {:032x} into {}, as node {} of the new cluster {cluster:032x}\nstart it with --bootstrap; \
         this ends all leases, and nothing is granted until the cluster is activated\n",
        backup.snapshot.last.map_or(0, |last| last.index),
        backup.cluster,
        asked.data.display(),
        asked.node_id,
    );
    let _ = std::io::stdout().write_all(said.as_bytes());
    ExitCode::SUCCESS
}

fn status(options: &Options, at: &str) -> ExitCode {
    let asked = options.clone().with_file().and_then(|all| all.peer_tls());
    let tls = match asked {
        Ok(tls) => tls,
        Err(error) => return fail(&error),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    match runtime.block_on(status::ask(at, tls)) {
        Ok(status) => {
            let _ = std::io::stdout().write_all(status::describe(&status).as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => fail(&format!("{at}: {error}")),
    }
}

fn api_key(wanted: &ApiKeyOptions) -> ExitCode {
    let mut roles = wanted.role.clone();
    if roles.is_empty() {
        if wanted.cluster.is_empty() {
            roles.push("worker".into());
        } else if wanted.space.is_some() || !wanted.queue.is_empty() {
            return fail(&"--space and --queue limit --role, not --cluster: give --role, too");
        }
    }
    let wanted = node::edge::identity::ApiKeyRequest {
        actor: wanted.actor.clone(),
        kind: wanted.kind.clone(),
        cluster: wanted.cluster.clone(),
        space: wanted.space.clone().unwrap_or_else(|| "default".into()),
        roles,
        queues: wanted.queue.clone(),
    };
    match node::edge::identity::new_api_key(&wanted) {
        Ok(made) => {
            // On separate streams, so that the entry can be appended to the file while the key is shown.
            let _ = writeln!(std::io::stderr(), "the API key, which is shown only this once:\n{}\n", made.api_key);
            let _ = std::io::stdout().write_all(made.entry.as_bytes());
            ExitCode::SUCCESS
        }
        Err(why) => fail(&why),
    }
}

async fn must_stop(daemon: &Daemon) -> String {
    loop {
        if let Some(why) = daemon.failure().or_else(|| daemon.out_of_space().map(str::to_owned)) {
            return why;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn fail(why: &dyn std::fmt::Display) -> ExitCode {
    let why = why.to_string();
    let _ = writeln!(std::io::stderr(), "tenured: {why}");
    Ending::of(&why).code().into()
}

fn fail_usage(why: &dyn std::fmt::Display) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "tenured: {why}");
    Ending::Usage.code().into()
}
