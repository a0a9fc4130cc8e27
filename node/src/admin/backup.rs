//! Streams a backup of this node's state while the node serves.

use crate::peers::tokio_node::TokioNode;
use crate::replica::no_outcome::NoOutcome;
use futures_util::Stream;
use futures_util::stream::{self, BoxStream};
use raft_store::backup::Backup;
use raft_store::codec::records::BackupHeaderRecord;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Why there is no backup.
#[derive(Debug)]
pub enum BackupError {
    /// No leader confirmed how far the backup must reach.
    NoOutcome(NoOutcome),
    /// The maximum number of backups is running.
    Busy(String),
    Disk(io::Error),
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOutcome(no_outcome) => no_outcome.fmt(f),
            Self::Busy(why) => f.write_str(why),
            Self::Disk(error) => write!(f, "the backup cannot be taken: {error}"),
        }
    }
}

impl std::error::Error for BackupError {}

/// The bytes of a backup, read on demand. Dropping it deletes its files on disk.
pub struct BackupStream {
    header: BackupHeaderRecord,
    chunks: BoxStream<'static, io::Result<Vec<u8>>>,
}

impl BackupStream {
    /// The header of the backup.
    #[must_use]
    pub fn header(&self) -> &BackupHeaderRecord {
        &self.header
    }
}

impl fmt::Debug for BackupStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackupStream of entry {:?}", self.header.snapshot.last)
    }
}

impl Stream for BackupStream {
    type Item = io::Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.chunks.as_mut().poll_next(context)
    }
}

/// A backup of everything that was acknowledged, by any node, before the call. A stream that ends without its trailer
/// was cut off; a restore detects that.
///
/// # Errors
/// When no leader could be asked in time, two backups are running, or the disk failed.
pub async fn stream(node: &TokioNode, within: Duration) -> Result<BackupStream, BackupError> {
    node.read(within, |_, _| ()).await.map_err(BackupError::NoOutcome)?;
    let store = node.store().clone();
    let taking = tokio::task::spawn_blocking(move || store.backup(crate::replica::wall::wall_now()));
    let backup =
        taking.await.map_err(io::Error::other).and_then(|taken| taken).map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => BackupError::Busy(error.to_string()),
            _ => BackupError::Disk(error),
        })?;
    let header = backup.header().clone();
    tracing::info!(index = header.snapshot.last.map(|last| last.index), files = header.files.len(), "a backup begins");
    Ok(BackupStream { header, chunks: Box::pin(stream::unfold(Some(backup), next)) })
}

/// Reads the next chunk on a blocking thread, and only on demand: a slow receiver occupies no thread.
async fn next(backup: Option<Backup>) -> Option<(io::Result<Vec<u8>>, Option<Backup>)> {
    let mut backup = backup?;
    let reading = tokio::task::spawn_blocking(move || match backup.next_chunk() {
        Ok(Some(chunk)) => Some((Ok(chunk), Some(backup))),
        Ok(None) => None,
        Err(error) => Some((Err(error), None)),
    });
    reading.await.unwrap_or_else(|error| Some((Err(io::Error::other(error)), None)))
}
