//! Queues: how full they are, their policy, and whether they grant.

use crate::call::Call;
use crate::path::{Path, Query};
use crate::{Client, Consistency};
use api::queue::{FlowSet, PolicyChange, PolicySet, Queue, QueuePage};
use hyper::Method;
use lease::names::QueueName;

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageQuery {
    /// Where an earlier answer said to go on.
    pub cursor: Option<String>,
    /// 100 unless said, 1,000 at most.
    pub limit: Option<usize>,
    pub consistency: Consistency,
}

impl PageQuery {
    pub(crate) fn said(&self) -> Query {
        let said = Query::default().say("cursor", &self.cursor).say("limit", self.limit);
        self.consistency.said(said)
    }
}

impl Client {
    pub fn queues(&self, query: &PageQuery) -> Call<QueuePage> {
        Call::get(self, Path::new("/v1/queues").with(query.said()))
    }

    pub fn queue(&self, name: &QueueName) -> Call<Queue> {
        Call::get(self, Path::queue(name))
    }

    /// What is not named stays. For operators.
    pub fn set_policy(&self, name: &QueueName, change: &PolicyChange) -> Call<PolicySet> {
        Call::command(self, Method::PATCH, Path::queue(name).verb("policy"), change)
    }

    /// No grants; holders go on, waiters keep their places.
    pub fn pause(&self, name: &QueueName) -> Call<FlowSet> {
        Call::bare(self, Method::POST, Path::queue(name).verb("pause"))
    }

    pub fn unpause(&self, name: &QueueName) -> Call<FlowSet> {
        Call::bare(self, Method::POST, Path::queue(name).verb("unpause"))
    }

    /// No grants, waiters are sent away, until nothing is held.
    pub fn drain_queue(&self, name: &QueueName) -> Call<FlowSet> {
        Call::bare(self, Method::POST, Path::queue(name).verb("drain"))
    }
}
