//! A backup: the whole state as one stream of bytes that says itself what it is, and whether it is whole.
//!
//! ```text
//! BackupHeaderRecord    whose it is, what it holds, its files by name and length
//! BackupChunkRecord…    the bytes of the files, in the header's order
//! BackupTrailerRecord   how many bytes came before it, and their checksum
//! ```
//!
//! Each record stands in its envelope, which has a checksum of its own: damage is found where it is, before anything
//! behind it is read. Writing and reading take the memory of one chunk, however large the state is.

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
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub const FORMAT: u16 = 1;
/// Of a file's bytes, what one record holds.
pub const CHUNK_BYTES: usize = 512 * 1024;
/// A chunk with what stands around its bytes.
const RECORD_BYTES_MAX: usize = CHUNK_BYTES + 64;
/// Each keeps files on disk that compaction would have dropped, and the disk busy.
pub const AT_ONCE: usize = 2;

/// A backup on its way out. Its files stay on disk as long as this does.
#[derive(Debug)]
pub struct Backup {
    header: BackupHeaderRecord,
    folder: SnapshotDir,
    next: Next,
    bytes: u64,
    crc: u32,
    /// Behind the folder: the place is free when the files are gone.
    _place: Place,
}

#[derive(Debug)]
enum Next {
    Header,
    Chunk { file: usize, offset: u64, open: Option<File> },
    Nothing,
}

impl StateStore<RocksDisk> {
    /// Everything that is applied now. Blocks for as long as the state takes to be flushed; entries are applied
    /// meanwhile.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] when [`AT_ONCE`] are under way; else when the disk fails.
    pub fn backup(&self, wall: Wall) -> io::Result<Backup> {
        let place = self.disk().backup_places().take()?;
        // Before the checkpoint: what it holds is never of earlier rules than said here.
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
        Ok(Backup { header, folder, next: Next::Header, bytes: 0, crc: 0, _place: place })
    }
}

/// RocksDB's diary and lock are its process's, not the state's.
fn is_of_the_state(name: &str) -> bool {
    !name.starts_with("LOG") && name != "LOCK"
}

impl Backup {
    #[must_use]
    pub fn header(&self) -> &BackupHeaderRecord {
        &self.header
    }

    /// The next bytes of the stream; none when all were given. Blocks while it reads a file.
    ///
    /// # Errors
    /// When the disk fails: the stream ends there, and whoever reads it finds that it was cut off.
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

/// How many backups of one state are under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Arc<AtomicUsize>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Place(Places);

impl Places {
    pub(crate) fn take(&self) -> io::Result<Place> {
        let taken = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < AT_ONCE).then_some(n + 1));
        match taken {
            Ok(_) => Ok(Place(self.clone())),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!(
                    "{AT_ONCE} backups of this node are under way: ask again when one of them has ended, or another node"
                ),
            )),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A backup on its way in.
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    header: BackupHeaderRecord,
    /// What comes next.
    file: usize,
    offset: u64,
}

/// Bytes of one file, that follow those before.
#[derive(Debug)]
pub struct Piece {
    /// Its place in the header's list.
    pub file: usize,
    pub bytes: Blob,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// When the bytes do not begin a backup that this build reads.
    pub fn new(from: R) -> io::Result<Self> {
        let mut source = Source { from, bytes: 0, crc: 0 };
        let (envelope, payload) = source.record(codec::PAYLOAD_BYTES_MAX)?;
        let header: BackupHeaderRecord = source.open(&envelope, &payload)?;
        if header.format != FORMAT {
            let found = header.format;
            return Err(invalid(format!("a backup of format {found}, this build knows {FORMAT}: use a later build")));
        }
        let mut names = BTreeSet::new();
        for (name, _) in &header.files {
            check_name(name)?;
            if !names.insert(name) {
                return Err(source.damaged(&format!("the file {name} twice")));
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

    /// The next piece of a file; none when the backup ended, and was whole.
    ///
    /// # Errors
    /// When it is damaged or cut off, or the source fails.
    pub fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        let before = BackupTrailerRecord { bytes: self.source.bytes, crc: self.source.crc };
        let (envelope, payload) = self.source.record(RECORD_BYTES_MAX)?;
        if envelope.kind == BackupTrailerRecord::KIND {
            let trailer: BackupTrailerRecord = self.source.open(&envelope, &payload)?;
            if let Some((name, _)) = self.header.files.get(self.file) {
                return Err(self.source.damaged(&format!("{name} is not whole")));
            }
            if trailer != before {
                return Err(self.source.damaged("its parts are whole, but do not belong together"));
            }
            self.source.ends()?;
            return Ok(None);
        }
        let chunk: BackupChunkRecord = self.source.open(&envelope, &payload)?;
        let file = self.file;
        let Some((_, length)) = self.header.files.get(file) else {
            return Err(self.source.damaged("more than its header says"));
        };
        let is_next = chunk.file as usize == file && chunk.offset == self.offset && !chunk.bytes.0.is_empty();
        let end = self.offset.saturating_add(chunk.bytes.0.len() as u64);
        if !is_next || end > *length {
            return Err(self.source.damaged("a piece that does not follow the one before"));
        }
        self.offset = end;
        self.skip_whole();
        Ok(Some(Piece { file, bytes: chunk.bytes }))
    }

    /// Writes all files into an empty folder and makes them durable.
    ///
    /// # Errors
    /// As [`Reader::next_piece`], and when the folder cannot be written.
    pub fn unpack(&mut self, folder: &Path) -> io::Result<()> {
        // One of no bytes has no piece.
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

/// Where a backup comes from, and what came from there so far.
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
            io::ErrorKind::UnexpectedEof => {
                invalid(format!("the backup is cut off: it goes no further than byte {}", self.bytes))
            }
            _ => error,
        })?;
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn ends(&mut self) -> io::Result<()> {
        match self.from.read_exact(&mut [0]) {
            Ok(()) => Err(self.damaged("more bytes behind its end")),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn damaged(&self, why: &str) -> io::Error {
        invalid(format!("the backup is damaged before byte {}: {why}", self.bytes))
    }
}
