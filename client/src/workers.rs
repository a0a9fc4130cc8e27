//! The registry of workers.

use crate::Client;
use crate::call::Call;
use crate::path::Path;
use crate::queues::PageQuery;
use api::worker::{Draining, Register, Registered, Removed, WorkerName, WorkerPage};
use hyper::Method;

impl Client {
    pub fn workers(&self, query: &PageQuery) -> Call<WorkerPage> {
        Call::get(self, Path::new("/v1/workers").with(query.said()))
    }

    /// The caller, as a worker. Repeated, it replaces the earlier word.
    pub fn register_worker(&self, register: &Register) -> Call<Registered> {
        Call::command(self, Method::PUT, Path::new("/v1/workers/self"), register)
    }

    /// It gets no new item. For operators.
    pub fn drain_worker(&self, worker: &WorkerName) -> Call<Draining> {
        Call::post(self, Path::new("/v1/workers/drain"), worker)
    }

    /// Its leases are not touched.
    pub fn remove_worker(&self, worker: &WorkerName) -> Call<Removed> {
        Call::post(self, Path::new("/v1/workers/remove"), worker)
    }
}
