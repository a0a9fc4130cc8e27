//! Passes a leader's append frames to Raft as they come, and returns the answers in order, while later frames are read.

use crate::peers::connection::{Connection, Reading, Writing};
use crate::peers::frame::{FrameError, FrameReader, FrameWriter};
use crate::peers::service::Service;
use crate::peers::wire::{AppendAnswer, AppendFrame, AppendResult};
use futures_util::future::FutureExt;
use futures_util::stream::{self, StreamExt};
use openraft::errors::Fatal;
use openraft::raft::{AppendEntriesRequest, StreamAppendError, StreamAppendResult};
use raft_store::codec::CodecError;
use raft_store::codec::records::EntryRecord;
use raft_store::types::{LogEntry, Types};
use std::pin::pin;
use tokio::sync::mpsc;

/// Frames that were read and that Raft has not accepted yet.
const READ_AHEAD: usize = 8;

/// One stream: its number, and its frames as they come.
struct Started<C: Types> {
    number: u64,
    requests: mpsc::Receiver<AppendEntriesRequest<C>>,
}

/// Runs until the connection ends. It may be dropped at any time.
pub(super) async fn serve<S: Service>(service: &S, connection: Connection) -> Result<(), FrameError> {
    let Connection { mut reader, mut writer } = connection;
    let (streams, mut started) = mpsc::channel(READ_AHEAD);
    tokio::select! {
        read = read(&mut reader, streams) => read,
        written = answer(service, &mut writer, &mut started) => written,
    }
}

async fn read<C: Types>(
    reader: &mut FrameReader<Reading>,
    streams: mpsc::Sender<Started<C>>,
) -> Result<(), FrameError> {
    let mut current: Option<(u64, mpsc::Sender<AppendEntriesRequest<C>>)> = None;
    while let Some(frame) = reader.next::<AppendFrame>().await? {
        let number = frame.stream;
        let request = request(frame)?;
        let requests = match &mut current {
            Some((of, requests)) if *of == number => requests,
            _ => {
                let (requests, received) = mpsc::channel(READ_AHEAD);
                if streams.send(Started { number, requests: received }).await.is_err() {
                    return Ok(());
                }
                // The previous stream ends here; its remaining answers are still sent.
                &mut current.insert((number, requests)).1
            }
        };
        // After an answer that ended its stream this fails; the sender then expects no answer.
        let _ = requests.send(request).await;
    }
    Ok(())
}

async fn answer<S: Service>(
    service: &S,
    writer: &mut FrameWriter<Writing>,
    started: &mut mpsc::Receiver<Started<S::Types>>,
) -> Result<(), FrameError> {
    while let Some(Started { number, requests }) = started.recv().await {
        let requests = stream::unfold(requests, |mut requests| async move { Some((requests.recv().await?, requests)) });
        // Fused, because it would panic if polled after its end.
        let mut answers = pin!(service.raft().stream_append(requests).fuse());
        while let Some(answer) = answers.next().await {
            writer.push(&AppendAnswer { stream: number, result: result(answer) })?;
            // Answers that are already there are sent together with it.
            while !writer.is_full()
                && let Some(Some(answer)) = answers.next().now_or_never()
            {
                writer.push(&AppendAnswer { stream: number, result: result(answer) })?;
            }
            writer.flush().await?;
        }
    }
    Ok(())
}

fn request<C: Types>(frame: AppendFrame) -> Result<AppendEntriesRequest<C>, CodecError> {
    let entry = |record: EntryRecord| LogEntry::try_from(record);
    Ok(AppendEntriesRequest {
        vote: frame.vote.into(),
        prev_log_id: frame.prev.map(Into::into),
        entries: frame.entries.into_iter().map(entry).collect::<Result<_, _>>()?,
        leader_commit: frame.commit.map(Into::into),
    })
}

fn result<C: Types>(answer: Result<StreamAppendResult<C>, Fatal<C>>) -> AppendResult {
    match answer {
        Ok(Ok(up_to)) => AppendResult::Appended { up_to: up_to.map(Into::into) },
        Ok(Err(StreamAppendError::Conflict(at))) => AppendResult::Conflict { at: at.into() },
        Ok(Err(StreamAppendError::HigherVote(vote))) => AppendResult::HigherVote { vote: vote.into() },
        Err(fatal) => AppendResult::Failed { why: fatal.to_string() },
    }
}
