//! `cluster backup` and `cluster restore`.

use super::at::At;
use super::failure::Failure;
use super::global::{Context, interrupted};
use super::out::{Progress, bytes, say};
use bytes::Bytes;
use clap::Args;
use client::RestoreQuery;
use futures_util::stream;
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the file that are read and sent at a time.
const CHUNK: usize = 256 * 1024;

/// Back up the whole store to a file while the cluster keeps serving
///
/// The file gets its final name when all of it is on disk: an incomplete file never looks like a backup.
#[derive(Args, Debug)]
pub(crate) struct Backup {
    /// New file, or the folder to create it in [default: the current folder; the node chooses the name]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Serialize)]
struct BackedUp {
    file: PathBuf,
    bytes: u64,
}

impl Backup {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        if let Some(file) = self.file.as_deref().filter(|file| !file.is_dir()) {
            refuse_to_replace(file)?;
        }
        let mut backup = context.client.backup().await?;
        let name = backup.name().filter(|name| !name.contains('/')).unwrap_or("tenure.backup").to_owned();
        let file = match self.file {
            None => PathBuf::from(name),
            Some(folder) if folder.is_dir() => folder.join(name),
            Some(file) => file,
        };
        refuse_to_replace(&file)?;
        let failed = |error: io::Error| Failure::other(format!("{}: {error}", file.display()));
        let mut part = Part::beside(&file).map_err(failed)?;
        let mut progress = Progress::new();
        let mut written = 0;
        let copied = async {
            while let Some(chunk) = backup.chunk().await? {
                part.file.write_all(&chunk).map_err(failed)?;
                written += chunk.len() as u64;
                progress.at(written, None, bytes(written));
            }
            Ok::<_, Failure>(())
        };
        tokio::select! {
            copied = copied => copied?,
            // An incomplete backup is useless: it is removed.
            () = interrupted() => return Err(Failure::Interrupted),
        }
        progress.end();
        part.finish(&file).map_err(failed)?;
        context.out.answer(&BackedUp { file, bytes: written }, |out, done| {
            out.line(format_args!("{}: {}", done.file.display(), bytes(done.bytes)))
        })
    }
}

fn refuse_to_replace(file: &Path) -> Result<(), Failure> {
    match fs::symlink_metadata(file) {
        Ok(_) => {
            let why = format!("{} exists already: a backup does not replace files", file.display());
            Err(Failure::hinted(why, "choose another name, or move that file away"))
        }
        Err(_) => Ok(()),
    }
}

/// A file under a temporary name; removed on drop unless it is finished.
struct Part {
    file: File,
    path: PathBuf,
    is_finished: bool,
}

impl Part {
    fn beside(file: &Path) -> io::Result<Self> {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(format!(".part-{}", std::process::id()));
        let path = file.with_file_name(name);
        // A backup holds everything that callers ever wrote, so only its owner may read it.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path, is_finished: false })
    }

    /// Syncs the file, then gives it its final name; fails if that name exists by now.
    fn finish(mut self, file: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::hard_link(&self.path, file)?;
        fs::remove_file(&self.path)?;
        self.is_finished = true;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Send a backup to a new node that waits for one (`tenured --await-restore`)
///
/// The node becomes the first of a new cluster, which grants nothing before `tenure cluster activate`.
#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// Backup file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    at: At,
    /// Grant only fencing tokens above this number; can raise the first token, but not lower it
    #[arg(long, value_name = "N")]
    token_floor: Option<u64>,
    /// Restore even if the node's clock is not later than the newest time in the backup; if the clock is behind,
    /// tokens may repeat
    ///
    /// Use it only after you have checked that this clock is right and that the backup's newest time is wrong. If this
    /// clock is behind, tokens that the old cluster gave out after the backup may be given out again, unless
    /// --token-floor is above them. Epoch and tokens always rise above those in the backup.
    #[arg(long)]
    accept_clock: bool,
}

impl Restore {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let node = self.at.node(context)?;
        let failed = |error: io::Error| Failure::other(format!("{}: {error}", self.file.display()));
        let file = File::open(&self.file).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let unread: Arc<Mutex<Option<io::Error>>> = Arc::default();
        let upload = upload(file, size, unread.clone());
        let query = RestoreQuery { token_floor: self.token_floor, accept_clock: self.accept_clock };
        let restored = node.restore(upload, &query).await;
        // If the file could not be read, report that and not the request that failed because of it.
        if let Some(error) = unread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(failed(error));
        }
        context.out.answer(&restored?, |out, restored| {
            say("the cluster grants nothing yet: when nobody works under old leases any more, run `tenure cluster activate`");
            let applied = restored.applied;
            out.line(format_args!("node {} is restored as cluster {}, up to entry {applied}", restored.node, restored.cluster))
        })
    }
}

type Unread = Arc<Mutex<Option<io::Error>>>;

fn upload(
    file: File,
    size: u64,
    unread: Unread,
) -> impl futures_util::Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::unfold(Some((file, 0, Progress::new())), move |reading| {
        let unread = unread.clone();
        async move {
            let (mut file, sent, mut progress) = reading?;
            // A disk read may block, so it does not run on an async thread.
            let read = tokio::task::spawn_blocking(move || {
                let mut chunk = vec![0; CHUNK];
                let length = file.read(&mut chunk)?;
                chunk.truncate(length);
                Ok::<_, io::Error>((file, chunk))
            });
            match read.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
                Ok((_, chunk)) if chunk.is_empty() => None,
                Ok((file, chunk)) => {
                    let sent = sent + chunk.len() as u64;
                    progress.at(sent, Some(size), format_args!("{} of {}", bytes(sent), bytes(size)));
                    Some((Ok(Bytes::from(chunk)), Some((file, sent, progress))))
                }
                Err(error) => {
                    let told = io::Error::new(error.kind(), error.to_string());
                    *unread.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    Some((Err(told), None))
                }
            }
        }
    })
}
