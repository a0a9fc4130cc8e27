//! One item in a worker's hands, and what becomes of it.

use super::desk::Desk;
use crate::claim::Claim;
use crate::clock::{Clock, Moment};
use crate::retry::backoff;
use crate::{Error, Lost};
use api::Code;
use api::write::Moved;
use futures_util::FutureExt as _;
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::sleep;

/// An item to work on. What its claim offers is there, too.
#[derive(Clone, Debug)]
pub struct Job {
    claim: Arc<Claim>,
    progress: Arc<Mutex<Moment>>,
    clock: Clock,
}

impl Job {
    pub(super) fn new(claim: Claim, progress: Arc<Mutex<Moment>>, clock: Clock) -> Self {
        Self { claim: Arc::new(claim), progress, clock }
    }

    /// The work gets on: the lease stays alive for as long as this is said often enough.
    pub fn progress(&self) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = self.clock.now();
    }
}

impl Deref for Job {
    type Target = Claim;

    fn deref(&self) -> &Claim {
        &self.claim
    }
}

/// Why an item could not be done. Any error becomes one that may be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    error: String,
    is_final: bool,
}

impl Failure {
    /// Another attempt may succeed.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self { error: error.to_string(), is_final: false }
    }

    /// No further attempt makes sense.
    pub fn last(error: impl fmt::Display) -> Self {
        Self { error: error.to_string(), is_final: true }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::retry(crate::transport::chain(&error))
    }
}

/// How the work ended.
enum Ended {
    Done(Option<String>),
    Failed(Failure),
    Lost,
    Killed,
}

pub(super) async fn carry_out<W, F>(desk: &Desk, job: Job, work: &W)
where
    W: Fn(Job) -> F,
    F: Future<Output = Result<Option<String>, Failure>>,
{
    let claim = job.claim.clone();
    let working = AssertUnwindSafe(async { work(job).await }).catch_unwind();
    let ended = tokio::select! {
        biased;
        () = taken_away(&claim) => Ended::Lost,
        worked = working => match worked {
            Ok(Ok(result)) => Ended::Done(result),
            Ok(Err(failure)) => Ended::Failed(failure),
            Err(panic) => Ended::Failed(Failure::retry(format!("the work panicked: {}", said(&*panic)))),
        },
        () = desk.kill.cancelled() => Ended::Killed,
    };
    report(&claim, ended).await;
    desk.put_away(&claim);
}

/// Until it is lost, and not because the work itself gave it back.
async fn taken_away(claim: &Claim) {
    claim.hold().gone.cancelled().await;
    if claim.lost() == Some(Lost::GivenBack) {
        std::future::pending::<()>().await;
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}

async fn report(claim: &Claim, ended: Ended) {
    if claim.lost() == Some(Lost::GivenBack) {
        return;
    }
    let reported = match ended {
        Ended::Lost => {
            let why = claim.lost().unwrap_or(Lost::Ended);
            tracing::warn!(item = %claim.item(), %why, "work was stopped");
            return;
        }
        Ended::Killed => claim.release().await.map(|_| ()),
        Ended::Done(result) => until_told(claim, || claim.complete(result.clone())).await,
        Ended::Failed(Failure { error, is_final }) => {
            tracing::warn!(item = %claim.item(), error, is_final, "work failed");
            until_told(claim, || claim.fail(Some(error.clone()), is_final)).await
        }
    };
    if let Err(error) = reported {
        tracing::warn!(item = %claim.item(), %error, "nobody took what became of the work");
    }
}

/// Again until it is answered, for as long as the lease is held, and once more after: nobody may have taken the item yet.
async fn until_told<F: Future<Output = Result<Moved, Error>>>(
    claim: &Claim,
    tell: impl Fn() -> F,
) -> Result<(), Error> {
    let mut failed = 0;
    let mut has_looked = false;
    loop {
        let is_last = claim.lost().is_some();
        match tell().await {
            Ok(_) => return Ok(()),
            // An earlier write of this very work whose answer was lost.
            Err(error) if error.code() == Some(Code::StaleWrite) && !has_looked => {
                has_looked = true;
                claim.look().await?;
            }
            Err(error @ (Error::Refused(_) | Error::Invalid(_))) => return Err(error),
            Err(error) if is_last => return Err(error),
            Err(_) => failed += 1,
        }
        sleep(backoff(failed)).await;
    }
}
