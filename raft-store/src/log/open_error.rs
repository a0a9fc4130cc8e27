//! Why the log does not open.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a log cannot be opened, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log lost something that may have been acknowledged.
    #[error(
        "the Raft log in {path} is damaged: {why}. This node may have forgotten what it promised, so it must not vote \
         again: remove it from the cluster and let it join under a new id with an empty directory. If no majority is \
         left, restore the cluster from a backup. Do not delete single files"
    )]
    Damaged { path: PathBuf, why: String },
    /// The directory cannot be read, written or locked.
    #[error(
        "the Raft log in {path} cannot be opened: {error}. Check that no other process uses it, that this one may write \
         to it, and that the disk is not full, then start again"
    )]
    Disk {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
}

impl OpenError {
    pub(super) fn damaged(path: &Path, why: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), why: why.into() }
    }

    pub(super) fn disk(path: &Path, error: io::Error) -> Self {
        Self::Disk { path: path.to_owned(), error }
    }

    pub(super) fn rocksdb(path: &Path, error: rocksdb::Error) -> Self {
        match error.kind() {
            rocksdb::ErrorKind::Corruption => Self::damaged(path, error.into_string()),
            _ => Self::disk(path, io::Error::other(error)),
        }
    }
}
