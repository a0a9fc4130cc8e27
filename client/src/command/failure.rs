//! Why a command did not do what it was asked to: the exit code that scripts branch on, what people are told, and what
//! they can do next.

use super::out::{Out, clean, say, wants_colour};
use super::span::{Span, wall_now, when};
use api::dates::Date;
use api::words::Need;
use api::{Code, Problem};
use client::Error;
use serde::Serialize;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::OnceLock;

#[derive(Debug)]
pub(crate) enum Failure {
    Client(Error),
    /// The command line, or a value in it, makes no sense.
    Usage(String),
    /// There is nothing: not a failure of anything.
    Nothing(String),
    Other {
        why: String,
        hint: Option<String>,
    },
    /// It was said already.
    Said(u8),
    /// Whoever read the output does not read any more.
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
/// As shells have it: 128 and the number of SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

pub(crate) const EXIT_CODES: &str = "\
Exit codes of tenure

  0    done
  1    error: not allowed, not understood, a file that cannot be written
  2    usage: the command line, or a value in it, makes no sense
  3    refused: somebody else holds it, or it is in no state for this. Not a failure
  4    nothing there: no such item, an empty queue
  5    lost: the lease is gone, or the token is an old one. Stop the work
  6    unavailable: it certainly did not happen. Try again
  7    unknown: it may have happened. The request's id is told, and the command that asks again
  130  interrupted: a place in line was given up

`exec` passes on the exit code of its command (128 and the signal's number if a signal ended it); 5 if the lease was lost
meanwhile; 125 if the command ended well and what was to follow, say --complete, did not happen; 126 if the command could
not be started, 127 if there is none.

With --json, what a node refused or nobody answered is a problem on standard output, as nodes answer it. All else that goes
wrong is told on standard error, in words.";

#[derive(Serialize)]
struct Meaning<'t> {
    code: u8,
    means: &'t str,
}

/// What they mean: one a line for programs, the whole text for people.
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

impl Failure {
    pub(crate) fn other(why: impl Into<String>) -> Self {
        Self::Other { why: why.into(), hint: None }
    }

    pub(crate) fn hinted(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Other { why: why.into(), hint: Some(hint.into()) }
    }

    /// To standard output.
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

    /// Tells people, and says how the process ends.
    pub(crate) fn report(&self, out: &Out) -> ExitCode {
        if out.is_json
            && let Self::Client(error) = self
        {
            let _ = out.json(&problem(error));
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
            Self::Usage(why) => Some((why.clone(), Some("`tenure help` lists what can be said".into()))),
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
        Code::Invalid => USAGE,
        Code::NotFound | Code::PositionTooOld => NOTHING,
        Code::LeaseLost | Code::StaleToken => LOST,
        Code::Unavailable | Code::Overloaded | Code::RateLimited | Code::TooSlow | Code::NotActivated => UNAVAILABLE,
        Code::Unknown | Code::Internal | Code::RequestForgotten => UNKNOWN,
        Code::Forbidden
        | Code::RejectedByPolicy
        | Code::Unauthenticated
        | Code::MethodNotAllowed
        | Code::UnsupportedMediaType
        | Code::TooLarge
        | Code::RequestIdReused => ERROR,
        Code::TerminalItem
        | Code::NotReady
        | Code::Blocked
        | Code::Reserved
        | Code::QueuePaused
        | Code::HeldByYourOtherSession
        | Code::AlreadyClaimed
        | Code::QueueFull
        | Code::TooManyLeases
        | Code::LineTooLong
        | Code::WaitTimeout
        | Code::NotHolder
        | Code::LeaseRequired
        | Code::StaleWrite
        | Code::AlreadyExists
        | Code::WrongState
        | Code::AllOrNone
        | Code::WorkerDraining
        | Code::SpaceFull
        | Code::TooManyDependents
        | Code::ChangeRefused
        | Code::RestoreRefused => REFUSED,
    }
}

/// What did not come from a node, in the words that a node would have used.
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

/// A refusal for people: its code, what it means, and what the caller may know of it.
pub(crate) fn refused(problem: &Problem) -> String {
    let mut text = format!("{}: {}", problem.code.name(), problem.detail.as_deref().unwrap_or(&problem.title));
    let mut add = |more: String| text += &format!("; {more}");
    if let Some(holder) = &problem.holder {
        let who = holder.actor.as_ref().map_or_else(|| super::out::word(holder.kind), ToString::to_string);
        let until = holder.expires_at.map(|date| format!(" until {}", when(date)));
        add(format!("held by {who}{}", until.unwrap_or_default()));
        if let Some(action) = &holder.action {
            add(format!("says: {action}"));
        }
    } else if let Some(ms) = problem.retry_after_ms {
        add(format!("worth another try in {}", Span::of_ms(ms)));
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
        add(format!("{max} at most"));
    }
    if let Some(length) = problem.line_length {
        add(format!("{length} in line"));
    }
    if let Some(revision) = problem.revision {
        add(format!("it is at revision {revision}"));
    }
    if let Some(changed) = problem.changed.as_ref().filter(|changed| !changed.is_empty()) {
        add(format!("changed: {}", changed.join(", ")));
    }
    if let Some(state) = &problem.state {
        add(format!("it is {state}"));
    }
    if let Some(need) = problem.needs {
        add(format!("it needs {}", needed(need)));
    }
    if let Some(kept) = problem.kept_after {
        add(format!("everything after {kept} is kept"));
    }
    text
}

fn hint(error: &Error) -> Option<String> {
    match error {
        Error::Unavailable { .. } => {
            Some("is a node there? `tenure cluster status` asks; --endpoint or a profile says where".into())
        }
        Error::Unknown { request_id, .. } => Some(format!("ask what became of it: {}", again(request_id))),
        Error::Invalid(_) => None,
        Error::Refused(problem) => Some(of_refusal(problem.code).to_owned()),
    }
}

/// What to do next.
fn of_refusal(code: Code) -> &'static str {
    match code {
        Code::Invalid => "--help behind the verb says what it takes",
        Code::AlreadyClaimed => "--wait joins the wait line; `tenure line` shows it",
        Code::HeldByYourOtherSession => "--takeover ends that lease, or name its session with --session",
        Code::NotFound => "`tenure list` shows what there is; is it another --space?",
        Code::TerminalItem => "`tenure reopen` queues it again",
        Code::Blocked => "`tenure show` says why; `tenure retry` lets it be tried again",
        Code::NotReady => "`tenure show` says what it waits for",
        Code::Reserved => "it comes back to its queue when the reservation ends: `tenure show` says when",
        Code::QueuePaused => "`tenure queue unpause` lets it grant again",
        Code::QueueFull | Code::TooManyLeases => {
            "it goes on when a lease ends: `tenure queue show` says how many there are"
        }
        Code::LineTooLong | Code::WaitTimeout => "try again later",
        Code::LeaseLost | Code::StaleToken => "stop the work on it; `tenure show` says how it is now",
        Code::NotHolder => "`tenure mine` shows what you hold; a lease belongs to an actor and a --session",
        Code::LeaseRequired => "`tenure claim` it first, and give the token behind the item",
        Code::StaleWrite => "look at it again (`tenure show`) and repeat with --read-at and its revision",
        Code::AlreadyExists => "`tenure show` it, or choose another id",
        Code::WrongState => "`tenure show` says how it is",
        Code::Unauthenticated => "give a token: --token-file, TENURE_API_TOKEN or a profile (`tenure profile set`)",
        Code::Forbidden => "ask an admin of the cluster for a token with that role or right",
        Code::RejectedByPolicy => "the space wants a checked identity: give a token",
        Code::SpaceFull => "`tenure space show` says how much it may hold",
        Code::NotActivated => "once nobody works by old leases: `tenure cluster activate`",
        Code::RequestIdReused => "take another --request-id, or none",
        Code::RequestForgotten => "look at how things are now: `tenure show`",
        Code::PositionTooOld => "`tenure watch --from start` begins with what is kept",
        Code::WorkerDraining => "an operator drains this worker: let it end",
        Code::TooLarge => "make it smaller, or several of it",
        Code::ChangeRefused => "`tenure cluster status` says how the members are",
        Code::RestoreRefused => "docs/OPERATIONS.md, Backup and restore, says what to do about each reason",
        Code::TooManyDependents => "let an item between them wait for that one, and the rest for it",
        Code::AllOrNone => "look at what was said of the others",
        Code::MethodNotAllowed | Code::UnsupportedMediaType => {
            "is the node of another version? `tenure cluster status` shows theirs, `tenure --version` this one's"
        }
        Code::RateLimited | Code::Overloaded | Code::TooSlow => "try again later, or with fewer at a time",
        Code::Unavailable => "try again; `tenure cluster status` says whether a quorum is there",
        Code::Unknown | Code::Internal => "it may have happened: `tenure show` says how things are now",
    }
}

static BEGAN: OnceLock<Date> = OnceLock::new();

/// When this process began, before it sent anything.
pub(crate) fn began() -> Date {
    *BEGAN.get_or_init(|| Date(wall_now()))
}

/// The same command again, under the id of the request that nobody answered.
fn again(request_id: &str) -> String {
    let mut words = vec!["tenure".to_owned()];
    let mut repeat = format!("--repeat={}", began());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--request-id" => drop(args.next()),
            // A secret does not go to a terminal.
            "--token" => {
                args.next();
                words.extend(["--token".into(), "…".into()]);
            }
            // When it was first sent stays as it is.
            text if text == "--repeat" || text.starts_with("--repeat=") => repeat = text.to_owned(),
            text if text.starts_with("--request-id=") => {}
            text if text.starts_with("--token=") => words.push("--token=…".into()),
            text => words.push(quoted(text)),
        }
    }
    words.splice(1..1, ["--request-id".to_owned(), quoted(request_id), quoted(&repeat)]);
    words.join(" ")
}

/// For a shell.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%…".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// A role or a right, as people ask for it.
pub(crate) fn needed(need: Need) -> String {
    let what = if need.is_of_cluster() { "the right for the cluster" } else { "the role" };
    format!("{what} {}", super::out::word(need))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Cli;

    #[test]
    fn what_may_have_happened_has_an_exit_code_of_its_own() {
        for code in Code::ALL {
            let is_unknown = of_code(*code) == UNKNOWN;
            assert_eq!(is_unknown, code.took_effect() == api::TookEffect::Unknown, "{}", code.name());
        }
    }

    #[test]
    fn whatever_is_refused_the_next_step_is_a_command_that_there_is() {
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
    fn a_word_for_a_shell_is_quoted_where_it_must_be() {
        assert_eq!(quoted("disk-42"), "disk-42");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
