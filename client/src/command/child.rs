//! A command that runs under a lease, in its own process group. The whole group has ended before the lease ends.
//!
//! A process that leaves the group (`setsid`) escapes, and nothing stops the group if this process is killed. Only the
//! fencing token protects against both.

use super::global::Context;
use super::hold::{ITEM, TOKEN};
use super::out::say;
use api::dates::Date;
use client::{Clock, Lease, Moment};
use lease::numbers::Wall;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Timers do not count the machine's sleep, so the clock is read at least this often.
const LOOK: Duration = Duration::from_millis(250);
/// Pause between checks for the first renewal.
const AWAIT: Duration = Duration::from_millis(10);
/// Time before the end of the lease for a killed group to end.
const KILL_BEFORE: Duration = Duration::from_secs(1);
/// Time that a command gets after its lease was lost: another holder may be at work.
const TAKEN_AWAY: Duration = Duration::from_secs(2);

/// How a command ended.
#[derive(Debug)]
pub(crate) enum Ended {
    ByItself(ExitStatus),
    /// It was stopped, because the lease was lost, could not be renewed, or has a cancellation request.
    Stopped(String),
}

/// When a command has to stop, counted back from the end of its lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopping {
    /// SIGTERM is sent this long before the end.
    term_before: Duration,
    /// SIGKILL is sent to the rest of the group this long before the end.
    kill_before: Duration,
}

impl Stopping {
    /// The time asked for, but at most a third of the lease, so that there is time to renew it.
    pub(crate) fn new(asked: Duration, lease_for: Duration) -> Self {
        let term_before = asked.min(lease_for / 3);
        Self { term_before, kill_before: (term_before / 2).min(KILL_BEFORE) }
    }
}

/// A process group. Dropping it kills the whole group.
struct Group {
    child: Option<Child>,
    pid: Pid,
}

impl Group {
    fn start(mut command: Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the process has no pid"))?;
        Ok(Self { child: Some(child), pid })
    }

    fn signal(&self, signal: Signal) {
        // A group that has ended is fine. The pid belongs to the group until its first process has been waited for.
        if self.child.is_some() {
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Resolves when the first process has ended. The process keeps its pid, because it is not reaped here.
    fn ended(&self) -> impl Future<Output = ()> + use<> {
        let pid = self.pid;
        let waiting = tokio::task::spawn_blocking(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(pid), options).is_err_and(|error| error == rustix::io::Errno::INTR) {}
        });
        async {
            let _ = waiting.await;
        }
    }

    /// Kills what is left of the group and reaps its first process.
    fn finish(mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        match self.child.take() {
            Some(mut child) => child.wait(),
            None => Err(io::Error::other("the process was already waited for")),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        if let Some(mut child) = self.child.take() {
            std::thread::spawn(move || child.wait());
        }
    }
}

/// The command, with its lease described in its environment. It gets the caller's API key only if `pass_credential`:
/// what runs under a lease need not be trusted with all of the caller's rights.
pub(crate) fn command(context: &Context, lease: &Lease, words: &[OsString], pass_credential: bool) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command.env(ITEM, lease.item().as_str()).env(TOKEN, lease.token().to_string());
    command.env("TENURE_VALID_UNTIL", date(context.client.clock(), lease.valid_until()).to_string());
    command.env("TENURE_LEASE_MS", lease.grant().lease_for_ms.to_string());
    if let Some(snapshot) = &lease.grant().snapshot {
        command.env("TENURE_QUEUE", snapshot.queue.as_str()).env("TENURE_REVISION", snapshot.revision.to_string());
        command.env("TENURE_ATTEMPTS", snapshot.attempts.to_string());
    }
    for name in ["TENURE_API_KEY", "TENURE_API_KEY_FILE"] {
        command.env_remove(name);
    }
    if let Some(api_key) = context.api_key().filter(|_| pass_credential) {
        command.env("TENURE_API_KEY", api_key);
    }
    // `tenure` inside the command calls the same nodes as the same holder.
    command.envs(context.environment.iter().map(|(name, value)| (name, value)));
    if let Some(session) = lease.session() {
        command.env("TENURE_SESSION", session.as_str());
    }
    // A background process group that reads the terminal would be stopped by SIGTTIN.
    if io::stdin().is_terminal() {
        command.stdin(Stdio::null());
    }
    command
}

/// Converts a moment of the client's clock to a date.
fn date(clock: &Clock, moment: Moment) -> Date {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = (now + clock.now().until(moment)).as_millis();
    Date(Wall(u64::try_from(at).unwrap_or(u64::MAX)))
}

/// Signals to pass on to a command.
#[derive(Debug)]
pub(crate) struct Signals(mpsc::Receiver<Signal>);

impl Signals {
    /// Catches the signals: from now on they do not end this process.
    pub(crate) fn heard() -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(8);
        for (kind, passed_on) in [
            (SignalKind::terminate(), Signal::TERM),
            (SignalKind::interrupt(), Signal::INT),
            (SignalKind::hangup(), Signal::HUP),
            (SignalKind::quit(), Signal::QUIT),
            (SignalKind::user_defined1(), Signal::USR1),
            (SignalKind::user_defined2(), Signal::USR2),
        ] {
            let mut signals = signal(kind)?;
            let sender = sender.clone();
            tokio::spawn(
                async move { while signals.recv().await.is_some() && sender.send(passed_on).await.is_ok() {} },
            );
        }
        Ok(Self(receiver))
    }

    async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}

/// Runs a command only while the lease is certainly held. Dropping the future kills the command.
///
/// # Errors
/// When the command cannot be started.
pub(crate) async fn run(
    mut command: Command,
    input: Option<Vec<u8>>,
    lease: &Lease,
    clock: &Clock,
    stopping: Stopping,
    mut signals: Option<&mut Signals>,
) -> io::Result<Ended> {
    if let Some(why) = awaited(lease, clock, stopping).await {
        return Ok(Ended::Stopped(why));
    }
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut group = Group::start(command)?;
    if let (Some(input), Some(mut pipe)) = (input, group.child.as_mut().and_then(|child| child.stdin.take())) {
        // The command may read its input slowly, or never.
        std::thread::spawn(move || pipe.write_all(&input));
    }
    let (gone, wind_down) = (lease.cancelled(), lease.wind_down());
    // Why the command was told to stop, and the deadline if there is one.
    let mut told: Option<(String, Option<Moment>)> = None;
    let mut is_killed = false;
    let ended = group.ended();
    tokio::pin!(ended);
    loop {
        let now = clock.now();
        let valid_until = lease.valid_until();
        if told.is_none() {
            told = reason(lease, clock, now, stopping, (gone.is_cancelled(), wind_down.is_cancelled()));
            if let Some((why, _)) = &told {
                say(format_args!("tenure: {}", super::out::clean(why)));
                group.signal(Signal::TERM);
            }
        }
        // In every case the command is killed before the lease ends.
        let by = Moment(valid_until.0.saturating_sub(stopping.kill_before));
        let by = told.as_ref().and_then(|(_, by)| *by).map_or(by, |earlier| earlier.min(by));
        if now >= by && !is_killed {
            group.signal(Signal::KILL);
            is_killed = true;
        }
        let next = match (&told, is_killed) {
            (_, true) => LOOK,
            (None, false) => now.until(Moment(valid_until.0.saturating_sub(stopping.term_before))),
            (Some(_), false) => now.until(by),
        };
        let is_free = told.is_none();
        tokio::select! {
            () = &mut ended => break,
            () = tokio::time::sleep(next.clamp(Duration::from_millis(1), LOOK)) => {}
            () = gone.cancelled(), if is_free => {}
            () = wind_down.cancelled(), if is_free => {}
            signal = heard(&mut signals) => group.signal(signal),
        }
    }
    let status = group.finish()?;
    Ok(match told {
        Some((why, _)) => Ended::Stopped(why),
        None => Ended::ByItself(status),
    })
}

/// Waits until enough of the lease is left. A grant from the wait line is short until its first renewal, and a command
/// must not start only to be stopped at once. Returns the reason if the command must not start.
async fn awaited(lease: &Lease, clock: &Clock, stopping: Stopping) -> Option<String> {
    let gone = lease.cancelled();
    while clock.now().after(stopping.term_before) >= lease.valid_until() {
        if gone.is_cancelled() {
            let why = lease.lost().map(|lost| format!(": {lost}")).unwrap_or_default();
            let why = format!("the lease on {} is lost{why}", lease.item());
            say(format_args!("tenure: {}", super::out::clean(&why)));
            return Some(why);
        }
        tokio::time::sleep(AWAIT).await;
    }
    None
}

/// Why the command has to stop now, if it has to, and the deadline if it is before the end of its lease.
fn reason(
    lease: &Lease,
    clock: &Clock,
    now: Moment,
    stopping: Stopping,
    (is_gone, is_to_wind_down): (bool, bool),
) -> Option<(String, Option<Moment>)> {
    let item = lease.item();
    if is_gone {
        let why = lease.lost().map(|lost| format!(": {lost}")).unwrap_or_default();
        return Some((format!("the lease on {item} is lost{why}"), Some(now.after(TAKEN_AWAY))));
    }
    if is_to_wind_down {
        return Some((format!("cancellation of {item} requested: stopping"), None));
    }
    let valid_until = lease.valid_until();
    (now.after(stopping.term_before) >= valid_until).then(|| {
        let until = date(clock, valid_until);
        (format!("the lease on {item} could not be renewed in time: stopping, valid until {until}"), None)
    })
}

async fn heard(signals: &mut Option<&mut Signals>) -> Signal {
    match signals {
        Some(signals) => signals.next().await,
        None => std::future::pending().await,
    }
}

/// The exit code as shells report it: the command's own code, or 128 plus the number of the signal that ended it.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(super::failure::ERROR)
}
