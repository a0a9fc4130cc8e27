//! Snapshots: a finished one is a checkpoint of the state in its own folder; another one may be arriving from another
//! node.

use crate::codec;
use crate::codec::records::SnapshotMetaRecord;
use crate::directory::{make_folder, sync_folder, write_durably};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The content of the snapshot, stored next to its files.
const META: &str = "SNAPSHOT";

/// A finished snapshot. Its folder is kept while anyone reads from it.
#[derive(Clone, Debug)]
pub struct SnapshotDir(Arc<Folder>);

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// A newer snapshot has replaced this one.
    is_superseded: AtomicBool,
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_superseded.load(Ordering::Acquire) {
            // If this fails, the next start removes the folder.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl SnapshotDir {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(Arc::new(Folder { path, is_superseded: AtomicBool::new(false) }))
    }

    /// Adds the record that makes a folder of files a snapshot.
    pub(crate) fn complete(path: PathBuf, meta: &SnapshotMetaRecord) -> io::Result<Self> {
        write_durably(&path.join(META), &codec::encode(meta)?)?;
        Ok(Self::at(path))
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// # Errors
    /// When the folder is not a complete snapshot.
    pub fn meta(&self) -> io::Result<SnapshotMetaRecord> {
        Ok(codec::decode(&fs::read(self.0.path.join(META))?)?)
    }

    /// The folder is removed after its last reader.
    pub(crate) fn supersede(&self) {
        self.0.is_superseded.store(true, Ordering::Release);
    }

    /// The names and lengths of its files.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn files(&self) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.0.path)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let name =
                entry.file_name().into_string().map_err(|_| io::Error::other("a file name is not valid UTF-8"))?;
            if metadata.is_file() && name != META {
                files.push((name, metadata.len()));
            }
        }
        files.sort();
        Ok(files)
    }

    /// # Errors
    /// When the file does not exist.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        check_name(name)?;
        File::open(self.0.path.join(name))
    }
}

/// Finds the newest finished snapshot in a folder; removes older and unfinished ones.
///
/// # Errors
/// When the folder cannot be read or written.
pub(crate) fn newest_in(root: &Path) -> io::Result<Option<(SnapshotMetaRecord, SnapshotDir)>> {
    let mut newest: Option<(SnapshotMetaRecord, SnapshotDir)> = None;
    if !root.exists() {
        return Ok(None);
    }
    for entry in fs::read_dir(root)? {
        let snapshot = SnapshotDir::at(entry?.path());
        let Ok(meta) = snapshot.meta() else {
            snapshot.supersede();
            continue;
        };
        match &newest {
            Some((best, _)) if best.last >= meta.last => snapshot.supersede(),
            _ => {
                if let Some((_, older)) = newest.replace((meta, snapshot)) {
                    older.supersede();
                }
            }
        }
    }
    Ok(newest)
}

/// The name of a snapshot's folder: the same content has the same name.
#[must_use]
pub fn name(group: crate::types::Group, meta: &SnapshotMetaRecord) -> String {
    match meta.last {
        Some(last) => format!("g{}-{}-{}-{}", group.0, last.term, last.node, last.index),
        None => format!("g{}-empty", group.0),
    }
}

/// A snapshot that another node is sending. The received part is kept when the connection is lost.
#[derive(Debug)]
pub struct Incoming {
    path: PathBuf,
    meta: SnapshotMetaRecord,
    files: Vec<IncomingFile>,
}

#[derive(Debug)]
struct IncomingFile {
    name: String,
    bytes: u64,
    have: u64,
    is_sealed: bool,
}

impl Incoming {
    /// Begins to receive a snapshot, or continues an earlier attempt at the same one. Removes the files of other
    /// attempts.
    ///
    /// # Errors
    /// When a file name is invalid, or the folder cannot be written.
    pub fn begin(root: &Path, meta: &SnapshotMetaRecord, files: &[(String, u64)]) -> io::Result<Self> {
        let wanted = name(crate::types::Group::default(), meta);
        let path = root.join(&wanted);
        make_folder(&path)?;
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            if entry.file_name().to_str() != Some(&wanted) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        let mut incoming = Self { path, meta: meta.clone(), files: Vec::new() };
        for (name, bytes) in files {
            check_name(name)?;
            if incoming.files.iter().any(|file| file.name == *name) {
                return Err(invalid(format!("the file {name} is listed more than once")));
            }
            let path = incoming.path.join(name);
            let have = fs::metadata(&path).map_or(0, |metadata| metadata.len());
            if have > *bytes {
                // The file is of another checkpoint of the same entries, in which compaction reused the name.
                fs::remove_file(&path)?;
            }
            let have = if have > *bytes { 0 } else { have };
            incoming.files.push(IncomingFile { name: name.clone(), bytes: *bytes, have, is_sealed: false });
        }
        for entry in fs::read_dir(&incoming.path)? {
            let entry = entry?;
            let is_wanted =
                entry.file_name().to_str().is_some_and(|name| incoming.files.iter().any(|file| file.name == name));
            if !is_wanted {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(incoming)
    }

    /// The number of bytes of a file that were already received.
    #[must_use]
    pub fn offset(&self, file: usize) -> u64 {
        self.files.get(file).map_or(0, |file| file.have)
    }

    /// # Errors
    /// When the piece does not follow the received bytes, is too long, or cannot be written.
    pub fn write(&mut self, file: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let folder = self.path.clone();
        let file = self.file(file)?;
        if offset != file.have {
            return Err(invalid(format!("{}: got offset {offset}, expected {}", file.name, file.have)));
        }
        let length = bytes.len() as u64;
        if file.have + length > file.bytes {
            return Err(invalid(format!("{}: got more than its {} bytes", file.name, file.bytes)));
        }
        let mut target = OpenOptions::new().create(true).append(true).open(folder.join(&file.name))?;
        target.write_all(bytes)?;
        file.have += length;
        Ok(())
    }

    /// Compares the file with the sender's checksum. Returns false if it differs; the file must then be sent again from
    /// its beginning.
    ///
    /// # Errors
    /// When the file is incomplete or cannot be read.
    pub fn seal(&mut self, file: usize, crc: u32) -> io::Result<bool> {
        let folder = self.path.clone();
        let file = self.file(file)?;
        if file.have != file.bytes {
            return Err(invalid(format!("{}: only {} of {} bytes were received", file.name, file.have, file.bytes)));
        }
        let path = folder.join(&file.name);
        let content = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path)?;
        if checksum(&content)? == crc {
            content.sync_all()?;
            file.is_sealed = true;
            return Ok(true);
        }
        drop(content);
        fs::remove_file(&path)?;
        file.have = 0;
        Ok(false)
    }

    /// # Errors
    /// When a file is incomplete, or cannot be made durable.
    pub fn finish(self) -> io::Result<SnapshotDir> {
        if let Some(file) = self.files.iter().find(|file| !file.is_sealed) {
            return Err(invalid(format!("{}: the file is incomplete", file.name)));
        }
        let snapshot = SnapshotDir::complete(self.path.clone(), &self.meta)?;
        sync_folder(&self.path)?;
        Ok(snapshot)
    }

    fn file(&mut self, file: usize) -> io::Result<&mut IncomingFile> {
        self.files.get_mut(file).ok_or_else(|| invalid(format!("file {file} was not announced")))
    }
}

/// The checksum of all bytes, from the start.
///
/// # Errors
/// When the file cannot be read.
pub fn checksum(mut file: &File) -> io::Result<u32> {
    file.seek(SeekFrom::Start(0))?;
    let mut buffer = vec![0; 1 << 20];
    let mut crc = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(crc);
        }
        crc = crc32c::crc32c_append(crc, &buffer[..read]);
    }
}

/// A file name from a sender must not lead out of the folder.
pub(crate) fn check_name(name: &str) -> io::Result<()> {
    let is_plain = !name.is_empty()
        && name.len() <= 255
        && name != META
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        && !name.bytes().all(|b| b == b'.');
    if is_plain { Ok(()) } else { Err(invalid(format!("{name:?} is not a valid name of a snapshot's file"))) }
}

pub(crate) fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
