//! A node's directory: its owner, its layout, and when it must not be used.
//!
//! ```text
//! IDENTITY        cluster, node and instance; written last, so that a directory without it was never used
//! log/            the log's RocksDB
//! CURRENT         names the state's folder
//! state-000001/   the state's RocksDB
//! snapshots/      checkpoints of the state
//! incoming/       a snapshot on its way here
//! backups/        checkpoints that are being streamed to someone
//! ```
//!
//! `log/` and the state's folder each contain a copy of IDENTITY named TENURE, so that a folder from another directory
//! is detected. A node that lost acknowledged data must never vote again under its old id.

use crate::codec::records::IdentityRecord;
use crate::codec::{self, CodecError};
use crate::types::NodeId;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process;

const IDENTITY: &str = "IDENTITY";
const MARK: &str = "TENURE";
const CURRENT: &str = "CURRENT";
/// This file exists while a directory is being created: nothing in the directory was used yet.
const MAKING: &str = "MAKING";

/// The reason why a directory cannot be opened. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("{path}: cannot {doing}: {error}")]
    Io { path: PathBuf, doing: &'static str, error: io::Error },
    /// The directory has files, but no IDENTITY.
    #[error(
        "{0}: holds files but no {identity}: it is not a Tenure directory, or half of it was deleted. Give an empty \
         directory, or bring the whole one back",
        identity = IDENTITY
    )]
    Foreign(PathBuf),
    #[error(
        "{path}: {error}. If a later build wrote it, start that build; if it is damaged, remove this node from the \
         cluster and add it again under a new id with an empty directory"
    )]
    Unreadable { path: PathBuf, error: CodecError },
    #[error("{path}: is the directory of node {found}, not of node {wanted}: correct the node id or the path")]
    OtherNode { path: PathBuf, wanted: NodeId, found: NodeId },
    /// Part of the acknowledged data is missing.
    #[error(
        "{path}: its {missing} is gone, and with it what node {node} has promised: it must not come back under this id. \
         Remove node {node} from the cluster and add it again under a new id with an empty directory"
    )]
    Wiped { path: PathBuf, missing: &'static str, node: NodeId },
    /// The log or the state comes from another directory.
    #[error(
        "{path}: {part} came from another node's directory: bring back its own, or remove this node from the cluster \
         and add it again under a new id with an empty directory"
    )]
    Mixed { path: PathBuf, part: String },
}

/// A directory that is complete and belongs to this node.
#[derive(Clone, Debug)]
pub struct Directory {
    root: PathBuf,
    identity: IdentityRecord,
}

/// What exists at a path.
#[derive(Debug)]
pub enum Found {
    /// Nothing, or nothing that was ever used.
    Empty,
    Used(Directory),
}

impl Directory {
    /// Inspects a path without changing it.
    ///
    /// # Errors
    /// When the directory at the path must not be used.
    pub fn find(root: &Path) -> Result<Found, DirectoryError> {
        let io = |doing| move |error| DirectoryError::Io { path: root.into(), doing, error };
        if !root.exists() {
            return Ok(Found::Empty);
        }
        let is_empty = fs::read_dir(root).map_err(io("list it"))?.next().is_none();
        let identity_path = root.join(IDENTITY);
        if !identity_path.exists() {
            return if is_empty || root.join(MAKING).exists() {
                Ok(Found::Empty)
            } else {
                Err(DirectoryError::Foreign(root.into()))
            };
        }
        let identity = read_identity(&identity_path)?;
        let directory = Self { root: root.into(), identity };
        let wiped = |missing| DirectoryError::Wiped { path: root.into(), missing, node: identity.node };
        let state = directory.state_path()?.ok_or_else(|| wiped("state"))?;
        for (folder, name) in [(directory.log_path(), "log"), (state, "state")] {
            // RocksDB creates an empty database where it finds none, so the files must be checked first.
            if !folder.join("CURRENT").exists() || !folder.join(MARK).exists() {
                return Err(wiped(name));
            }
            if read_identity(&folder.join(MARK))? != identity {
                return Err(DirectoryError::Mixed { path: root.into(), part: folder.display().to_string() });
            }
        }
        Ok(Found::Used(directory))
    }

    /// Returns the instance number that the directory will have. After an interrupted start it returns the same number,
    /// because the cluster may already know it.
    ///
    /// # Errors
    /// When the path cannot be written.
    pub fn plan(root: &Path) -> Result<u64, DirectoryError> {
        let io = |doing| move |error| DirectoryError::Io { path: root.into(), doing, error };
        if let Ok(text) = fs::read_to_string(root.join(MAKING))
            && let Ok(instance) = text.trim().parse()
        {
            return Ok(instance);
        }
        let instance =
            getrandom::u64().map_err(|error| io("create a random number for it")(io::Error::other(error)))?;
        make_folder(root).map_err(io("make it"))?;
        write_durably(&root.join(MAKING), instance.to_string().as_bytes()).map_err(io("write to it"))?;
        Ok(instance)
    }

    /// Creates a directory for a new node. `fill` creates the two databases in the folders that it gets, log and state.
    ///
    /// # Errors
    /// When the path is in use or cannot be written.
    pub fn make<E: From<DirectoryError>>(
        root: &Path,
        identity: IdentityRecord,
        fill: impl FnOnce(&Path, &Path) -> Result<(), E>,
    ) -> Result<Self, E> {
        if let Found::Used(_) = Self::find(root)? {
            return Err(DirectoryError::Foreign(root.into()).into());
        }
        let io = |doing| move |error| DirectoryError::Io { path: root.into(), doing, error };
        if root.exists() {
            // An earlier attempt was interrupted before anything in the directory was used.
            for entry in fs::read_dir(root).map_err(io("list it"))? {
                let path = entry.map_err(io("list it"))?.path();
                let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(io("remove the files of an interrupted start"))?;
            }
        }
        make_folder(root).map_err(io("make it"))?;
        write_durably(&root.join(MAKING), identity.instance.to_string().as_bytes()).map_err(io("write to it"))?;
        let directory = Self { root: root.into(), identity };
        let (log, state) = (directory.log_path(), root.join(state_name(1)));
        for folder in [&log, &state] {
            make_folder(folder).map_err(io("make a folder in it"))?;
        }
        fill(&log, &state)?;
        directory.mark(&log)?;
        directory.mark(&state)?;
        directory.point_to(&state_name(1))?;
        write_durably(&root.join(IDENTITY), &identity_bytes(&identity)).map_err(io("write to it"))?;
        fs::remove_file(root.join(MAKING)).map_err(io("write to it"))?;
        sync_folder(root).map_err(io("sync it"))?;
        Ok(directory)
    }

    /// # Errors
    /// When the directory belongs to another node.
    pub fn expect_node(&self, wanted: NodeId) -> Result<(), DirectoryError> {
        let found = self.identity.node;
        if found == wanted { Ok(()) } else { Err(DirectoryError::OtherNode { path: self.root.clone(), wanted, found }) }
    }

    #[must_use]
    pub fn identity(&self) -> &IdentityRecord {
        &self.identity
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.root.join("log")
    }

    #[must_use]
    pub fn snapshots_path(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    #[must_use]
    pub fn incoming_path(&self) -> PathBuf {
        self.root.join("incoming")
    }

    #[must_use]
    pub fn backups_path(&self) -> PathBuf {
        self.root.join("backups")
    }

    /// The current folder of the state.
    ///
    /// # Errors
    /// When the pointer cannot be read.
    pub fn state_path(&self) -> Result<Option<PathBuf>, DirectoryError> {
        match fs::read_to_string(self.root.join(CURRENT)) {
            Ok(name) => Ok(Some(self.root.join(name.trim()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(DirectoryError::Io { path: self.root.clone(), doing: "read where its state is", error }),
        }
    }

    /// Returns a folder name that no state has used.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn next_state_path(&self) -> io::Result<PathBuf> {
        let newest = self.state_folders()?.into_iter().filter_map(|name| state_number(&name)).max();
        Ok(self.root.join(state_name(newest.unwrap_or(0) + 1)))
    }

    /// Switches to another state's folder, whose content is synced, and drops the old ones.
    ///
    /// # Errors
    /// When it cannot be written. Either the old or the new state is then current.
    pub fn switch_state(&self, folder: &Path) -> Result<(), DirectoryError> {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        self.mark(folder)?;
        self.point_to(&name)
    }

    /// Drops the folders of states that are not current, which an interrupted switch may have left.
    ///
    /// # Errors
    /// When the directory cannot be listed or written.
    pub fn drop_old_states(&self) -> io::Result<()> {
        let current = self.state_path().map_err(io::Error::other)?;
        for name in self.state_folders()? {
            let folder = self.root.join(name);
            if Some(&folder) != current.as_ref() {
                fs::remove_dir_all(folder)?;
            }
        }
        Ok(())
    }

    fn state_folders(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            if let Ok(name) = entry?.file_name().into_string()
                && state_number(&name).is_some()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn mark(&self, folder: &Path) -> Result<(), DirectoryError> {
        write_durably(&folder.join(MARK), &identity_bytes(&self.identity)).map_err(|error| DirectoryError::Io {
            path: folder.into(),
            doing: "write to it",
            error,
        })
    }

    fn point_to(&self, name: &str) -> Result<(), DirectoryError> {
        write_durably(&self.root.join(CURRENT), name.as_bytes()).map_err(|error| DirectoryError::Io {
            path: self.root.clone(),
            doing: "write to it",
            error,
        })
    }
}

fn state_name(number: u64) -> String {
    format!("state-{number:06}")
}

fn state_number(name: &str) -> Option<u64> {
    name.strip_prefix("state-")?.parse().ok()
}

fn identity_bytes(identity: &IdentityRecord) -> Vec<u8> {
    codec::encode(identity).expect("an identity is small")
}

fn read_identity(path: &Path) -> Result<IdentityRecord, DirectoryError> {
    let bytes = fs::read(path).map_err(|error| DirectoryError::Io { path: path.into(), doing: "read it", error })?;
    codec::decode(&bytes).map_err(|error| DirectoryError::Unreadable { path: path.into(), error })
}

/// Creates a folder that only this user can read, whatever the umask. An existing folder is not changed.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// Writes a file so that after a power loss it exists completely or not at all.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let temporary = path.with_extension(format!("tmp{}", process::id()));
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_folder(folder)
}

pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
