//! Streams of append frames over one connection: frames go out as they come, answers come back in order.
//!
//! One task owns the connection, so that a dropped stream leaves no partial frame and the next stream can use the
//! connection. Unanswered frames are limited in number and in bytes. An answer is never matched to a frame of another
//! stream: each carries the number of its stream.

use super::PeerError;
use super::connection::{Connection, Reading, Writing};
use super::frame::{FrameReader, FrameWriter};
use super::wire::{AppendAnswer, AppendFrame, AppendResult};
use raft_store::codec::records::{EntryRecord, PayloadRecord};
use std::collections::VecDeque;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Frames that were sent and are unanswered.
pub(crate) const WINDOW_FRAMES: usize = 64;
/// Bytes of their entries; one frame may be larger.
const WINDOW_BYTES: usize = 16 * 1024 * 1024;

pub(crate) struct AppendLink {
    frames: mpsc::Sender<AppendFrame>,
    answers: mpsc::Receiver<Result<AppendAnswer, PeerError>>,
    /// Unanswered frames, oldest first, of this stream and of earlier ones.
    sent: VecDeque<UnansweredFrame>,
    sent_bytes: usize,
    stream: u64,
    /// When the last answer came, or the first unanswered frame was sent.
    progress: Instant,
    _task: AbortOnDropHandle<()>,
}

struct UnansweredFrame {
    stream: u64,
    bytes: usize,
}

impl AppendLink {
    pub(crate) fn new(connection: Connection) -> Self {
        // Large enough for all frames that may be unanswered, so neither side ever waits for the other.
        let (frames, to_send) = mpsc::channel(WINDOW_FRAMES);
        let (answered, answers) = mpsc::channel(WINDOW_FRAMES + 1);
        let task = AbortOnDropHandle::new(tokio::spawn(run(connection, to_send, answered)));
        Self { frames, answers, sent: VecDeque::new(), sent_bytes: 0, stream: 0, progress: Instant::now(), _task: task }
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.frames.is_closed()
    }

    /// Begins the next stream; answers to earlier streams are dropped from here on.
    pub(crate) fn begin(&mut self) {
        self.stream += 1;
    }

    pub(crate) fn has_room(&self) -> bool {
        self.sent.len() < WINDOW_FRAMES && self.sent_bytes < WINDOW_BYTES
    }

    pub(crate) fn progress(&self) -> Instant {
        self.progress
    }

    /// Passes a frame of the current stream to the connection. Requires [`Self::has_room`].
    pub(crate) fn send(&mut self, mut frame: AppendFrame) -> Result<(), PeerError> {
        frame.stream = self.stream;
        let bytes = frame.entries.iter().map(entry_bytes).sum();
        if self.sent.is_empty() {
            self.progress = Instant::now();
        }
        self.frames.try_send(frame).map_err(|error| PeerError::lost(error.to_string()))?;
        self.sent.push_back(UnansweredFrame { stream: self.stream, bytes });
        self.sent_bytes += bytes;
        Ok(())
    }

    /// The next answer; None if it is to a frame of an earlier stream. Safe to drop and to call again.
    pub(crate) async fn answer(&mut self) -> Result<Option<AppendResult>, PeerError> {
        let answer = self.answers.recv().await.unwrap_or_else(|| Err(PeerError::lost("its task has ended")))?;
        self.settle(&answer)?;
        Ok((answer.stream == self.stream).then_some(answer.result))
    }

    /// Removes the frame that this answer is for, and frames that can get no answer any more.
    fn settle(&mut self, answer: &AppendAnswer) -> Result<(), PeerError> {
        self.progress = Instant::now();
        let is_end = !matches!(answer.result, AppendResult::Appended { .. });
        let mut settled = false;
        while let Some(first) = self.sent.front() {
            if first.stream > answer.stream || (first.stream == answer.stream && settled && !is_end) {
                break;
            }
            settled |= first.stream == answer.stream;
            self.sent_bytes -= first.bytes;
            self.sent.pop_front();
        }
        if settled { Ok(()) } else { Err(PeerError::lost("an answer to a frame that was not sent")) }
    }
}

/// Its approximate size in a frame.
fn entry_bytes(entry: &EntryRecord) -> usize {
    64 + match &entry.payload {
        PayloadRecord::Lease(blob) => blob.0.len(),
        PayloadRecord::Blank | PayloadRecord::Membership(_) => 0,
    }
}

/// Runs until the connection is lost, and sends that error last.
async fn run(
    connection: Connection,
    mut frames: mpsc::Receiver<AppendFrame>,
    answers: mpsc::Sender<Result<AppendAnswer, PeerError>>,
) {
    let Connection { mut reader, mut writer } = connection;
    let error = tokio::select! {
        error = write(&mut writer, &mut frames) => error,
        error = read(&mut reader, &answers) => error,
    };
    frames.close();
    let _ = answers.send(Err(error)).await;
}

async fn write(writer: &mut FrameWriter<Writing>, frames: &mut mpsc::Receiver<AppendFrame>) -> PeerError {
    while let Some(frame) = frames.recv().await {
        let mut pushed = writer.push(&frame);
        while pushed.is_ok()
            && !writer.is_full()
            && let Ok(frame) = frames.try_recv()
        {
            pushed = writer.push(&frame);
        }
        if let Err(error) = writer.flush().await {
            return PeerError::lost(error);
        }
        if let Err(error) = pushed {
            // The log must not return this much at once: a retry would fail again.
            tracing::error!("entries do not fit into a frame: {error}");
            return PeerError::Refused { why: error.to_string() };
        }
    }
    PeerError::lost("this node's transport has stopped")
}

async fn read(reader: &mut FrameReader<Reading>, answers: &mpsc::Sender<Result<AppendAnswer, PeerError>>) -> PeerError {
    loop {
        match reader.next::<AppendAnswer>().await {
            Ok(Some(answer)) => {
                if answers.send(Ok(answer)).await.is_err() {
                    return PeerError::lost("this node's transport has stopped");
                }
            }
            Ok(None) => return PeerError::lost("the peer closed the connection"),
            Err(error) => {
                if error.is_rubbish() {
                    tracing::warn!("a connection for entries was closed: {error}");
                }
                return PeerError::lost(error);
            }
        }
    }
}
