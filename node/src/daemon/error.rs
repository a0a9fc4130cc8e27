//! Why a daemon does not start.

use crate::replica::change::ChangeError;
use crate::replica::node::StartError;
use raft_store::directory::DirectoryError;
use raft_store::restore::RestoreError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why the daemon did not start.
#[derive(Debug)]
pub enum DaemonError {
    Directory(DirectoryError),
    Log(raft_store::log::OpenError),
    Io {
        doing: String,
        error: io::Error,
    },
    Start(StartError),
    Change(ChangeError),
    /// The directory was restored from a backup, and its epoch cannot begin.
    Restored(RestoreError),
    /// The directory is empty, and no option says how to start.
    NothingToStart(PathBuf),
    Refused(String),
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
            Self::Io { doing, error } => write!(f, "{doing}: {error}"),
            Self::Start(error) => error.fmt(f),
            Self::Change(error) => error.fmt(f),
            Self::Restored(error) => error.fmt(f),
            Self::NothingToStart(path) => write!(
                f,
                "{}: is empty; give --bootstrap to start a new cluster with this node, or --join with the addresses of nodes of \
                 the cluster it belongs to",
                path.display()
            ),
            Self::Refused(why) => write!(f, "the cluster rejected this node: {why}"),
        }
    }
}

impl std::error::Error for DaemonError {}

impl From<DirectoryError> for DaemonError {
    fn from(error: DirectoryError) -> Self {
        Self::Directory(error)
    }
}

impl From<StartError> for DaemonError {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

/// Adds what failed to an error of the system.
pub(crate) fn doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> DaemonError {
    let what = what.into();
    move |error| DaemonError::Io { doing: what, error }
}
