//! Runs the work on one item, and reports its result.

use super::desk::Desk;
use super::job::{Job, JobFailure};
use crate::lease::Lease;
use crate::retry::backoff;
use crate::{Error, Lost};
use api::Code;
use api::write::Moved;
use futures_util::FutureExt as _;
use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use tokio::time::sleep;

/// How the work ended.
enum Ended {
    Done(Option<String>),
    Failed(JobFailure),
    Lost,
    Killed,
}

pub(super) async fn carry_out<W, F>(desk: &Desk, job: Job, work: &W)
where
    W: Fn(Job) -> F,
    F: Future<Output = Result<Option<String>, JobFailure>>,
{
    let lease = job.lease.clone();
    let working = AssertUnwindSafe(async { work(job).await }).catch_unwind();
    let ended = tokio::select! {
        biased;
        () = taken_away(&lease) => Ended::Lost,
        worked = working => match worked {
            Ok(Ok(result)) => Ended::Done(result),
            Ok(Err(failure)) => Ended::Failed(failure),
            Err(panic) => Ended::Failed(JobFailure::retry(format!("the work panicked: {}", said(&*panic)))),
        },
        () = desk.kill.cancelled() => Ended::Killed,
    };
    report(&lease, ended).await;
    desk.put_away(&lease);
}

/// Waits until the lease is lost, unless the work itself ended it.
async fn taken_away(lease: &Lease) {
    lease.state().gone.cancelled().await;
    if lease.lost() == Some(Lost::GivenBack) {
        std::future::pending::<()>().await;
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

async fn report(lease: &Lease, ended: Ended) {
    if lease.lost() == Some(Lost::GivenBack) {
        return;
    }
    let reported = match ended {
        Ended::Lost => {
            let why = lease.lost().unwrap_or(Lost::Ended);
            tracing::warn!(item = %lease.item(), %why, "work was stopped");
            return;
        }
        Ended::Killed => lease.release().await.map(|_| ()),
        Ended::Done(result) => until_told(lease, || lease.complete(result.clone())).await,
        Ended::Failed(JobFailure { error, is_final }) => {
            tracing::warn!(item = %lease.item(), error, is_final, "work failed");
            until_told(lease, || lease.fail(Some(error.clone()), is_final)).await
        }
    };
    if let Err(error) = reported {
        tracing::warn!(item = %lease.item(), %error, "could not report the job's result");
    }
}

/// Reports a result: retries until it is answered while the lease is held, and once more after that, because nobody may
/// have taken the item yet.
async fn until_told<F: Future<Output = Result<Moved, Error>>>(
    lease: &Lease,
    tell: impl Fn() -> F,
) -> Result<(), Error> {
    let mut failed = 0;
    let mut has_looked = false;
    loop {
        let is_last = lease.lost().is_some();
        match tell().await {
            Ok(_) => return Ok(()),
            // The item was changed by an earlier write of this work whose answer was lost.
            Err(error) if error.code() == Some(Code::StaleWrite) && !has_looked => {
                has_looked = true;
                lease.look().await?;
            }
            Err(error @ (Error::Refused(_) | Error::Invalid(_))) => return Err(error),
            Err(error) if is_last => return Err(error),
            Err(_) => failed += 1,
        }
        sleep(backoff(failed)).await;
    }
}
