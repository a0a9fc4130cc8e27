//! Log lines on standard error and, if configured, spans to a collector.

use crate::observe::otlp::{Endpoint, Exporter};
use clap::ValueEnum;
use raft_store::types::NodeId;
use serde::Deserialize;
use std::io::IsTerminal as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

/// The format of the log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// The default filter: info for our own lines, warnings and errors of libraries. `RUST_LOG` overrides it. Raft's handle
/// logs only calls to a Raft that has ended, at every stop; the cause is logged elsewhere.
const USUAL: &str = "warn,node=info,tenured=info,openraft=error,openraft::raft::raft_inner=off";

/// The log output and the span exporter. Keep it until the process ends.
#[derive(Debug)]
#[must_use = "the remaining spans are sent when it is stopped"]
pub struct Logs {
    exporter: Option<Exporter>,
}

impl Logs {
    /// Sets up logging for the whole process, so call it once.
    ///
    /// # Errors
    /// When it was called before, or the export cannot be set up.
    pub fn start(format: LogFormat, spans: Option<&Endpoint>, node: NodeId) -> Result<Self, String> {
        // Colours only on a terminal, not in a file or journal.
        let words =
            tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
        let words = match format {
            LogFormat::Text => words.boxed(),
            LogFormat::Json => words.json().boxed(),
        };
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| USUAL.into());
        let subscriber = tracing_subscriber::registry().with(filter).with(words);
        let exporter = spans.map(|endpoint| Exporter::start(endpoint, node)).transpose();
        let exporter = exporter.map_err(|error| format!("spans cannot be exported: {error}"))?;
        let layer = exporter.as_ref().map(Exporter::layer);
        subscriber.with(layer).try_init().map_err(|error| error.to_string())?;
        Ok(Self { exporter })
    }

    /// Sends the remaining spans. Waits for the collector, up to a limit.
    pub fn stop(self) {
        if let Some(exporter) = self.exporter {
            exporter.stop();
        }
    }
}
