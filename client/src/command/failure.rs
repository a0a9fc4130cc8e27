//! Why a command failed: the exit code for scripts, the message for people, and a hint what to do next.

use super::span::{Span, wall_now, when};
use super::text::{clean, say, wants_colour};
use api::dates::Date;
use api::words::Need;
use api::{Code, Problem, TookEffect};
use client::Error;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::OnceLock;

#[derive(Debug)]
pub(crate) enum Failure {
    Client(Error),
    /// The command line, or a value in it, is invalid.
    Usage(String),
    /// There is nothing to return. Not an error.
    Nothing(String),
    Other {
        why: String,
        hint: Option<String>,
    },
    /// The message was already printed.
    Said(u8),
    /// The reader of the output has closed it.
    ClosedPipe,
    Interrupted,
}

pub(crate) const DONE: u8 = 0;
pub(crate) const ERROR: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const REFUSED: u8 = 3;
pub(crate) const NOTHING: u8 = 4;
pub(crate) const LOST: u8 = 5;
pub(crate) const UNAVAILABLE: u8 = 6;
pub(crate) const UNKNOWN: u8 = 7;
/// 128 plus the number of SIGINT, as shells report it.
pub(crate) const INTERRUPTED: u8 = 130;

pub(crate) const EXIT_CODES: &str = "\
Exit codes of tenure

  0    done
  1    error: not allowed, invalid data, or a file that cannot be read or written
  2    usage: the command line, or a value in it, is invalid
  3    refused: somebody else holds the item, or its state does not allow this. Not a failure
  4    nothing there: no such item, or an empty queue
  5    lost: the lease has ended, or its token is outdated. Stop the work
  6    unavailable: the request had no effect. Try again
  7    unknown: the request may have had an effect. The message shows its request id and the command that asks for its result
  130  interrupted: a place in line was given up

`exec` passes on the exit code of its command (128 plus the signal number if a signal ended it). It exits with 5 if the lease
was lost meanwhile, 125 if the command succeeded but the step after it failed (for example --complete), 126 if the command
could not be started, and 127 if the command was not found.

With --json, a refusal, or a request without an answer, is printed on standard output as a problem, as nodes return it. All
other errors are printed on standard error, as text.";

impl Failure {
    pub(crate) fn other(why: impl Into<String>) -> Self {
        Self::Other { why: why.into(), hint: None }
    }

    pub(crate) fn hinted(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Other { why: why.into(), hint: Some(hint.into()) }
    }

    /// A failure to write to standard output.
    pub(crate) fn writing(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::other(format!("standard output: {error}")),
        }
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Client(error) => of_error(error),
            Self::Usage(_) => USAGE,
            Self::Nothing(_) => NOTHING,
            Self::Other { .. } => ERROR,
            Self::Said(code) => *code,
            Self::ClosedPipe => DONE,
            Self::Interrupted => INTERRUPTED,
        }
    }

    /// Prints the failure, and returns the exit code of the process.
    pub(crate) fn report(&self, is_json: bool) -> ExitCode {
        if is_json
            && let Self::Client(error) = self
            && let Ok(text) = serde_json::to_string(&problem(error))
        {
            // The exit code says the same.
            let _ = writeln!(io::stdout().lock(), "{text}");
        }
        if let Some((why, hint)) = self.words() {
            let is_coloured = wants_colour() && io::stderr().is_terminal();
            let name = if is_coloured { "\x1b[1;31mtenure\x1b[0m" } else { "tenure" };
            say(format_args!("{name}: {}", clean(&why)));
            if let Some(hint) = hint {
                say(format_args!("        {}", clean(&hint)));
            }
        }
        ExitCode::from(self.code())
    }

    fn words(&self) -> Option<(String, Option<String>)> {
        match self {
            Self::Client(error) => Some((said(error), hint(error))),
            Self::Usage(why) => Some((why.clone(), Some("`tenure help` lists the commands".into()))),
            Self::Nothing(why) => Some((why.clone(), None)),
            Self::Other { why, hint } => Some((why.clone(), hint.clone())),
            Self::Said(_) | Self::ClosedPipe | Self::Interrupted => None,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

fn of_error(error: &Error) -> u8 {
    match error {
        Error::Refused(problem) => of_code(problem.code),
        Error::Unavailable { .. } => UNAVAILABLE,
        Error::Unknown { .. } => UNKNOWN,
        Error::Invalid(_) => ERROR,
    }
}

pub(crate) fn of_code(code: Code) -> u8 {
    match code {
        Code::LeaseLost | Code::StaleToken => return LOST,
        _ if code.took_effect() == TookEffect::Unknown => return UNKNOWN,
        _ => {}
    }
    match code.status() {
        400 => USAGE,
        404 | 410 => NOTHING,
        // The credential, or the form of the request.
        401 | 403 | 405 | 413 | 415 | 422 => ERROR,
        408 | 429 | 503 => UNAVAILABLE,
        _ => REFUSED,
    }
}

/// An error as a problem: the node's own, or one in the form that a node would return.
fn problem(error: &Error) -> Problem {
    match error {
        Error::Refused(problem) => (**problem).clone(),
        Error::Unavailable { why, retry_after_ms } => {
            Problem { retry_after_ms: *retry_after_ms, ..Problem::new(Code::Unavailable).with_detail(why) }
        }
        Error::Unknown { why, request_id } => {
            Problem { request_id: Some(request_id.clone()), ..Problem::new(Code::Unknown).with_detail(why) }
        }
        Error::Invalid(why) => Problem::new(Code::Invalid).with_detail(why),
    }
}

fn said(error: &Error) -> String {
    match error {
        Error::Refused(problem) => refused(problem),
        Error::Unavailable { .. } | Error::Unknown { .. } | Error::Invalid(_) => error.to_string(),
    }
}

/// A refusal as text: its code, its meaning, and the details that the caller may see.
pub(crate) fn refused(problem: &Problem) -> String {
    let mut text = format!("{}: {}", problem.code.name(), problem.detail.as_deref().unwrap_or(&problem.title));
    let mut add = |more: String| text += &format!("; {more}");
    if let Some(holder) = &problem.holder {
        let who = holder.actor.as_ref().map_or_else(|| super::text::word(holder.kind), ToString::to_string);
        let until = holder.expires_at.map(|date| format!(" until {}", when(date)));
        add(format!("held by {who}{}", until.unwrap_or_default()));
        if let Some(action) = &holder.action {
            add(format!("doing: {action}"));
        }
    } else if let Some(ms) = problem.retry_after_ms {
        add(format!("retry in {}", Span::of_ms(ms)));
    }
    if let Some(waits) = &problem.waits_for {
        if waits.dependencies > 0 {
            add(format!("{} dependencies are not complete", waits.dependencies));
        }
        if let Some(date) = waits.not_before.or(waits.until) {
            add(format!("not before {}", when(date)));
        }
    }
    if let Some(max) = problem.leases_max {
        add(format!("at most {max}"));
    }
    if let Some(length) = problem.line_length {
        add(format!("{length} in line"));
    }
    if let Some(revision) = problem.revision {
        add(format!("current revision: {revision}"));
    }
    if let Some(changed) = problem.changed.as_ref().filter(|changed| !changed.is_empty()) {
        add(format!("changed: {}", changed.join(", ")));
    }
    if let Some(state) = &problem.state {
        add(format!("current state: {state}"));
    }
    if let Some(need) = problem.needs {
        add(format!("requires {}", needed(need)));
    }
    if let Some(kept) = problem.kept_after {
        add(format!("events after {kept} are kept"));
    }
    text
}

fn hint(error: &Error) -> Option<String> {
    match error {
        Error::Unavailable { .. } => {
            Some("is a node running at the endpoint? `tenure cluster status` asks it; set the endpoint with --endpoint or a profile".into())
        }
        Error::Unknown { request_id, .. } => Some(format!("to get its result: {}", again(request_id))),
        Error::Invalid(_) => None,
        Error::Refused(problem) => Some(of_refusal(problem.code).to_owned()),
    }
}

/// The hint for a refusal: what to do next.
fn of_refusal(code: Code) -> &'static str {
    match code {
        Code::Invalid => "see the command's --help for the values that it accepts",
        Code::AlreadyClaimed => "pass --wait to join the wait line; `tenure line` shows it",
        Code::HeldByYourOtherSession => "pass --takeover to end that lease, or --session to use its session",
        Code::NotFound => "`tenure list` shows the items; is it in another --space?",
        Code::TerminalItem => "`tenure reopen` queues it again",
        Code::Blocked => "`tenure show` shows why; `tenure retry` queues it again",
        Code::NotReady => "`tenure show` shows what it waits for",
        Code::Reserved => "the item returns to its queue when the reservation ends: `tenure show` shows when",
        Code::QueuePaused => "`tenure queue unpause` lets it grant again",
        Code::QueueFull | Code::TooManyLeases => {
            "wait until a lease ends: `tenure queue show` shows how many there are"
        }
        Code::LineTooLong | Code::WaitTimeout => "try again later",
        Code::LeaseLost | Code::StaleToken => "stop the work on it; `tenure show` shows its current state",
        Code::NotHolder => "`tenure mine` shows what you hold; a lease belongs to an actor and a --session",
        Code::LeaseRequired => "`tenure claim` the item first, and pass the fencing token after the item",
        Code::StaleWrite => "read the item again (`tenure show`) and repeat with --read-at and its revision",
        Code::AlreadyExists => "`tenure show` shows the existing item; or choose another id",
        Code::WrongState => "`tenure show` shows its current state",
        Code::Unauthenticated => "pass an API key: --api-key-file, TENURE_API_KEY or a profile (`tenure profile set`)",
        Code::Forbidden => "ask an admin of the cluster for an API key with that role or right",
        Code::RejectedByPolicy => "the space requires a checked identity: pass an API key",
        Code::SpaceFull => "`tenure space show` shows its limits",
        Code::NotActivated => "when nobody works under old leases any more, run `tenure cluster activate`",
        Code::RequestIdReused => "pass another --request-id, or none",
        Code::RequestForgotten => "check the current state with `tenure show`",
        Code::PositionTooOld => "`tenure watch --from start` starts at the oldest event that is kept",
        Code::WorkerDraining => "an operator is draining this worker: let it stop",
        Code::TooLarge => "make the request smaller, or split it into several",
        Code::ChangeRefused => "`tenure cluster status` shows the members",
        Code::RestoreRefused => "see docs/OPERATIONS.md, Backup and restore, for each reason",
        Code::TooManyDependents => {
            "add an item in between that depends on that item, and let the others depend on the new one"
        }
        Code::AllOrNone => "look at the results of the other entries",
        Code::MethodNotAllowed | Code::UnsupportedMediaType => {
            "the node may run another version: compare `tenure cluster status` with `tenure --version`"
        }
        Code::RateLimited | Code::Overloaded | Code::TooSlow => "try again later, or with fewer requests at a time",
        Code::Unavailable => "try again; `tenure cluster status` shows whether there is a quorum",
        Code::Unknown | Code::Internal => "the request may have had an effect: `tenure show` shows the current state",
    }
}

static BEGAN: OnceLock<Date> = OnceLock::new();

/// When this process started, before it sent anything.
pub(crate) fn began() -> Date {
    *BEGAN.get_or_init(|| Date(wall_now()))
}

/// The same command, with the id of the request that got no answer.
fn again(request_id: &str) -> String {
    let mut words = vec!["tenure".to_owned()];
    let mut repeat = format!("--repeat={}", began());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--request-id" => drop(args.next()),
            // A secret is never printed.
            "--api-key" => {
                args.next();
                words.extend(["--api-key".into(), "…".into()]);
            }
            // The time of the first attempt is kept.
            text if text == "--repeat" || text.starts_with("--repeat=") => repeat = text.to_owned(),
            text if text.starts_with("--request-id=") => {}
            text if text.starts_with("--api-key=") => words.push("--api-key=…".into()),
            text => words.push(quoted(text)),
        }
    }
    words.splice(1..1, ["--request-id".to_owned(), quoted(request_id), quoted(&repeat)]);
    words.join(" ")
}

/// Quotes an argument for a shell.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%…".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The name of a role or a right, for people.
pub(crate) fn needed(need: Need) -> String {
    let what = if need.is_of_cluster() { "the right for the cluster" } else { "the role" };
    format!("{what} {}", super::text::word(need))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Cli;

    #[test]
    fn codes_with_one_meaning_have_one_exit_code() {
        let codes = |exit: u8| {
            let found = Code::ALL.iter().filter(|code| of_code(**code) == exit);
            found.map(|code| code.name()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(codes(USAGE), "invalid");
        assert_eq!(codes(NOTHING), "not_found position_too_old");
        assert_eq!(codes(LOST), "lease_lost stale_token");
        assert_eq!(codes(UNAVAILABLE), "not_activated rate_limited too_slow overloaded unavailable");
        assert_eq!(codes(UNKNOWN), "request_forgotten unknown internal");
        assert_eq!(
            codes(ERROR),
            "forbidden rejected_by_policy request_id_reused unauthenticated method_not_allowed unsupported_media_type \
             too_large"
        );
    }

    #[test]
    fn unknown_results_have_their_own_exit_code() {
        for code in Code::ALL {
            let is_unknown = of_code(*code) == UNKNOWN;
            assert_eq!(is_unknown, code.took_effect() == TookEffect::Unknown, "{}", code.name());
        }
    }

    #[test]
    fn hints_for_refusals_name_existing_commands() {
        let command = <Cli as clap::CommandFactory>::command();
        for code in Code::ALL {
            let pieces = of_refusal(*code).split('`').skip(1).step_by(2);
            for said in pieces.filter_map(|piece| piece.strip_prefix("tenure ")) {
                let mut words = said.split(' ').take_while(|word| !word.starts_with('-'));
                let found = words.try_fold(&command, |at, word| at.find_subcommand(word));
                assert!(found.is_some(), "{}: tenure {said}", code.name());
            }
        }
    }

    #[test]
    fn arguments_are_quoted_for_a_shell_if_needed() {
        assert_eq!(quoted("disk-42"), "disk-42");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
