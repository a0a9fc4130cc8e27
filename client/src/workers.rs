//! The registry of workers.

use crate::Client;
use crate::call::Call;
use crate::path::Path;
use api::query::PageQuery;
use api::worker::{Draining, Register, Registered, Removed, WorkerName, WorkerPage};
use hyper::Method;

impl Client {
    pub fn workers(&self, query: &PageQuery) -> Call<WorkerPage> {
        Call::get(self, Path::new("/v1/workers").with(query))
    }

    /// Registers the caller as a worker, or replaces its registration.
    pub fn register_worker(&self, register: &Register) -> Call<Registered> {
        Call::command(self, Method::PUT, Path::new("/v1/workers/self"), register)
    }

    /// Drains a worker: it gets no new items. For operators.
    pub fn drain_worker(&self, worker: &WorkerName) -> Call<Draining> {
        Call::post(self, Path::new("/v1/workers/drain"), worker)
    }

    /// Removes a worker. Its leases are not affected.
    pub fn remove_worker(&self, worker: &WorkerName) -> Call<Removed> {
        Call::post(self, Path::new("/v1/workers/remove"), worker)
    }
}
