//! From spans to what a collector takes: gathered, bounded, sent by a thread of its own.

use super::Endpoint;
use super::collector::Collector;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use raft_store::types::NodeId;
use std::time::Duration;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

/// Spans that may wait to be sent. Beyond it they are dropped.
const QUEUE: usize = 4_096;
/// Sent together.
const BATCH: usize = 512;
const SEND_EVERY: Duration = Duration::from_secs(2);
const SENT_WITHIN: Duration = Duration::from_secs(5);
/// For what is left when the node stops.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// Sends spans while it lives; what is left is sent by [`Exporter::stop`].
#[derive(Debug)]
pub struct Exporter {
    provider: SdkTracerProvider,
}

impl Exporter {
    /// # Errors
    /// When the settings do not fit together. Whether the collector is there is not looked at.
    pub fn start(endpoint: &Endpoint, node: NodeId) -> Result<Self, String> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(endpoint.clone()))
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("http://{}{}", endpoint.authority(), endpoint.path))
            .with_timeout(SENT_WITHIN)
            // Those behind wait meanwhile, and have a bound.
            .with_retry_policy(RetryPolicy::default().with_max_retries(1))
            .build()
            .map_err(|error| format!("spans cannot be exported: {error}"))?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(SEND_EVERY)
            .build();
        let resource = Resource::builder()
            .with_service_name("tenured")
            .with_attributes([
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::new("service.instance.id", node.to_string()),
            ])
            .build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let provider = SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource).build();
        Ok(Self { provider })
    }

    /// Takes up the spans of whoever it is added to.
    pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> impl Layer<S> + use<S> {
        let tracer = self.provider.tracer("tenured");
        // Where in the code a span was made, and by which thread, is nobody's question here.
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
    }

    /// Sends what is left, if the collector takes it in time.
    pub fn stop(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(STOP_WITHIN) {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}
