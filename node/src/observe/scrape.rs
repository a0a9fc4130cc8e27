//! Renders the metrics of a node for a scraper: those that were counted, and a sample of the node.

mod encode;
mod process;
mod queues;
mod sample;

pub(crate) use process::bytes_in;

use crate::observe::metrics::{Metrics, PREFIX};
use crate::peers::tokio_node::TokioNode;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;
use raft_store::log::LogMonitor;
use sample::Sample;

/// The content type of the rendered text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Renders all metrics. Reads files and, in pieces, the state: this takes some milliseconds with thousands of queues,
/// so do not call it on a runtime thread.
#[must_use]
pub fn render(metrics: &Metrics, node: &TokioNode, log: &LogMonitor) -> String {
    text(metrics, Sample::take(node, log, metrics.started()))
}

fn text(metrics: &Metrics, sample: Sample) -> String {
    let mut sampled = Registry::with_prefix(PREFIX);
    sampled.register_collector(Box::new(sample));
    let mut text = String::new();
    encode_registry(&mut text, metrics.registry())
        .and_then(|()| encode_registry(&mut text, &sampled))
        .and_then(|()| encode_eof(&mut text))
        .expect("a String takes whatever is written");
    text
}

#[cfg(test)]
mod tests;
