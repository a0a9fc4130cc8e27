//! One item that a worker works on, and its result.

use crate::clock::{Clock, Moment};
use crate::lease::Lease;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// An item to work on. It dereferences to its [`Lease`].
#[derive(Clone, Debug)]
pub struct Job {
    pub(super) lease: Arc<Lease>,
    progress: Arc<Mutex<Moment>>,
    clock: Clock,
}

impl Job {
    pub(super) fn new(lease: Lease, progress: Arc<Mutex<Moment>>, clock: Clock) -> Self {
        Self { lease: Arc::new(lease), progress, clock }
    }

    /// Reports progress. With [`Worker::progress_within`](crate::Worker::progress_within), the lease is renewed only if
    /// this is called often enough.
    pub fn progress(&self) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = self.clock.now();
    }
}

impl Deref for Job {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

/// Why the work on an item failed. Any error converts to a failure that may be retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFailure {
    pub(super) error: String,
    pub(super) is_final: bool,
}

impl JobFailure {
    /// A failure after which another attempt may succeed.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self { error: error.to_string(), is_final: false }
    }

    /// A failure after which no further attempt makes sense.
    pub fn last(error: impl fmt::Display) -> Self {
        Self { error: error.to_string(), is_final: true }
    }
}

impl<E: std::error::Error> From<E> for JobFailure {
    fn from(error: E) -> Self {
        Self::retry(crate::transport::chain(&error))
    }
}
