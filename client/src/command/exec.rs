//! `exec`: runs a command under a lease.

use super::child::{self, Ended, Signals, Stopping};
use super::claim::ClaimArgs;
use super::failure::Failure;
use super::global::{Context, interrupted};
use super::out::{clean, say};
use super::span::Span;
use api::Code;
use clap::Args;
use client::{Error, Lease};
use std::ffi::OsString;
use std::io;
use std::time::Duration;

/// The command could not be started, or was not found: the exit codes that shells use.
const NOT_STARTED: u8 = 126;
const NO_COMMAND: u8 = 127;
/// The command succeeded, but the step after it (`--complete`, the release) failed.
const NOT_FOLLOWED: u8 = 125;

/// Hold an item while a command runs
///
/// The lease is renewed while the command runs and released when it ends. The command gets TENURE_ITEM, TENURE_TOKEN
/// (the fencing token), TENURE_VALID_UNTIL, TENURE_SESSION and more in its environment; with --pass-credential,
/// `tenure` inside it acts as the same holder. It runs in its own process group, without the terminal's input. If the
/// lease is lost or cannot be renewed, the whole group gets SIGTERM, and SIGKILL before the lease ends. The command's
/// exit code is passed on. A lease that you have claimed by hand, without a session, is taken over.
#[derive(Args, Debug)]
#[command(mut_arg("lease_for", |arg| {
    arg.help("Lease duration; renewed while the command runs [default: the queue's policy]")
}))]
#[command(mut_arg("wait", |arg| arg.help("Wait in line until the item is granted, or at most this long")))]
pub(crate) struct Exec {
    #[command(flatten)]
    claim: ClaimArgs,
    /// Complete the item if the command exits with 0
    #[arg(long)]
    complete: bool,
    /// Fail the item if the command exits with another code
    #[arg(long)]
    fail_on_error: bool,
    /// Stop the command this long before the end of a lease that cannot be renewed; at most a third of the lease
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    stop_before: Span,
    /// Pass the API key to the command in TENURE_API_KEY, which is removed from its environment otherwise
    #[arg(long)]
    pass_credential: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

impl Exec {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let lease = self.leased(context).await?;
        let lease_for = Duration::from_millis(lease.grant().lease_for_ms);
        let command = child::command(context, &lease, &self.command, self.pass_credential);
        let mut signals =
            Signals::heard().map_err(|error| Failure::other(format!("cannot listen for signals: {error}")))?;
        let stopping = Stopping::new(self.stop_before.0, lease_for);
        let ended = child::run(command, None, &lease, context.client.clock(), stopping, Some(&mut signals)).await;
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                let _ = lease.release().await;
                let code = if error.kind() == io::ErrorKind::NotFound { NO_COMMAND } else { NOT_STARTED };
                say(format_args!("tenure: {}: {error}", clean(&self.command[0].to_string_lossy())));
                return Err(Failure::Said(code));
            }
        };
        match ended {
            Ended::Stopped(_) => {
                // Releases the lease if it is still held, so that others need not wait until it expires.
                drop(lease);
                let _ = tokio::time::timeout(Duration::from_secs(2), context.client.settled()).await;
                Err(Failure::Said(super::failure::LOST))
            }
            Ended::ByItself(status) => {
                let code = child::code(status);
                let followed = self.follow(&lease, code).await;
                if let Err(error) = followed {
                    say(format_args!("tenure: {}: {}", lease.item(), clean(&error.to_string())));
                    return Err(Failure::Said(if code == 0 { NOT_FOLLOWED } else { code }));
                }
                if code == 0 { Ok(()) } else { Err(Failure::Said(code)) }
            }
        }
    }

    async fn leased(&self, context: &Context) -> Result<Lease, Failure> {
        let claim = async |takes_over: bool| {
            let request = self.claim.request(&context.client);
            let request = if takes_over { request.takeover() } else { request };
            if self.claim.waits() { request.claim().await } else { request.try_claim().await }
        };
        let leasing = async {
            match claim(false).await {
                Err(error) if error.code() == Some(Code::HeldByYourOtherSession) => {
                    // `exec` and `work` use sessions, so nothing runs under a lease without one.
                    let holder = context.client.item(self.claim.item()).await?.holder;
                    if holder.is_none_or(|holder| holder.session.is_some()) {
                        return Err(error);
                    }
                    say("taking over the lease that you claimed by hand");
                    claim(true).await
                }
                claimed => claimed,
            }
        };
        tokio::select! {
            lease = leasing => return Ok(lease?),
            () = interrupted() => {}
        }
        // The cancelled claim is withdrawn in the background.
        context.client.settled().await;
        Err(Failure::Interrupted)
    }

    /// Completes, fails or releases the item after the command ended.
    async fn follow(&self, lease: &Lease, code: u8) -> Result<(), Error> {
        let end = async || match code {
            0 if self.complete => lease.complete(None).await.map(|_| ()),
            0 => lease.release().await.map(|_| ()),
            _ if self.fail_on_error => lease.fail(Some(format!("exit code {code}")), false).await.map(|_| ()),
            _ => lease.release().await.map(|_| ()),
        };
        match end().await {
            // The command itself changed the item: read it and try once more.
            Err(error) if error.code() == Some(Code::StaleWrite) => {
                lease.look().await?;
                end().await
            }
            ended => ended,
        }
    }
}
