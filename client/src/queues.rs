//! Queues: counts, policy, pause and drain.

use crate::Client;
use crate::call::Call;
use crate::path::Path;
use api::query::PageQuery;
use api::queue::{FlowSet, PolicyChange, PolicySet, Queue, QueuePage};
use hyper::Method;
use lease::names::QueueName;

impl Client {
    pub fn queues(&self, query: &PageQuery) -> Call<QueuePage> {
        Call::get(self, Path::new("/v1/queues").with(query))
    }

    pub fn queue(&self, name: &QueueName) -> Call<Queue> {
        Call::get(self, Path::queue(name))
    }

    /// Changes a queue's policy; values not given are kept. For operators.
    pub fn set_policy(&self, name: &QueueName, change: &PolicyChange) -> Call<PolicySet> {
        Call::command(self, Method::PATCH, Path::queue(name).verb("policy"), change)
    }

    /// Stops granting; holders continue and waiters keep their places.
    pub fn pause(&self, name: &QueueName) -> Call<FlowSet> {
        Call::bare(self, Method::POST, Path::queue(name).verb("pause"))
    }

    pub fn unpause(&self, name: &QueueName) -> Call<FlowSet> {
        Call::bare(self, Method::POST, Path::queue(name).verb("unpause"))
    }

    /// Stops granting and rejects waiters, until no lease is left.
    pub fn drain_queue(&self, name: &QueueName) -> Call<FlowSet> {
        Call::bare(self, Method::POST, Path::queue(name).verb("drain"))
    }
}
