//! The edge turns HTTP requests into commands and reads. A handler builds a command and renders its outcome. No handler
//! decides who holds what, or reads the state to find out.

pub mod answer;
mod audit;
pub mod body;
pub mod call;
pub(crate) mod cursor;
pub mod document;
pub mod extract;
pub mod front;
pub mod gate;
pub mod identity;
pub(crate) mod local;
pub mod parser;
pub mod remote;
pub mod repeat;
pub(crate) mod request_name;
pub mod rest;
pub mod restore_mode;
pub mod server;
pub mod settings;
pub mod stopping;
pub mod survey;
pub mod tls;
pub mod unsent;
pub mod watch;

use crate::admin::Admin;
use crate::edge::identity::Authenticator;
use crate::net::throttle::Throttle;
use crate::observe::metrics::Metrics;
use crate::peers::tokio_node::TokioNode;
use crate::replica::wall::WallClock;
use api::Calendar;
use audit::Audit;
use cursor::Cursors;
use gate::Gate;
use parser::Parser;
use raft_store::log::LogMonitor;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use survey::Surveys;
use unsent::Unsent;

/// What all handlers share. Clones share everything.
#[derive(Clone)]
pub struct Edge(Arc<EdgeParts>);

/// The parts of the node that handlers use.
pub struct EdgeParts {
    pub node: TokioNode,
    pub metrics: Metrics,
    pub admin: Admin,
    pub log: LogMonitor,
    pub authenticator: Authenticator,
    pub gate: Gate,
    /// Room for responses that are not sent yet.
    pub(crate) unsent: Unsent,
    pub surveys: Surveys,
    pub parser: Parser,
    pub(crate) cursors: Cursors,
    /// How long the reader of a stream may read nothing.
    pub patience: Duration,
    /// Callers on this machine may read the metrics without an API key.
    pub metrics_open: bool,
    /// The hosts in this node's configured addresses.
    pub(crate) own_hosts: Vec<String>,
    pub(crate) audit: Audit,
    /// Limits how often this node logs that it is not ready.
    pub(crate) unfit: Mutex<Throttle>,
    pub wall: WallClock,
}

impl fmt::Debug for EdgeParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parts of the edge of {:?}", self.node)
    }
}

impl Edge {
    #[must_use]
    pub fn new(shared: EdgeParts) -> Self {
        Self(Arc::new(shared))
    }

    /// Converts cluster time to dates, by the current state of this node.
    fn calendar(&self) -> Calendar {
        Calendar { now: self.node.hub().current().now, wall: (self.wall)() }
    }
}

impl std::ops::Deref for Edge {
    type Target = EdgeParts;

    fn deref(&self) -> &EdgeParts {
        &self.0
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Edge of {:?}", self.node)
    }
}
