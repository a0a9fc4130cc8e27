//! What the daemon says of itself: lines on standard error and, if asked for, spans to a collector.

use crate::config::LogFormat;
use crate::otlp::{Endpoint, Exporter};
use raft_store::types::NodeId;
use std::io::IsTerminal as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

/// Our own lines; of the libraries only what went wrong. `RUST_LOG` says otherwise. Raft's handle tells only of calls to
/// a Raft that has ended, at every stop: why it ended is told by what ended it.
const USUAL: &str = "warn,node=info,tenured=info,openraft=error,openraft::raft::raft_inner=off";

/// Kept until the process ends.
#[derive(Debug)]
#[must_use = "what is left of the spans is sent when it is stopped"]
pub struct Logs {
    exporter: Option<Exporter>,
}

impl Logs {
    /// For the whole process, so once.
    ///
    /// # Errors
    /// When it was done before, or the export cannot be set up.
    pub fn start(format: LogFormat, spans: Option<&Endpoint>, node: NodeId) -> Result<Self, String> {
        // Colours are for people: a file or a journal gets the words alone.
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

    /// Sends what is left. Takes as long as the collector does, within limits.
    pub fn stop(self) {
        if let Some(exporter) = self.exporter {
            exporter.stop();
        }
    }
}
