//! Reads that may examine many items: lists, walks, pages of the archive. They run in parts, and the state is unlocked
//! between two parts. They run outside the threads that serve calls, a few at a time, so that renewals are answered
//! however many such reads there are.

use super::answer::{Age, Failure, Viewed};
use super::call::{CALL_WITHIN, Call, failed_disk, unread};
use super::gate::{Class, Gate};
use crate::peers::tokio_node::TokioNode;
use api::query::Consistency;
use api::{Calendar, Code, Problem};
use lease::State;
use lease::archive::Archive;
use lease::names::ActorId;
use lease::refusal::Refusal;
use rustix::time::{ClockId, clock_gettime};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Weight of a read that may examine thousands of items, in ordinary calls.
pub(super) const HEAVY: u32 = 40;

/// Limits how many of these reads run at a time: half of the cores stay free to serve calls.
#[derive(Clone, Debug)]
pub struct Surveys(Arc<Semaphore>);

impl Default for Surveys {
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Semaphore::new((cores / 2).max(1))))
    }
}

impl Surveys {
    async fn turn(&self, by: Instant) -> Result<OwnedSemaphorePermit, Failure> {
        let too_busy = |_| {
            let why = "this node is busy with other lists: ask for fewer entries, or ask another node";
            Failure::from(Problem::new(Code::Unavailable).with_detail(why))
        };
        let turn = tokio::time::timeout_at(by.into(), self.0.clone().acquire_owned()).await.map_err(too_busy)?;
        turn.map_err(|_| Code::Internal.into())
    }
}

/// Charges an actor the time that a core spends on its lists and event pages.
#[derive(Clone, Debug)]
pub(super) struct ReadingMeter {
    gate: Gate,
    actor: ActorId,
}

impl ReadingMeter {
    /// Runs `read` and charges its CPU time. Waiting for a lock or a disk is not charged.
    pub(super) fn measure<R>(&self, read: impl FnOnce() -> R) -> R {
        let before = core_time();
        let done = read();
        self.gate.has_read(self.actor.as_str(), core_time().saturating_sub(before));
        done
    }
}

/// CPU time that this thread has used.
fn core_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

impl Call {
    pub(super) fn reading_meter(&self) -> ReadingMeter {
        ReadingMeter { gate: self.edge.gate.clone(), actor: self.actor().clone() }
    }

    /// Waits for a free thread, if the caller may read at all.
    async fn reading_turn(&self, by: Instant) -> Result<OwnedSemaphorePermit, Failure> {
        self.check_reading()?;
        let turn = self.edge.surveys.turn(by).await?;
        // Checked again after the wait: otherwise all callers that waited at the same time would be admitted.
        self.check_reading()?;
        Ok(turn)
    }

    /// Reads possibly much from disk, in its turn and outside the threads that serve calls.
    ///
    /// # Errors
    /// When there is no room or no free thread for it, or when `read` fails.
    pub(super) async fn read_apart<R: Send + 'static>(
        &self,
        weight: u32,
        read: impl FnOnce(&TokioNode) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, Failure> {
        // Its duration says nothing about the speed of other calls.
        let _admitted = self.admit(Class::Bulk, weight)?;
        let turn = self.reading_turn(Instant::now() + CALL_WITHIN).await?;
        let (node, meter) = (self.edge.node.clone(), self.reading_meter());
        let reading = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            meter.measure(|| read(&node))
        });
        reading.await.map_err(|_| Failure::from(Code::Internal))?
    }

    /// Reads the state part by part, until `look` breaks with its result. A linearizable read includes everything that
    /// was committed before the call.
    ///
    /// # Errors
    /// When no leader confirmed the read in time, when the time is over before the end, or when `look` returns a
    /// refusal.
    pub async fn survey<R: Send + 'static>(
        &self,
        consistency: Consistency,
        weight: u32,
        mut look: impl FnMut(&State, &dyn Archive, Calendar) -> Result<ControlFlow<R>, Refusal> + Send + 'static,
    ) -> Result<Viewed<R>, Failure> {
        let admitted = self.admit(Class::Bulk, weight)?;
        let by = Instant::now() + CALL_WITHIN;
        // Before its turn: without a quorum it would keep local reads waiting for theirs.
        if consistency == Consistency::Linearizable {
            self.edge.node.in_step(CALL_WITHIN).await.map_err(unread)?;
        }
        let turn = self.reading_turn(by).await?;
        let meter = self.reading_meter();
        let (node, wall) = (self.edge.node.clone(), (self.edge.wall)());
        // Ends the read when the caller disconnects.
        let left = CancellationToken::new();
        let _leaving = left.clone().drop_guard();
        let surveying = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let mut first = None;
            loop {
                let looked = meter.measure(|| {
                    node.read_local(|state, archive| {
                        let calendar = Calendar { now: state.now(), wall };
                        look(state, archive, calendar)
                    })
                });
                let (looked, seen) = looked.map_err(failed_disk)?;
                // The first part is the oldest.
                let seen = *first.get_or_insert(seen);
                match looked {
                    Ok(ControlFlow::Break(found)) => return Ok(Ok((found, seen))),
                    Err(refusal) => return Ok(Err(refusal)),
                    Ok(ControlFlow::Continue(())) if left.is_cancelled() || Instant::now() > by => {
                        let why = "the time limit ended before everything was examined: narrow the query";
                        return Err(Failure::from(Problem::new(Code::Unavailable).with_detail(why)));
                    }
                    Ok(ControlFlow::Continue(())) => {}
                }
            }
        });
        let surveyed = surveying.await.map_err(|_| Failure::from(Code::Internal))??;
        admitted.done();
        let (value, seen) = surveyed.map_err(|refusal| self.refused(refusal))?;
        let age = (consistency == Consistency::Local).then(|| Age {
            applied: seen.progress.applied.map_or(0, |applied| applied.index),
            in_step_within: seen.in_step_within,
        });
        Ok(Viewed { value, age, revision: None })
    }
}
