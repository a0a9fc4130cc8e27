//! The receiver's side of a transfer.
//!
//! It trusts nothing: the order of frames is checked here, names, sizes and offsets by [`Incoming`], before a byte is
//! written; only a complete snapshot with every file sealed reaches Raft. At most one transfer writes at a time; a
//! transfer of a leader that is at least as new replaces the current one.

use crate::peers::connection::Connection;
use crate::peers::frame::FrameError;
use crate::peers::service::Service;
use crate::peers::wire::{CHUNK_BYTES_MAX, SnapshotAnswer, SnapshotFrame};
use openraft::Snapshot;
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::codec::records::{SnapshotMetaRecord, VoteRecord};
use raft_store::snapshot::{Incoming, SnapshotDir};
use raft_store::types::SnapshotMeta;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

/// Which transfer may write; shared by all connections of a node.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    current: Mutex<Current>,
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Current {
    transfers: u64,
    transfer: Option<(VoteRecord, CancellationToken)>,
}

impl Turn {
    /// Stops the current transfer, unless its leader is newer. Returns the number of this transfer.
    fn take_over(&self, vote: VoteRecord, stop: &CancellationToken) -> Result<u64, String> {
        let mut current = self.current();
        if let Some((other, writing)) = &current.transfer {
            if is_newer(*other, vote) {
                return Err("a newer leader is sending a snapshot".to_owned());
            }
            writing.cancel();
        }
        current.transfer = Some((vote, stop.clone()));
        current.transfers += 1;
        Ok(current.transfers)
    }

    /// Ends the transfer with this number.
    fn end(&self, transfer: u64) {
        let mut current = self.current();
        if current.transfers == transfer {
            current.transfer = None;
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_newer(vote: VoteRecord, than: VoteRecord) -> bool {
    (vote.term, vote.node) > (than.term, than.node)
}

/// Receives snapshots from this connection until it ends or the node stops.
pub(crate) async fn serve<S: Service>(
    service: &S,
    turn: &Turn,
    connection: &mut Connection,
    stop: &CancellationToken,
) -> Result<(), FrameError> {
    loop {
        let begin = tokio::select! {
            frame = connection.reader.next() => frame?,
            () = stop.cancelled() => return Ok(()),
        };
        let Some(begin) = begin else { return Ok(()) };
        let SnapshotFrame::Begin { vote, meta, files } = begin else {
            return fail(connection, "a transfer must start with a Begin frame").await;
        };
        let begun = Begun { vote, meta, files: files.into_iter().map(|file| (file.name, file.bytes)).collect() };
        let stop = stop.child_token();
        let received = match turn.take_over(vote, &stop) {
            Err(why) => Err(Broken::Failed(why)),
            Ok(transfer) => {
                let received = receive(service, turn, connection, &stop, begun).await;
                turn.end(transfer);
                received
            }
        };
        match received {
            Ok(vote) => connection.writer.send(&SnapshotAnswer::Installed { vote }).await?,
            Err(Broken::Frame(error)) => return Err(error),
            Err(Broken::Failed(why)) => return fail(connection, &why).await,
        }
    }
}

async fn fail(connection: &mut Connection, why: &str) -> Result<(), FrameError> {
    tracing::warn!("a snapshot was not accepted: {why}");
    connection.writer.send(&SnapshotAnswer::Failed { why: why.to_owned() }).await
}

/// The content that the sender announced.
struct Begun {
    vote: VoteRecord,
    meta: SnapshotMetaRecord,
    files: Vec<(String, u64)>,
}

/// Why a transfer failed.
enum Broken {
    Frame(FrameError),
    Failed(String),
}

impl Broken {
    fn stopped() -> Self {
        Self::Failed("another transfer replaced this one, or this node stops".to_owned())
    }
}

impl From<FrameError> for Broken {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

async fn receive<S: Service>(
    service: &S,
    turn: &Turn,
    connection: &mut Connection,
    stop: &CancellationToken,
    Begun { vote, meta, files }: Begun,
) -> Result<VoteRecord, Broken> {
    // Kept until it is installed: the next transfer clears the folder.
    let _writing = tokio::select! {
        writing = turn.writing.lock() => writing,
        () = stop.cancelled() => return Err(Broken::stopped()),
    };
    let raft = service.raft();
    let ours: VoteRecord = raft.metrics().borrow_watched().vote.into();
    if is_newer(ours, vote) {
        return Ok(ours);
    }
    // Raft would fail on a snapshot that no leader of this vote can have.
    if meta.last.is_some_and(|last| (last.term, last.node) > (vote.term, vote.node)) {
        return Err(Broken::Failed("the snapshot is from a later leadership than its sender's".to_owned()));
    }
    let raft_meta = SnapshotMeta::try_from(meta.clone()).map_err(|error| Broken::Failed(error.to_string()))?;
    let root = service.snapshot_root();
    let (incoming, files) = blocking(move || Ok((Incoming::begin(&root, &meta, &files)?, files.len()))).await?;
    let snapshot = write_files(incoming, files, connection, stop).await?;
    let snapshot = Snapshot { meta: raft_meta, snapshot };
    let response = raft.install_full_snapshot(vote.into(), snapshot).await;
    response.map(|response| response.vote.into()).map_err(|fatal| Broken::Failed(fatal.to_string()))
}

/// Receives everything between `Begin` and `End`.
async fn write_files(
    mut incoming: Incoming,
    files: usize,
    connection: &mut Connection,
    stop: &CancellationToken,
) -> Result<SnapshotDir, Broken> {
    let offsets: Vec<u64> = (0..files).map(|file| incoming.offset(file)).collect();
    connection.writer.send(&SnapshotAnswer::Offsets { offsets }).await?;

    let mut file = 0;
    loop {
        // Stops only here: a write that has begun finishes before another transfer may write.
        let frame = tokio::select! {
            frame = connection.reader.next() => frame?.ok_or(FrameError::Cut)?,
            () = stop.cancelled() => return Err(Broken::stopped()),
        };
        let answer = match frame {
            SnapshotFrame::Chunk { file: of, offset, bytes } => {
                if of as usize != file || bytes.0.is_empty() || bytes.0.len() > CHUNK_BYTES_MAX {
                    return Err(Broken::Failed("a chunk is out of order, empty or too large".to_owned()));
                }
                incoming = blocking(move || {
                    incoming.write(file, offset, &bytes.0)?;
                    Ok(incoming)
                })
                .await?;
                SnapshotAnswer::Written
            }
            SnapshotFrame::FileEnd { file: of, crc32c } => {
                if of as usize != file || file >= files {
                    return Err(Broken::Failed("the end of a file that was not started".to_owned()));
                }
                let is_whole;
                (incoming, is_whole) = blocking(move || {
                    let is_whole = incoming.seal(file, crc32c)?;
                    Ok((incoming, is_whole))
                })
                .await?;
                if is_whole {
                    file += 1;
                    SnapshotAnswer::Sealed
                } else {
                    SnapshotAnswer::Again
                }
            }
            SnapshotFrame::End if file == files => return blocking(move || incoming.finish()).await,
            SnapshotFrame::Begin { .. } | SnapshotFrame::End => {
                return Err(Broken::Failed("files are missing".to_owned()));
            }
        };
        connection.writer.send(&answer).await?;
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, Broken> {
    match spawn_blocking(work).await {
        Ok(result) => result.map_err(|error| Broken::Failed(error.to_string())),
        Err(error) => Err(Broken::Failed(error.to_string())),
    }
}
