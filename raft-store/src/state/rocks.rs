//! The state on RocksDB. Its write-ahead log is off: Raft's log keeps every entry until the state has been flushed past
//! it. A key is the group's number, then the lease machine's key.
//!
//! There are two column families, always written and flushed together. Records that the lease machine holds in memory
//! are read only at the start: they are collected unsorted, and sorted when they are flushed. All others are read while
//! it runs.

use crate::background;
use crate::backup_slots::BackupSlots;
use crate::codec::records::{
    AppliedRecord, EventsGoneRecord, IdentityRecord, RestoredFloorRecord, RestoredRecord, SnapshotMetaRecord,
};
use crate::codec::{self, CodecError};
use crate::directory::{Directory, make_folder, sync_folder};
use crate::log::BeforeWrite;
use crate::snapshot::{self, SnapshotDir};
use crate::state::chunk::Chunk;
use crate::state::disk::StateDisk;
use crate::types::{Group, NodeId};
use lease::bounds::RULES_VERSION;
use lease::changes::Change;
use lease::numbers::{EventNumber, SpaceNo};
use lease::record::{self, Key};
use lease::{Salt, State, StateHash};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, Direction};
use rocksdb::{
    DEFAULT_COLUMN_FAMILY_NAME, FlushOptions, IteratorMode, MemtableFactory, Options, ReadOptions, WriteBatch,
    WriteOptions,
};
use sabotage::{Broken, is_broken};
use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Before every key.
const GROUP_BYTES: usize = size_of::<Group>();
/// After the group's number; no record of the lease machine begins with it.
const APPLIED: u8 = b'#';
/// Exists until the epoch of a restored state has begun.
const RESTORED: u8 = b'!';
/// Followed by a space's number: the number up to which its events are deleted.
const EVENTS_GONE: u8 = b'-';
/// Followed by a node's id: the node was a member.
const MEMBER: u8 = b'@';
/// The column family of the records that are held in memory.
const LIVE: &str = "live";
/// The write buffer of one family. A full one is written out in the background, together with the other family's. After
/// a crash at most the content of the buffers is applied again.
const WRITE_BUFFER_BYTES: usize = 64 * 1024 * 1024;
/// The approximate size of a batch when records are moved between the families.
const MOVED_BYTES: usize = 4 * 1024 * 1024;
/// The block cache for records that are not held in memory: archived items, bodies, events.
const BLOCK_CACHE_BYTES: usize = 128 * 1024 * 1024;

pub struct RocksDisk {
    /// Replaced when a snapshot is installed.
    db: RwLock<Arc<DB>>,
    directory: Directory,
    group: Group,
    /// The latest version of the rules that states loaded from here know.
    known_rules: u32,
    newest: Mutex<Option<(SnapshotMetaRecord, SnapshotDir)>>,
    before_keeping: OnceLock<BeforeWrite>,
    backup_slots: BackupSlots,
    /// Gives each backup its own folder.
    backups_made: AtomicU64,
}

impl fmt::Debug for RocksDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RocksDisk at {}", self.directory.root().display())
    }
}

impl RocksDisk {
    /// Creates an empty state in a folder.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn make(folder: &Path) -> io::Result<()> {
        flush(&open(folder, true)?)
    }

    /// # Errors
    /// When the state is damaged or open in another process.
    pub fn open(directory: Directory, group: Group) -> io::Result<Self> {
        directory.drop_old_states()?;
        let folder = directory.state_path().map_err(io::Error::other)?;
        let folder = folder
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the directory does not name its current state"))?;
        let newest = snapshot::newest_in(&directory.snapshots_path())?;
        if directory.backups_path().exists() {
            fs::remove_dir_all(directory.backups_path())?;
        }
        Ok(Self {
            db: RwLock::new(Arc::new(take_up(&folder, group)?)),
            directory,
            group,
            known_rules: RULES_VERSION,
            newest: Mutex::new(newest),
            before_keeping: OnceLock::new(),
            backup_slots: BackupSlots::default(),
            backups_made: AtomicU64::new(0),
        })
    }

    /// Calls the hook when a snapshot has its files, before it replaces the current one. Only tests set it, and only
    /// once.
    pub fn set_before_keeping(&self, hook: BeforeWrite) {
        assert!(self.before_keeping.set(hook).is_ok(), "set once");
    }

    #[must_use]
    pub fn identity(&self) -> &IdentityRecord {
        self.directory.identity()
    }

    pub(crate) fn backup_slots(&self) -> &BackupSlots {
        &self.backup_slots
    }

    /// Takes a checkpoint of a moment between the call and the return, with its metadata. Its folder is removed after
    /// the last reader.
    pub(crate) fn take_backup(&self) -> io::Result<(AppliedRecord, SnapshotDir)> {
        let root = self.directory.backups_path();
        make_folder(&root)?;
        let folder = SnapshotDir::at(root.join(self.backups_made.fetch_add(1, Ordering::Relaxed).to_string()));
        folder.supersede();
        let applied = self.checkpoint(folder.path())?;
        Ok((applied, folder))
    }

    /// The checkpoint flushes first, so its content is durable in the state, too.
    fn checkpoint(&self, path: &Path) -> io::Result<AppliedRecord> {
        let db = self.db();
        Checkpoint::new(&db).and_then(|checkpoint| checkpoint.create_checkpoint(path)).map_err(failed)?;
        drop(db);
        // It holds whatever was written when it was taken; its own records say how far that is.
        let taken = DB::open_for_read_only(&options(false), path, false).map_err(failed)?;
        self.applied_in(&taken)
    }

    /// The mark of a restore, if the epoch has not begun.
    pub(crate) fn restored(&self) -> io::Result<Option<RestoredRecord>> {
        let found = self.db().get(self.key(&[RESTORED])).map_err(failed)?;
        let read = |bytes: Vec<u8>| match codec::decode(&bytes) {
            Err(CodecError::Kind { .. }) => Ok(codec::decode::<RestoredFloorRecord>(&bytes)?.into()),
            other => Ok(other?),
        };
        found.map(read).transpose()
    }

    /// Makes this the first state of another cluster, whose epoch must begin before anything else.
    pub(crate) fn mark_restored(&self, applied: &AppliedRecord, restored: &RestoredRecord) -> io::Result<()> {
        let mut batch = WriteBatch::default();
        // The members of the cluster that was backed up are not members of this one.
        self.scan(&[MEMBER], &[MEMBER], &mut |key, _| {
            batch.delete(self.key(key));
            true
        })?;
        batch.put(self.key(&[APPLIED]), codec::encode(applied)?);
        batch.put(self.key(&[RESTORED]), codec::encode(restored)?);
        self.write_batch(batch)?;
        self.flush()
    }

    /// Writes the changes of the epoch's beginning, and removes the mark atomically with them.
    pub(crate) fn begin_restored(&self, chunk: &Chunk, applied: &AppliedRecord) -> io::Result<()> {
        let mut batch = self.batch(chunk, applied)?;
        batch.delete(self.key(&[RESTORED]));
        self.write_batch(batch)?;
        self.flush()
    }

    /// Like [`StateDisk::load`], for a state whose epoch may not have begun yet.
    pub(crate) fn load_restored(&self, salt: Salt) -> io::Result<(State, AppliedRecord)> {
        let db = self.db();
        let applied = self.applied_in(&db)?;
        let live = Families::of(&db).live;
        if db.get_pinned_cf(live, self.key(&[record::META])).map_err(failed)?.is_none() {
            // Valid only if nothing of the lease machine was applied yet; otherwise its records would exist.
            if applied.hash != StateHash::default() {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the state's RocksDB: its live records are missing",
                ));
            }
            return Ok((State::new(salt).knowing(self.known_rules), applied));
        }
        let failure = RefCell::new(None);
        let records = record::LIVE.into_iter().flat_map(|kind| {
            let from = self.key(&[kind]);
            let mut options = ReadOptions::default();
            options.set_iterate_upper_bound(after_prefix(&from));
            options.set_readahead_size(4 * 1024 * 1024);
            let records = db.iterator_cf_opt(live, options, IteratorMode::From(&from, Direction::Forward));
            records.map_while(|found| match found {
                Ok((key, value)) => Some((Box::<[u8]>::from(&key[GROUP_BYTES..]), value)),
                Err(error) => {
                    failure.borrow_mut().get_or_insert(error);
                    None
                }
            })
        });
        let state = State::load_knowing(records, applied.hash, self.known_rules);
        if let Some(error) = failure.take() {
            return Err(failed(error));
        }
        Ok((state.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?, applied))
    }

    /// Sets another latest rules version, so that tests can run builds with different rules together.
    #[must_use]
    pub fn knowing(mut self, rules: u32) -> Self {
        self.known_rules = rules;
        self
    }

    /// The directory with this state, the log and the snapshots.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    fn db(&self) -> Arc<DB> {
        self.db.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn key(&self, key: &[u8]) -> Vec<u8> {
        let mut full = Vec::with_capacity(GROUP_BYTES + key.len());
        full.extend_from_slice(&self.group.0.to_be_bytes());
        full.extend_from_slice(key);
        full
    }

    fn applied_in(&self, db: &DB) -> io::Result<AppliedRecord> {
        match db.get_pinned(self.key(&[APPLIED])).map_err(failed)? {
            Some(bytes) => Ok(codec::decode(&bytes)?),
            None => Ok(AppliedRecord::default()),
        }
    }

    /// Keeps this snapshot, and drops the one before as soon as nobody reads from it.
    fn set_newest(&self, meta: &SnapshotMetaRecord, snapshot: &SnapshotDir) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, old)) = newest.replace((meta.clone(), snapshot.clone()))
            && old.path() != snapshot.path()
        {
            old.supersede();
        }
    }
}

impl StateDisk for RocksDisk {
    const BLOCKS: bool = true;

    type Snapshot = SnapshotDir;

    fn load(&self, salt: Salt) -> io::Result<(State, AppliedRecord)> {
        if self.restored()?.is_some() {
            return Err(io::Error::other("the state was restored from a backup, but its epoch has not begun"));
        }
        self.load_restored(salt)
    }

    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let db = self.db();
        db.get_cf(Families::of(&db).with(key), self.key(key)).map_err(failed)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> io::Result<()> {
        let db = self.db();
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(after_prefix(&self.key(prefix)));
        let mut iterator = db.raw_iterator_cf_opt(Families::of(&db).with(prefix), options);
        iterator.seek(self.key(from));
        while let Some((key, value)) = iterator.item() {
            if !visit(&key[GROUP_BYTES..], value) {
                return Ok(());
            }
            iterator.next();
        }
        iterator.status().map_err(failed)
    }

    fn scan_back(&self, from: &[u8], before: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> io::Result<()> {
        let db = self.db();
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(self.key(from));
        options.set_iterate_upper_bound(self.key(before));
        let mut iterator = db.raw_iterator_cf_opt(Families::of(&db).with(from), options);
        iterator.seek_to_last();
        while let Some((key, value)) = iterator.item() {
            if !visit(&key[GROUP_BYTES..], value) {
                return Ok(());
            }
            iterator.prev();
        }
        iterator.status().map_err(failed)
    }

    fn events_gone(&self, space: SpaceNo) -> io::Result<Option<EventNumber>> {
        let found = self.db().get(self.gone_key(space)).map_err(failed)?;
        found.map(|bytes| Ok(codec::decode::<EventsGoneRecord>(&bytes)?.upto)).transpose()
    }

    fn drop_events(&self, space: SpaceNo, first: EventNumber, upto: EventNumber) -> io::Result<()> {
        let behind = EventNumber { seq: upto.seq + 1, ..upto };
        let [first, behind] = [first, behind].map(|number| self.key(&Key::Event(space, number).encode()));
        let mut batch = WriteBatch::default();
        batch.delete_range(first, behind);
        batch.put(self.gone_key(space), codec::encode(&EventsGoneRecord { upto })?);
        self.write_batch(batch)
    }

    fn was_member(&self, node: NodeId) -> io::Result<bool> {
        Ok(self.db().get_pinned(self.member_key(node)).map_err(failed)?.is_some())
    }

    fn write(&self, chunk: &Chunk, applied: &AppliedRecord) -> io::Result<()> {
        self.write_batch(self.batch(chunk, applied)?)
    }

    fn flush(&self) -> io::Result<()> {
        flush(&self.db())
    }

    fn take_snapshot(&self) -> io::Result<(SnapshotMetaRecord, SnapshotDir)> {
        let root = self.directory.snapshots_path();
        make_folder(&root)?;
        let making = root.join("making");
        if making.exists() {
            fs::remove_dir_all(&making)?;
        }
        // The content is flushed, so the log may be purged up to it.
        let meta = self.checkpoint(&making)?.snapshot_meta();
        if let Some(hook) = self.before_keeping.get() {
            hook()?;
        }
        let path = root.join(snapshot::name(self.group, &meta));
        // Raft may have purged the log up to the newest snapshot: an older one must not replace it.
        if let Some((newest, snapshot)) = self.newest_snapshot()?
            && (newest == meta || newest.last >= meta.last && !is_broken(Broken::SnapshotRace))
        {
            fs::remove_dir_all(&making)?;
            return Ok((newest, snapshot));
        }
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::rename(&making, &path)?;
        let snapshot = SnapshotDir::complete(path, &meta)?;
        sync_folder(&root)?;
        self.set_newest(&meta, &snapshot);
        Ok((meta, snapshot))
    }

    fn newest_snapshot(&self) -> io::Result<Option<(SnapshotMetaRecord, SnapshotDir)>> {
        Ok(self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn install(&self, meta: &SnapshotMetaRecord, snapshot: SnapshotDir) -> io::Result<()> {
        let folder = self.directory.next_state_path()?;
        make_folder(&folder)?;
        for (name, _) in snapshot.files()? {
            // Tables never change, so both can share them by links; RocksDB writes to all other files.
            if Path::new(&name).extension().is_some_and(|extension| extension == "sst") {
                fs::hard_link(snapshot.path().join(&name), folder.join(&name))?;
            } else {
                fs::copy(snapshot.path().join(&name), folder.join(&name))?;
                fs::File::open(folder.join(&name))?.sync_all()?;
            }
        }
        sync_folder(&folder)?;
        let fresh = take_up(&folder, self.group)?;
        let found = self.applied_in(&fresh)?.snapshot_meta();
        if found != *meta {
            let why = format!("the snapshot states {:?} as its last entry, but has {:?}", meta.last, found.last);
            drop(fresh);
            fs::remove_dir_all(&folder)?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        // The snapshot is kept before the switch: a node that is killed between the two finds a snapshot ahead of its
        // state, and installs it at the start. A node cannot start with a state that is ahead of every snapshot and of
        // the log.
        let kept = self.keep(meta, &snapshot)?;
        self.directory.switch_state(&folder).map_err(io::Error::other)?;
        let old = std::mem::replace(&mut *self.db.write().unwrap_or_else(PoisonError::into_inner), Arc::new(fresh));
        drop(old);
        // A reader may still use the old state; what cannot be dropped now is dropped at the next start.
        let _ = self.directory.drop_old_states();
        self.set_newest(meta, &kept);
        Ok(())
    }
}

impl RocksDisk {
    fn batch(&self, chunk: &Chunk, applied: &AppliedRecord) -> io::Result<WriteBatch> {
        let db = self.db();
        let families = Families::of(&db);
        let mut batch = WriteBatch::default();
        let mut full = self.key(&[]);
        let removable = OnceCell::new();
        for change in chunk.iter() {
            if let Change::Put { key, .. } | Change::Remove { key } = change {
                full.truncate(GROUP_BYTES);
                full.extend_from_slice(key);
            }
            match change {
                Change::Put { key, value } => batch.put_cf(families.with(key), &full, value),
                Change::Remove { key } => batch.delete_cf(families.with(key), &full),
                // Deleted one by one: thousands of range tombstones would make every read slower.
                Change::RemoveUnder { prefix } => {
                    let pending = removable.get_or_init(|| chunk.removable_puts());
                    for key in pending.range(prefix..).take_while(|key| key.starts_with(prefix)) {
                        batch.delete(self.key(key));
                    }
                    self.scan(prefix, prefix, &mut |key, _| {
                        batch.delete(self.key(key));
                        true
                    })?;
                }
            }
        }
        for node in &chunk.members {
            // The key holds all information.
            batch.put(self.member_key(*node), []);
        }
        batch.put(self.key(&[APPLIED]), codec::encode(applied)?);
        Ok(batch)
    }

    fn write_batch(&self, batch: WriteBatch) -> io::Result<()> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.db().write_opt(batch, &options).map_err(failed)
    }

    fn member_key(&self, node: NodeId) -> Vec<u8> {
        let mut key = self.key(&[MEMBER]);
        key.extend_from_slice(&node.to_be_bytes());
        key
    }

    fn gone_key(&self, space: SpaceNo) -> Vec<u8> {
        let [a, b, c, d] = space.0.to_be_bytes();
        self.key(&[EVENTS_GONE, a, b, c, d])
    }

    /// Moves a received snapshot to this node's own snapshots: it may have to be sent to others.
    fn keep(&self, meta: &SnapshotMetaRecord, snapshot: &SnapshotDir) -> io::Result<SnapshotDir> {
        let root = self.directory.snapshots_path();
        make_folder(&root)?;
        let path = root.join(snapshot::name(self.group, meta));
        if snapshot.path() == path {
            return Ok(snapshot.clone());
        }
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::rename(snapshot.path(), &path)?;
        sync_folder(&root)?;
        Ok(SnapshotDir::at(path))
    }
}

fn options(make: bool) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(BLOCK_CACHE_BYTES));
    // Every new item is first looked up in the archive: a bloom filter answers "not found" without a read.
    table.set_bloom_filter(10.0, false);
    let mut options = options_of_family(&mut table);
    options.create_if_missing(make);
    options.create_missing_column_families(true);
    options.set_error_if_exists(make);
    // Only one thread writes, and an unsorted memtable does not support concurrent writes.
    options.set_allow_concurrent_memtable_write(false);
    options.set_atomic_flush(true);
    options.set_max_background_jobs(2);
    options.set_max_open_files(512);
    options.set_keep_log_file_num(4);
    options
}

fn options_of_live() -> Options {
    let mut table = BlockBasedOptions::default();
    // Read once, when the state is loaded.
    table.disable_cache();
    let mut options = options_of_family(&mut table);
    // Finding the place of each record in a sorted memtable took a quarter of a follower's CPU time: decision 0019.
    options.set_memtable_factory(MemtableFactory::Vector);
    options
}

fn options_of_family(table: &mut BlockBasedOptions) -> Options {
    table.set_format_version(5);
    let mut options = Options::default();
    options.set_block_based_table_factory(table);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_max_write_buffer_number(4);
    options
}

fn open(folder: &Path, make: bool) -> io::Result<DB> {
    let mut options = options(make);
    background::lower_priority(&mut options).map_err(failed)?;
    let stored = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options.clone());
    let live = ColumnFamilyDescriptor::new(LIVE, options_of_live());
    DB::open_cf_descriptors(&options, folder, [stored, live]).map_err(failed)
}

/// Opens a state of this build, or an older state with all records in one family: then moves the records that are held
/// in memory.
fn take_up(folder: &Path, group: Group) -> io::Result<DB> {
    let db = open(folder, false)?;
    let key_of = |kind: u8| [&group.0.to_be_bytes()[..], &[kind]].concat();
    let is_whole = db.get_pinned(key_of(record::META)).map_err(failed)?.is_none();
    if is_whole {
        return Ok(db);
    }
    let mut unsynced = WriteOptions::default();
    unsynced.disable_wal(true);
    let move_on = |batch: &mut WriteBatch| db.write_opt(std::mem::take(batch), &unsynced).map_err(failed);
    let mut batch = WriteBatch::default();
    // The first record is moved last: as long as it is there, not all are moved.
    for kind in record::LIVE.into_iter().rev() {
        let from = key_of(kind);
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(after_prefix(&from));
        for found in db.iterator_opt(IteratorMode::From(&from, Direction::Forward), options) {
            let (key, value) = found.map_err(failed)?;
            batch.put_cf(Families::of(&db).live, &key, value);
            batch.delete(&key);
            if batch.size_in_bytes() > MOVED_BYTES {
                move_on(&mut batch)?;
            }
        }
    }
    move_on(&mut batch)?;
    flush(&db)?;
    Ok(db)
}

/// Flushes both families atomically: RocksDB's atomic flush covers only the families that are named.
fn flush(db: &DB) -> io::Result<()> {
    let Families { live, stored } = Families::of(db);
    db.flush_cfs_opt(&[stored, live], &FlushOptions::default()).map_err(failed)
}

/// The column family of a record.
struct Families<'d> {
    /// Records that the lease machine holds in memory.
    live: &'d ColumnFamily,
    stored: &'d ColumnFamily,
}

impl<'d> Families<'d> {
    fn of(db: &'d DB) -> Self {
        let named = |name| db.cf_handle(name).expect("it was opened with both families");
        Self { live: named(LIVE), stored: named(DEFAULT_COLUMN_FAMILY_NAME) }
    }

    /// The family of the records whose key has this prefix.
    fn with(&self, key: &[u8]) -> &'d ColumnFamily {
        if key.first().is_some_and(|kind| record::LIVE.contains(kind)) { self.live } else { self.stored }
    }
}

/// The first key after all keys with this prefix.
fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // There is no key after these: no group has this number.
    vec![u8::MAX; prefix.len() + 1]
}

fn failed(error: rocksdb::Error) -> io::Error {
    let kind = match error.kind() {
        rocksdb::ErrorKind::Corruption => io::ErrorKind::InvalidData,
        _ if error.to_string().contains("No space left") => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, format!("the state's RocksDB: {error}"))
}
