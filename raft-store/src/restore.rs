//! Creates the directory of a new cluster's first node from a backup.
//!
//! The new cluster has a new id, the backup's salt, and one member. Its log begins after an entry that no node has: the
//! state is at the backup's index, so that every joining node gets it by snapshot, and no node can take the log alone
//! for the complete history. The state has a mark that its epoch must begin. The state cannot be loaded while the mark
//! exists, and the write that begins the epoch removes the mark: no entry is ever applied before it.

use crate::backup::Reader;
use crate::codec::records::{
    AppliedRecord, BackupHeaderRecord, IdentityRecord, LogIdRecord, MembershipRecord, RestoredRecord,
    StoredMembershipRecord,
};
use crate::directory::{Directory, DirectoryError, Found, make_folder, sync_folder};
use crate::log::{LogOptions, LogStore};
use crate::state::chunk::Chunk;
use crate::state::lookups::{FirstRetained, Lookups};
use crate::state::rocks::RocksDisk;
use crate::state::unreadable;
use crate::types::{Group, Member, NodeId, OnTokio};
use lease::bounds::RULES_VERSION;
use lease::caller::{ActorKind, Caller, QueueScope, Right, Role, Verified};
use lease::changes::Changes;
use lease::names::{ActorId, RequestId, SpaceName};
use lease::numbers::{Epoch, Token, Wall};
use lease::refusal::Refusal;
use lease::{Attempt, Command, Entry, Outcome, Request, State};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The actor that begins the epoch.
const ACTOR: &str = "tenured";
/// Maximum number of faults in the error when a backup's records are invalid.
const FAULTS_NAMED: usize = 5;

/// Settings of a restore.
#[derive(Clone, Debug)]
pub struct Target {
    /// The target directory; must not exist, or be empty.
    pub directory: PathBuf,
    pub node: NodeId,
    /// The new cluster's tokens are above this value.
    pub token_floor: Option<Token>,
    /// Begin the epoch even if the wall clock is not later than the newest time in the backup.
    pub accept_clock: bool,
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The new cluster's id.
    pub cluster: u128,
    pub backup: BackupHeaderRecord,
}

/// The state after the beginning of its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    pub epoch: Epoch,
    pub tokens_above: Token,
}

/// The reason why a restore failed. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The directory is not empty.
    #[error(
        "{0}: is in use: a backup can only be restored into a fresh directory. Give a path that does not exist or is empty"
    )]
    Used(PathBuf),
    /// Another restore into the directory is running.
    #[error("{0}: another restore into this directory is running: wait for it, or give another path")]
    Busy(PathBuf),
    /// The backup is incomplete or damaged, or could not be read.
    #[error("{0}. Nothing was restored: take another backup, or fetch this one again")]
    Backup(io::Error),
    /// The backup was taken under rules that this build does not know.
    #[error(
        "the backup was taken under rules {0}, but this build knows only up to {known}: restore it with the build it \
         came from, or a later one",
        known = RULES_VERSION
    )]
    Rules(u32),
    /// The bytes are complete, but the records are not a valid state.
    #[error("the state in the backup is invalid: {0}. Nothing was restored: take another backup")]
    NoState(String),
    /// The epoch must not begin.
    #[error("{0}")]
    Refused(String),
    #[error("{doing}: {error}")]
    Disk { doing: &'static str, error: io::Error },
}

fn disk(doing: &'static str) -> impl FnOnce(io::Error) -> RestoreError {
    move |error| RestoreError::Disk { doing, error }
}

/// Creates the directory of a new cluster's first node from a backup. At the end the directory is complete and checked,
/// or does not exist; until then the files are in a folder next to it. Blocks while the bytes are received and checked.
///
/// # Errors
/// When nothing was restored.
pub fn restore(from: impl Read, target: &Target, wall: Wall) -> Result<Restored, RestoreError> {
    expect_fresh(&target.directory)?;
    let mut reader = Reader::new(from).map_err(RestoreError::Backup)?;
    let backup = reader.header().clone();
    if backup.rules_version > RULES_VERSION {
        return Err(RestoreError::Rules(backup.rules_version));
    }
    let workshop = Workshop::beside(&target.directory)?;
    let (cluster, instance) = random().map_err(disk("could not get random numbers from the system"))?;
    let identity = IdentityRecord { cluster, salt: backup.salt, node: target.node, instance };
    let made = Directory::make(&workshop.directory(), identity, |log, state| {
        let log = LogStore::<OnTokio>::open(log, Group::default(), LogOptions::default());
        let log = log.map_err(|error| RestoreError::Disk {
            doing: "could not create the log",
            error: io::Error::other(error),
        })?;
        log.close().map_err(disk("could not create the log"))?;
        reader.unpack(state).map_err(RestoreError::Backup)
    })?;
    prepare(made, &backup, target, wall)?;
    workshop.deliver(&target.directory)?;
    Ok(Restored { cluster, backup })
}

/// Checks the unpacked state, and makes it the first state of a new cluster.
fn prepare(made: Directory, backup: &BackupHeaderRecord, target: &Target, wall: Wall) -> Result<(), RestoreError> {
    let identity = *made.identity();
    let no_state = |error: io::Error| RestoreError::NoState(error.to_string());
    let state_disk = RocksDisk::open(made, Group::default()).map_err(no_state)?;
    let (mut state, found) = state_disk.load_restored(identity.salt).map_err(no_state)?;
    if found.snapshot_meta() != backup.snapshot || found.hash != backup.hash {
        let why = format!(
            "its header states entry {:?} as the last, but the state has {:?}",
            backup.snapshot.last, found.last
        );
        return Err(RestoreError::NoState(why));
    }
    let mut faults = state.violations();
    faults.extend(unreadable(&state_disk).map_err(no_state)?);
    if !faults.is_empty() {
        let more = faults.len().saturating_sub(FAULTS_NAMED);
        faults.truncate(FAULTS_NAMED);
        return Err(RestoreError::NoState(format!("{}; and {more} more", faults.join("; "))));
    }
    // A trial: the operator gets an error at once that would otherwise occur at the start.
    let restored = RestoredRecord { token_floor: target.token_floor, accept_clock: target.accept_clock };
    begin(&mut state, &state_disk, &restored, wall)?;
    // In the term before the first, so that the log continues from here as from its very first entry.
    let last = LogIdRecord { term: 0, node: target.node, index: found.last.map_or(0, |last| last.index) };
    // The node sets its addresses when it starts.
    let member = Member { instance: identity.instance, ..Member::default() };
    let membership = MembershipRecord {
        voters: vec![BTreeSet::from([target.node])],
        members: BTreeMap::from([(target.node, member)]),
    };
    let applied = AppliedRecord {
        last: Some(last),
        membership: StoredMembershipRecord { log_id: Some(last), membership },
        hash: found.hash,
        marks: Vec::new(),
    };
    state_disk.mark_restored(&applied, &restored).map_err(disk("could not write the restored state"))
}

/// Begins the epoch of a restored state, before anything can be applied to it. `None`: no epoch has to begin. After a
/// crash the epoch has begun, or the next start begins it.
///
/// # Errors
/// When the epoch must not begin, or the disk fails. The state is then unchanged.
pub fn begin_epoch(state_disk: &RocksDisk, wall: Wall) -> Result<Option<Begun>, RestoreError> {
    let Some(restored) = state_disk.restored().map_err(disk("could not read the state"))? else { return Ok(None) };
    let loaded = state_disk.load_restored(state_disk.identity().salt);
    let (mut state, mut applied) = loaded.map_err(disk("could not load the state"))?;
    let (begun, changes) = begin(&mut state, state_disk, &restored, wall)?;
    applied.hash = state.hash();
    state_disk
        .begin_restored(&Chunk::of(changes), &applied)
        .map_err(disk("could not write the beginning of the epoch"))?;
    Ok(Some(begun))
}

fn begin(
    state: &mut State,
    state_disk: &RocksDisk,
    restored: &RestoredRecord,
    wall: Wall,
) -> Result<(Begun, Changes), RestoreError> {
    let entry = entry(state_disk.identity().cluster, restored, state, wall);
    let lookups = Lookups::new(state_disk, FirstRetained::default());
    let applied = state.apply(&entry, &lookups);
    lookups.check().map_err(disk("could not read the state"))?;
    match applied.outcomes.as_slice() {
        [Outcome::EpochBegun { epoch, tokens_above }] => {
            Ok((Begun { epoch: *epoch, tokens_above: *tokens_above }, applied.changes))
        }
        [Outcome::Refused(Refusal::RestoreRefused { why })] => Err(RestoreError::Refused(format!(
            "cannot begin the restored cluster: {why}. It might grant tokens that the old cluster granted before. If \
             this machine's clock is wrong, set it and restore the backup again. If this clock is right and the backup's newest \
             time is wrong, restore the backup again with --accept-clock. If the problem is the tokens, restore it with another \
             --token-floor (the backup's last token is {})",
            state.last_token()
        ))),
        other => Err(RestoreError::Refused(format!("cannot begin the restored cluster: {other:?}"))),
    }
}

/// Cluster time does not advance meanwhile: no lease expires because of a restore.
fn entry(cluster: u128, restored: &RestoredRecord, state: &State, wall: Wall) -> Entry {
    let caller = Caller {
        actor: ActorId::new(ACTOR).expect("a short name"),
        kind: ActorKind::System,
        parent: None,
        session: None,
        verified: Verified::Checked,
        rights: vec![Right { role: Role::Admin, queues: QueueScope::every() }],
    };
    let token_floor = restored.token_floor;
    let command = match restored.accept_clock {
        true => Command::BeginEpochAcceptingClock { token_floor },
        false => Command::BeginEpoch { token_floor },
    };
    let request = Request {
        space: SpaceName::fallback(),
        caller,
        // The backup may contain the request of an earlier restore: this request needs a different id.
        request_id: RequestId::new(&format!("restore-{cluster:032x}")).expect("within the bounds of an id"),
        attempt: Attempt::First,
        command,
    };
    Entry { at: state.now(), wall, commands: vec![request] }
}

fn expect_fresh(directory: &Path) -> Result<(), RestoreError> {
    match Directory::find(directory)? {
        Found::Used(_) => Err(RestoreError::Used(directory.into())),
        Found::Empty => {
            let is_empty = match fs::read_dir(directory) {
                Ok(mut entries) => entries.next().is_none(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => true,
                Err(error) => return Err(RestoreError::Disk { doing: "could not list the directory", error }),
            };
            if is_empty { Ok(()) } else { Err(RestoreError::Used(directory.into())) }
        }
    }
}

fn random() -> io::Result<(u128, u64)> {
    let [high, low, instance] =
        [getrandom::u64(), getrandom::u64(), getrandom::u64()].map(|n| n.map_err(io::Error::other));
    Ok(((u128::from(high?) << 64) | u128::from(low?), instance?))
}

/// A folder next to the target, in which the directory is created. Dropping this removes it.
struct Workshop {
    folder: PathBuf,
    /// Locked as long as this exists: an unlocked folder was left by a restore that was killed.
    _lock: File,
}

impl Workshop {
    fn beside(target: &Path) -> Result<Self, RestoreError> {
        let mut name = target.file_name().unwrap_or("data".as_ref()).to_owned();
        name.push(".restoring");
        let folder = target.with_file_name(name);
        let io = disk("could not create the folder next to the directory");
        let made = make_folder(&folder).and_then(|()| File::create(folder.join("LOCK")));
        let lock = match made {
            Ok(lock) => lock,
            Err(error) => return Err(io(error)),
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(RestoreError::Busy(target.into())),
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        let workshop = Self { folder, _lock: lock };
        match fs::remove_dir_all(workshop.directory()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(RestoreError::Disk { doing: "could not remove the files of an earlier restore", error })
            }
            _ => Ok(workshop),
        }
    }

    fn directory(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Moves the directory to its place: only now it exists.
    fn deliver(&self, target: &Path) -> Result<(), RestoreError> {
        let moved = fs::rename(self.directory(), target).map_err(|error| match error.kind() {
            io::ErrorKind::CrossesDevices | io::ErrorKind::ResourceBusy => {
                let why = format!("{} is the top of a file system: give a path inside it", target.display());
                io::Error::new(error.kind(), why)
            }
            io::ErrorKind::DirectoryNotEmpty => {
                io::Error::new(error.kind(), "other files were created there meanwhile")
            }
            _ => error,
        });
        moved.map_err(disk("could not move the directory to its place"))?;
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync_folder(parent).map_err(disk("could not sync the directory"))
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        // If this fails, the next restore finds and uses the folder.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
