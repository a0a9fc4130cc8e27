//! The thread that sends spans: it gathers ended spans for a while and sends them in one request.

use super::collector::Collector;
use super::message::{self, Ended};
use super::{Endpoint, Spans};
use raft_store::types::NodeId;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

/// Spans that may wait to be sent. Further ones are dropped.
const QUEUE: usize = 4_096;
/// Spans sent in one request.
const BATCH: usize = 512;
const SEND_EVERY: Duration = Duration::from_secs(2);
/// How often the thread checks whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Limit for sending the remaining spans when the node stops.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// Sends spans while it lives; [`Exporter::stop`] sends the remaining ones.
#[derive(Debug)]
pub struct Exporter {
    queue: SyncSender<Ended>,
    /// Dropped to stop the thread.
    running: SyncSender<()>,
    /// Closed by the thread when it has ended.
    ended: Receiver<()>,
}

impl Exporter {
    /// # Errors
    /// When the thread cannot be started. The collector is not contacted here.
    pub fn start(endpoint: &Endpoint, node: NodeId) -> io::Result<Self> {
        let (queue, spans) = mpsc::sync_channel(QUEUE);
        let (running, stop) = mpsc::sync_channel(0);
        let (ending, ended) = mpsc::sync_channel(0);
        let sender = Sender { spans, stop, collector: Collector::new(endpoint.clone()), node };
        std::thread::Builder::new().name("otlp".into()).spawn(move || {
            sender.run();
            drop(ending);
        })?;
        Ok(Self { queue, running, ended })
    }

    /// The layer that collects the spans of a subscriber.
    #[must_use]
    pub fn layer(&self) -> Spans {
        Spans::new(self.queue.clone())
    }

    /// Sends the remaining spans, if the collector accepts them in time. A thread that still waits for the collector
    /// then ends with the process.
    pub fn stop(self) {
        drop(self.running);
        if self.ended.recv_timeout(STOP_WITHIN) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the last spans were not exported");
        }
    }
}

struct Sender {
    spans: Receiver<Ended>,
    stop: Receiver<()>,
    collector: Collector,
    node: NodeId,
}

impl Sender {
    fn run(self) {
        let mut batch = Vec::new();
        let mut send_at = Instant::now() + SEND_EVERY;
        while !self.is_stopped() {
            match self.spans.recv_timeout(LOOK_EVERY) {
                Ok(span) => batch.push(span),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if batch.len() >= BATCH || Instant::now() >= send_at {
                self.send(&mut batch);
                send_at = Instant::now() + SEND_EVERY;
            }
        }
        let by = Instant::now() + STOP_WITHIN;
        while Instant::now() < by {
            batch.extend(self.spans.try_iter().take(BATCH));
            if batch.is_empty() || !self.send(&mut batch) {
                return;
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.try_recv() == Err(mpsc::TryRecvError::Disconnected)
    }

    /// Sends the batch and clears it in any case. Returns false if the collector did not accept it.
    fn send(&self, batch: &mut Vec<Ended>) -> bool {
        if batch.is_empty() {
            return true;
        }
        let is_taken = self.collector.take(&message::request(self.node, batch));
        batch.clear();
        is_taken
    }
}
