//! `--at`: selects one node.

use super::failure::Failure;
use super::global::Context;
use clap::Args;
use client::{Endpoint, Node};

/// Selects one node.
#[derive(Args, Debug)]
pub(crate) struct At {
    /// Address of the node [default: the endpoint, if only one is configured]
    #[arg(long, value_name = "URL")]
    at: Option<Endpoint>,
}

impl At {
    pub(crate) fn node(self, context: &Context) -> Result<Node, Failure> {
        match (self.at, context.client.endpoints()) {
            (Some(endpoint), _) => Ok(context.client.node(endpoint)),
            (None, [only]) => Ok(context.client.node(only.clone())),
            (None, _) => Err(Failure::Usage("several endpoints are configured: choose a node with --at".into())),
        }
    }
}
