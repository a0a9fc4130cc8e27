//! Restores a backup into the directory of a new cluster's first node: from a file, a pipe, or a stream of bytes.

use crate::replica::wall::wall_now;
use futures_util::{Stream, StreamExt};
use raft_store::restore::{self, RestoreError, Restored, Target};
use std::fmt;
use std::io::{self, Read};
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Received pieces that may wait to be written.
const WAITING: usize = 4;
/// Time between two progress lines of a long restore.
const LOGGED_EVERY: Duration = Duration::from_secs(5);

/// Restores from a reader. Blocks until it is done.
///
/// # Errors
/// When nothing was restored; the message says what to do.
pub fn from_reader(from: impl Read, target: &Target) -> Result<Restored, RestoreError> {
    restore::restore(LoggedReader::new(from), target, wall_now())
}

/// Restores from a stream, no faster than the disk writes it. If the future is dropped early, nothing is restored.
///
/// # Errors
/// When nothing was restored; the message says what to do.
pub async fn from_stream<S, B, E>(stream: S, target: Target) -> Result<Restored, RestoreError>
where
    S: Stream<Item = Result<B, E>>,
    B: AsRef<[u8]> + Send + 'static,
    E: fmt::Display,
{
    let (sender, receiver) = mpsc::channel(WAITING);
    let restoring =
        tokio::task::spawn_blocking(move || from_reader(Received { receiver, piece: None, used: 0 }, &target));
    let mut stream = pin!(stream);
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| io::Error::other(format!("the transfer of the backup failed: {error}")));
        let is_last = piece.is_err();
        // If the receiver is gone, the restore has failed and returns why.
        if sender.send(piece).await.is_err() || is_last {
            break;
        }
    }
    drop(sender);
    restoring.await.unwrap_or_else(|error| {
        Err(RestoreError::Disk { doing: "the restore did not finish", error: io::Error::other(error) })
    })
}

/// Reads what a stream has delivered; blocks for more.
struct Received<B> {
    receiver: mpsc::Receiver<io::Result<B>>,
    piece: Option<B>,
    /// Bytes of the piece that were read.
    used: usize,
}

impl<B: AsRef<[u8]>> Read for Received<B> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(piece) = &self.piece {
                let left = &piece.as_ref()[self.used..];
                if !left.is_empty() {
                    let count = left.len().min(target.len());
                    target[..count].copy_from_slice(&left[..count]);
                    self.used += count;
                    return Ok(count);
                }
            }
            match self.receiver.blocking_recv() {
                Some(piece) => (self.piece, self.used) = (Some(piece?), 0),
                None => return Ok(0),
            }
        }
    }
}

/// Logs the progress of a long restore.
struct LoggedReader<R> {
    from: R,
    bytes: u64,
    last: Instant,
}

impl<R> LoggedReader<R> {
    fn new(from: R) -> Self {
        Self { from, bytes: 0, last: Instant::now() }
    }
}

impl<R: Read> Read for LoggedReader<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(target)?;
        self.bytes += read as u64;
        if self.last.elapsed() >= LOGGED_EVERY {
            self.last = Instant::now();
            tracing::info!(megabytes = self.bytes >> 20, "restoring");
        }
        Ok(read)
    }
}
