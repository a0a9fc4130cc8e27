//! A backup: the whole state as one stream of bytes that describes its content and shows whether it is complete.
//!
//! ```text
//! BackupHeaderRecord    whose it is, what it holds, its files by name and length
//! BackupChunkRecord…    the bytes of the files, in the header's order
//! BackupTrailerRecord   how many bytes came before it, and their checksum
//! ```
//!
//! Each record has an envelope with its own checksum, so damage is found before anything after it is read. Writing and
//! reading need the memory of one chunk, however large the state is.

pub use crate::backup_slots::AT_ONCE;
use crate::backup_slots::BackupSlot;
use crate::codec::records::{BackupChunkRecord, BackupHeaderRecord, BackupTrailerRecord, Blob};
use crate::codec::{self, HEADER_BYTES, Header, Kind};
use crate::directory::sync_folder;
use crate::snapshot::{SnapshotDir, check_name, invalid};
use crate::state::StateStore;
use crate::state::rocks::RocksDisk;
use lease::numbers::Wall;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;

pub const FORMAT: u16 = 1;
/// Bytes of a file in one record.
pub const CHUNK_BYTES: usize = 512 * 1024;
/// The size of a chunk with its envelope.
const RECORD_BYTES_MAX: usize = CHUNK_BYTES + 64;

/// A backup that is being sent. Its files stay on disk until this is dropped.
#[derive(Debug)]
pub struct Backup {
    header: BackupHeaderRecord,
    folder: SnapshotDir,
    next: Next,
    bytes: u64,
    crc: u32,
    /// Dropped after the folder: the slot becomes free when the files are gone.
    _slot: BackupSlot,
}

#[derive(Debug)]
enum Next {
    Header,
    Chunk { file: usize, offset: u64, open: Option<File> },
    Nothing,
}

impl StateStore<RocksDisk> {
    /// Starts a backup of everything that is applied now. Blocks while the state is flushed; entries are applied
    /// meanwhile.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] when [`AT_ONCE`] backups are running, or any error of the disk.
    pub fn backup(&self, wall: Wall) -> io::Result<Backup> {
        let slot = self.disk().backup_slots().take()?;
        // Read before the checkpoint, so the checkpoint never holds a state of earlier rules than stated here.
        let rules_version = self.read(|state, _| state.rules_version())?;
        let alone = self.alone();
        let (applied, folder) = self.disk().take_backup()?;
        drop(alone);
        let identity = self.disk().identity();
        let header = BackupHeaderRecord {
            format: FORMAT,
            cluster: identity.cluster,
            node: identity.node,
            salt: identity.salt,
            snapshot: applied.snapshot_meta(),
            hash: applied.hash,
            rules_version,
            wall,
            files: folder.files()?.into_iter().filter(|(name, _)| is_of_the_state(name)).collect(),
        };
        Ok(Backup { header, folder, next: Next::Header, bytes: 0, crc: 0, _slot: slot })
    }
}

/// RocksDB's info log and lock file belong to its process, not to the state.
fn is_of_the_state(name: &str) -> bool {
    !name.starts_with("LOG") && name != "LOCK"
}

impl Backup {
    #[must_use]
    pub fn header(&self) -> &BackupHeaderRecord {
        &self.header
    }

    /// Returns the next bytes of the stream, or `None` at its end. Blocks while it reads a file.
    ///
    /// # Errors
    /// When the disk fails. The stream then ends early, and the reader detects that it was cut off.
    pub fn next_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let bytes = match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Nothing => return Ok(None),
            Next::Header => {
                self.next = Next::Chunk { file: 0, offset: 0, open: None };
                codec::encode(&self.header)?
            }
            Next::Chunk { mut file, mut offset, mut open } => {
                while self.header.files.get(file).is_some_and(|(_, length)| offset == *length) {
                    (file, offset, open) = (file + 1, 0, None);
                }
                let Some((name, length)) = self.header.files.get(file) else {
                    return Ok(Some(codec::encode(&BackupTrailerRecord { bytes: self.bytes, crc: self.crc })?));
                };
                let mut source = match open {
                    Some(source) => source,
                    None => self.folder.open_file(name)?,
                };
                let wanted = usize::try_from(length - offset).unwrap_or(usize::MAX).min(CHUNK_BYTES);
                let mut bytes = vec![0; wanted];
                source.read_exact(&mut bytes)?;
                let number = u32::try_from(file).map_err(|_| invalid("too many files".into()))?;
                let chunk = BackupChunkRecord { file: number, offset, bytes: Blob(bytes.into()) };
                self.next = Next::Chunk { file, offset: offset + wanted as u64, open: Some(source) };
                codec::encode(&chunk)?
            }
        };
        self.crc = crc32c::crc32c_append(self.crc, &bytes);
        self.bytes += bytes.len() as u64;
        Ok(Some(bytes))
    }
}

/// A backup that is being received.
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    header: BackupHeaderRecord,
    /// The next part of a backup.
    file: usize,
    offset: u64,
}

/// Bytes of one file, which follow the bytes before.
#[derive(Debug)]
pub struct Piece {
    /// The file's index in the header's list.
    pub file: usize,
    pub bytes: Blob,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// When the bytes are not the beginning of a backup that this build can read.
    pub fn new(from: R) -> io::Result<Self> {
        let mut source = Source { from, bytes: 0, crc: 0 };
        let (envelope, payload) = source.record(codec::PAYLOAD_BYTES_MAX)?;
        let header: BackupHeaderRecord = source.open(&envelope, &payload)?;
        if header.format != FORMAT {
            let found = header.format;
            return Err(invalid(format!(
                "the backup has format {found}, but this build knows only {FORMAT}: use a later build"
            )));
        }
        let mut names = BTreeSet::new();
        for (name, _) in &header.files {
            check_name(name)?;
            if !names.insert(name) {
                return Err(source.damaged(&format!("the file {name} is listed more than once")));
            }
        }
        let mut reader = Self { source, header, file: 0, offset: 0 };
        reader.skip_whole();
        Ok(reader)
    }

    #[must_use]
    pub fn header(&self) -> &BackupHeaderRecord {
        &self.header
    }

    /// Returns the next piece of a file, or `None` when the backup ended and was complete.
    ///
    /// # Errors
    /// When the backup is damaged or cut off, or the source fails.
    pub fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        let before = BackupTrailerRecord { bytes: self.source.bytes, crc: self.source.crc };
        let (envelope, payload) = self.source.record(RECORD_BYTES_MAX)?;
        if envelope.kind == BackupTrailerRecord::KIND {
            let trailer: BackupTrailerRecord = self.source.open(&envelope, &payload)?;
            if let Some((name, _)) = self.header.files.get(self.file) {
                return Err(self.source.damaged(&format!("the file {name} is incomplete")));
            }
            if trailer != before {
                return Err(self.source.damaged("its parts are complete, but do not belong together"));
            }
            self.source.ends()?;
            return Ok(None);
        }
        let chunk: BackupChunkRecord = self.source.open(&envelope, &payload)?;
        let file = self.file;
        let Some((_, length)) = self.header.files.get(file) else {
            return Err(self.source.damaged("it has more data than its header states"));
        };
        let is_next = chunk.file as usize == file && chunk.offset == self.offset && !chunk.bytes.0.is_empty();
        let end = self.offset.saturating_add(chunk.bytes.0.len() as u64);
        if !is_next || end > *length {
            return Err(self.source.damaged("a piece does not follow the piece before it"));
        }
        self.offset = end;
        self.skip_whole();
        Ok(Some(Piece { file, bytes: chunk.bytes }))
    }

    /// Writes all files into an empty folder and syncs them.
    ///
    /// # Errors
    /// The errors of [`Reader::next_piece`], and when the folder cannot be written.
    pub fn unpack(&mut self, folder: &Path) -> io::Result<()> {
        // An empty file has no piece, so it is created here.
        for (name, _) in self.header.files.iter().filter(|(_, length)| *length == 0) {
            File::create_new(folder.join(name))?.sync_all()?;
        }
        let mut open: Option<(usize, File)> = None;
        while let Some(piece) = self.next_piece()? {
            let mut target = match open.take() {
                Some((file, target)) if file == piece.file => target,
                before => {
                    before.map_or(Ok(()), |(_, whole)| whole.sync_all())?;
                    File::create_new(folder.join(&self.header.files[piece.file].0))?
                }
            };
            target.write_all(&piece.bytes.0)?;
            open = Some((piece.file, target));
        }
        open.map_or(Ok(()), |(_, whole)| whole.sync_all())?;
        sync_folder(folder)
    }

    fn skip_whole(&mut self) {
        while self.header.files.get(self.file).is_some_and(|(_, length)| self.offset == *length) {
            (self.file, self.offset) = (self.file + 1, 0);
        }
    }
}

/// The source of a backup, with the number and checksum of the bytes read so far.
struct Source<R> {
    from: R,
    bytes: u64,
    crc: u32,
}

impl<R> fmt::Debug for Source<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of a backup", self.bytes)
    }
}

impl<R: Read> Source<R> {
    fn record(&mut self, max: usize) -> io::Result<(Header, Vec<u8>)> {
        let mut envelope = [0; HEADER_BYTES];
        self.fill(&mut envelope)?;
        let header = Header::read(&envelope, max).map_err(|error| self.damaged(&error.to_string()))?;
        let mut payload = vec![0; header.length];
        self.fill(&mut payload)?;
        Ok((header, payload))
    }

    fn open<T: Kind>(&self, envelope: &Header, payload: &[u8]) -> io::Result<T> {
        envelope.open(payload).map_err(|error| self.damaged(&error.to_string()))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.from.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => invalid(format!("the backup is cut off: it ends at byte {}", self.bytes)),
            _ => error,
        })?;
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn ends(&mut self) -> io::Result<()> {
        match self.from.read_exact(&mut [0]) {
            Ok(()) => Err(self.damaged("it has more bytes after its end")),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn damaged(&self, why: &str) -> io::Error {
        invalid(format!("the backup is damaged before byte {}: {why}", self.bytes))
    }
}
