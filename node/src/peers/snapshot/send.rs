//! The leader's side of a transfer.
//!
//! A separate thread reads the files, a little ahead of sending. Only a file that arrived damaged is retried here.

use crate::peers::PeerError;
use crate::peers::connection::Connection;
use crate::peers::frame::FrameError;
use crate::peers::wire::{CHUNK_BYTES_MAX, SnapshotAnswer, SnapshotFile, SnapshotFrame};
use raft_store::codec::records::{Blob, SnapshotMetaRecord, VoteRecord};
use raft_store::snapshot::SnapshotDir;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Maximum number of sent, unacknowledged chunks.
const WINDOW_CHUNKS: usize = 8;
/// Maximum number of chunks that were read and are not sent yet.
const READ_AHEAD: usize = 2;
/// How often one file is sent: a second time if an earlier transfer left damaged data, a third time to be safe.
const TRIES: usize = 3;

/// Sends the snapshot and waits until it is installed. Returns the receiver's vote, a higher one if it refuses.
/// `limit` is the maximum time without any answer, not the total.
pub(crate) async fn send(
    connection: Connection,
    vote: VoteRecord,
    meta: SnapshotMetaRecord,
    snapshot: SnapshotDir,
    limit: Duration,
) -> Result<VoteRecord, PeerError> {
    let listed = snapshot.clone();
    let files = match spawn_blocking(move || listed.files()).await {
        Ok(Ok(files)) => files.into_iter().map(|(name, bytes)| SnapshotFile { name, bytes }).collect::<Vec<_>>(),
        Ok(Err(error)) => return Err(PeerError::unreachable(format_args!("listing the snapshot: {error}"))),
        Err(error) => return Err(PeerError::unreachable(format_args!("listing the snapshot: {error}"))),
    };
    let mut sending = Sending { connection, snapshot, limit };
    sending.tell(&SnapshotFrame::Begin { vote, meta, files: files.clone() }).await?;
    let offsets = match sending.hear().await? {
        SnapshotAnswer::Offsets { offsets } if offsets.len() == files.len() => offsets,
        SnapshotAnswer::Installed { vote } => return Ok(vote),
        other => return Err(unexpected(&other)),
    };
    for (number, (file, offset)) in (0..).zip(files.iter().zip(offsets)) {
        sending.file(number, file, offset).await?;
    }
    sending.tell(&SnapshotFrame::End).await?;
    match sending.hear().await? {
        SnapshotAnswer::Installed { vote } => Ok(vote),
        other => Err(unexpected(&other)),
    }
}

struct Sending {
    connection: Connection,
    snapshot: SnapshotDir,
    limit: Duration,
}

impl Sending {
    async fn file(&mut self, number: u32, file: &SnapshotFile, mut offset: u64) -> Result<(), PeerError> {
        if offset > file.bytes {
            return Err(PeerError::Refused {
                why: format!("the receiver claims more bytes of {} than exist", file.name),
            });
        }
        for _ in 0..TRIES {
            let crc32c = self.chunks(number, file, offset).await?;
            self.tell(&SnapshotFrame::FileEnd { file: number, crc32c }).await?;
            match self.hear().await? {
                SnapshotAnswer::Sealed => return Ok(()),
                SnapshotAnswer::Again => offset = 0,
                other => return Err(unexpected(&other)),
            }
        }
        Err(PeerError::Refused { why: format!("{} arrived damaged {TRIES} times", file.name) })
    }

    /// Sends a file from the offset on, and waits until all of it is acknowledged. Returns the checksum of the whole
    /// file.
    async fn chunks(&mut self, number: u32, file: &SnapshotFile, from: u64) -> Result<u32, PeerError> {
        let (pieces, mut read) = mpsc::channel(READ_AHEAD);
        let (snapshot, SnapshotFile { name, bytes }) = (self.snapshot.clone(), file.clone());
        // The thread ends by itself: at the end of the file, or when the receiver of its pieces is dropped.
        spawn_blocking(move || {
            if let Err(error) = read_pieces(&snapshot, &name, bytes, from, &pieces) {
                let _ = pieces.blocking_send(Err(error));
            }
        });
        let mut unacknowledged = 0;
        let mut crc = None;
        while let Some(piece) = read.recv().await {
            match piece.map_err(|error| PeerError::unreachable(format_args!("reading {}: {error}", file.name)))? {
                Piece::Chunk { offset, bytes } => {
                    self.tell(&SnapshotFrame::Chunk { file: number, offset, bytes: Blob(bytes) }).await?;
                    unacknowledged += 1;
                }
                Piece::End { crc32c } => crc = Some(crc32c),
            }
            while unacknowledged >= WINDOW_CHUNKS || (unacknowledged > 0 && crc.is_some()) {
                match self.hear().await? {
                    SnapshotAnswer::Written => unacknowledged -= 1,
                    other => return Err(unexpected(&other)),
                }
            }
        }
        crc.ok_or_else(|| PeerError::unreachable(format_args!("reading {}: its thread has ended", file.name)))
    }

    async fn tell(&mut self, frame: &SnapshotFrame) -> Result<(), PeerError> {
        match timeout(self.limit, self.connection.writer.send(frame)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(FrameError::Rubbish(error))) => Err(PeerError::Refused { why: error.to_string() }),
            // The receiver may have sent the reason before it closed the connection.
            Ok(Err(error)) => match self.hear().await {
                Ok(SnapshotAnswer::Failed { why }) => Err(PeerError::Refused { why }),
                _ => Err(PeerError::lost(error)),
            },
            Err(_) => Err(PeerError::TimedOut { limit: self.limit }),
        }
    }

    async fn hear(&mut self) -> Result<SnapshotAnswer, PeerError> {
        match timeout(self.limit, self.connection.reader.next()).await {
            Ok(Ok(Some(answer))) => Ok(answer),
            Ok(Ok(None)) => Err(PeerError::lost("the peer closed the connection")),
            Ok(Err(error)) => Err(PeerError::lost(error)),
            Err(_) => Err(PeerError::TimedOut { limit: self.limit }),
        }
    }
}

fn unexpected(answer: &SnapshotAnswer) -> PeerError {
    match answer {
        SnapshotAnswer::Failed { why } => PeerError::Refused { why: why.clone() },
        other => PeerError::lost(format_args!("unexpected answer: {other:?}")),
    }
}

enum Piece {
    Chunk { offset: u64, bytes: Arc<[u8]> },
    End { crc32c: u32 },
}

fn read_pieces(
    snapshot: &SnapshotDir,
    name: &str,
    size: u64,
    from: u64,
    pieces: &mpsc::Sender<io::Result<Piece>>,
) -> io::Result<()> {
    let mut file = snapshot.open_file(name)?;
    let mut buffer = vec![0; CHUNK_BYTES_MAX];
    let (mut offset, mut crc32c) = (0, 0);
    while offset < size {
        // The part that the receiver already has is read only for the checksum.
        let end = if offset < from { from } else { size };
        let wanted = usize::try_from(end - offset).unwrap_or(usize::MAX).min(buffer.len());
        let chunk = &mut buffer[..wanted];
        file.read_exact(chunk)?;
        crc32c = crc32c::crc32c_append(crc32c, chunk);
        if offset >= from && pieces.blocking_send(Ok(Piece::Chunk { offset, bytes: Arc::from(&*chunk) })).is_err() {
            return Ok(());
        }
        offset += wanted as u64;
    }
    let _ = pieces.blocking_send(Ok(Piece::End { crc32c }));
    Ok(())
}
