//! Controls the disk and clocks of a node: a library that is preloaded into the node, and one file per node through
//! which the two communicate. The library is `shim/shim.c`; the numbers below are the offsets there.
//!
//! This side reads and writes the file, the library maps it: Linux keeps both views consistent.

pub mod power;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

const SOURCE: &str = include_str!("shim/shim.c");

const SYNC_DELAY: u64 = 0;
const SYNC_HELD: u64 = 8;
const DISK_FULL: u64 = 16;
const CLOCK_ROUND: u64 = 24;
const WALL_OFFSET: u64 = 32;
const WALL_FROZEN_AT: u64 = 40;
const DRIFT_SINCE: u64 = 48;
const DRIFT_BEFORE: u64 = 56;
const DRIFT_PPM: u64 = 64;
const MAKING_HELD: u64 = 72;
const SEEN_AT: u64 = 128;
const TABLE_AT: u64 = 4096;
const SLOTS: usize = 131_072;
const SLOT_BYTES: usize = 32;
/// With more files than this, the next start rebuilds the table without the deleted ones.
const SLOTS_FULL: usize = SLOTS / 4;

/// The maximum difference between the monotonic clocks of one process: far beyond any real one.
const DRIFT_MOST: Duration = Duration::from_secs(2);
const SECOND: i64 = 1_000_000_000;

/// The library, compiled for this run.
#[derive(Clone, Debug)]
pub struct Shim {
    library: PathBuf,
}

impl Shim {
    /// # Errors
    /// When there is no C compiler, or it fails.
    pub fn build(folder: &Path) -> io::Result<Self> {
        let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
        std::fs::write(&source, SOURCE)?;
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
        let done =
            cc.output().map_err(|error| io::Error::other(format!("could not run cc, the C compiler: {error}")))?;
        if !done.status.success() {
            let why = String::from_utf8_lossy(&done.stderr).into_owned();
            return Err(io::Error::other(format!("cc: {why}")));
        }
        Ok(Self { library })
    }

    #[must_use]
    pub fn library(&self) -> &Path {
        &self.library
    }
}

/// The controls of one node.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    file: File,
    clocks: Mutex<Clocks>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Clocks {
    round: u64,
    wall_offset: i64,
    wall_frozen_at: i64,
    drift_since: i64,
    drift_before: i64,
    drift_ppm: i64,
}

/// The counters of the node's side, since the file was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub syncs: u64,
    pub syncs_delayed: u64,
    /// Syncs that are being held back now.
    pub syncs_waiting: u64,
    pub writes_refused: u64,
    pub wall_reads_shifted: u64,
    pub steady_reads_drifted: u64,
    /// At the last reading, in nanoseconds.
    pub drift: i64,
    /// Files without a place in the table: a power loss cannot handle them.
    pub table_full: u64,
    /// Processes that were started with the library.
    pub loaded: u64,
}

/// How much of a file is safe on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synced {
    pub size: u64,
    /// Nanoseconds of the machine's wall clock.
    pub at: i64,
}

impl Control {
    /// # Errors
    /// When the file cannot be created.
    pub fn create(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
        file.set_len(TABLE_AT + (SLOTS * SLOT_BYTES) as u64)?;
        let control = Self { path, file, clocks: Mutex::default() };
        control.forget_names()?;
        Ok(control)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that keeps removed files until their folder is synced.
    fn graves(&self) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(".graves");
        path.into()
    }

    /// Makes all earlier name changes final: a power loss no longer undoes them.
    ///
    /// # Errors
    /// When the folder cannot be created.
    fn forget_names(&self) -> io::Result<()> {
        let graves = self.graves();
        if graves.exists() {
            std::fs::remove_dir_all(&graves)?;
        }
        std::fs::create_dir(graves)
    }

    fn put(&self, at: u64, value: u64) -> io::Result<()> {
        self.file.write_all_at(&value.to_le_bytes(), at)
    }

    fn get(&self, at: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Makes every sync take longer by this time.
    pub fn slow_syncs(&self, by: Duration) -> io::Result<()> {
        self.put(SYNC_DELAY, u64::try_from(by.as_micros()).unwrap_or(u64::MAX))
    }

    /// Blocks every sync while this is set.
    pub fn hold_syncs(&self, held: bool) -> io::Result<()> {
        self.put(SYNC_HELD, u64::from(held))
    }

    /// Blocks every sync of a snapshot that the node takes of its own state while this is set.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn hold_making(&self, held: bool) -> io::Result<()> {
        self.put(MAKING_HELD, u64::from(held))
    }

    /// Makes every write below the node's directory fail while this is set.
    pub fn fill_disk(&self, full: bool) -> io::Result<()> {
        self.put(DISK_FULL, u64::from(full))
    }

    /// Sets the wall clock ahead of the real one by this many milliseconds, or behind.
    pub fn shift_wall(&self, by_ms: i64) -> io::Result<()> {
        self.change_clocks(|clocks| {
            clocks.wall_offset = by_ms * 1_000_000;
            clocks.wall_frozen_at = 0;
        })
    }

    /// Stops the wall clock.
    pub fn freeze_wall(&self) -> io::Result<()> {
        let now = nanos(ClockId::Realtime);
        self.change_clocks(|clocks| clocks.wall_frozen_at = now + clocks.wall_offset)
    }

    /// Makes the monotonic clocks faster by this many ppm, or slower. 0 keeps what they have gained: they never jump.
    ///
    /// # Errors
    /// When the file cannot be written, or more than half a percent is requested.
    pub fn drift(&self, ppm: i64) -> io::Result<()> {
        if ppm.abs() > 5_000 {
            return Err(io::Error::other("a drift must be at most half a percent"));
        }
        let now = nanos(ClockId::Monotonic);
        self.change_clocks(|clocks| {
            clocks.drift_before = drifted(clocks, now);
            clocks.drift_since = now;
            clocks.drift_ppm = ppm;
        })
    }

    /// The machine was suspended: the monotonic clocks lose this time and continue from where they stopped.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn stood_still(&self, span: Duration) -> io::Result<()> {
        let span = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        self.change_clocks(|clocks| clocks.drift_before -= span)
    }

    /// How long this drift may last before the monotonic clocks reach their maximum error.
    #[must_use]
    pub fn room_for_drift(&self, ppm: i64) -> Duration {
        let now = nanos(ClockId::Monotonic);
        let before = drifted(&self.clocks.lock().unwrap_or_else(std::sync::PoisonError::into_inner), now);
        let most = i64::try_from(DRIFT_MOST.as_nanos()).unwrap_or(i64::MAX);
        let room = if ppm > 0 { most - before } else { most + before };
        let millis = u64::try_from(room.max(0) / ppm.abs().max(1)).unwrap_or(0);
        Duration::from_millis(millis)
    }

    /// Resets everything. What the monotonic clocks have gained stays while the process lives.
    pub fn heal(&self) -> io::Result<()> {
        self.slow_syncs(Duration::ZERO)?;
        self.hold_syncs(false)?;
        self.hold_making(false)?;
        self.fill_disk(false)?;
        self.shift_wall(0)?;
        self.drift(0)
    }

    /// Prepares the start of a process: its monotonic clocks are right, the table has room, and the name changes of the
    /// process before count as written by the file system.
    pub fn renew(&self, data: &Path) -> io::Result<()> {
        self.forget_names()?;
        self.change_clocks(|clocks| (clocks.drift_since, clocks.drift_before, clocks.drift_ppm) = (0, 0, 0))?;
        let synced = self.synced()?;
        if synced.len() > SLOTS_FULL {
            self.rewrite(&power::live_among(data, &synced)?)?;
        }
        Ok(())
    }

    fn change_clocks(&self, change: impl FnOnce(&mut Clocks)) -> io::Result<()> {
        let mut clocks = self.clocks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        change(&mut clocks);
        clocks.round += 2;
        self.put(CLOCK_ROUND, clocks.round - 1)?;
        for (at, value) in [
            (WALL_OFFSET, clocks.wall_offset),
            (WALL_FROZEN_AT, clocks.wall_frozen_at),
            (DRIFT_SINCE, clocks.drift_since),
            (DRIFT_BEFORE, clocks.drift_before),
            (DRIFT_PPM, clocks.drift_ppm),
        ] {
            self.file.write_all_at(&value.to_le_bytes(), at)?;
        }
        self.put(CLOCK_ROUND, clocks.round)
    }

    /// # Errors
    /// When the file cannot be read.
    pub fn seen(&self) -> io::Result<Seen> {
        let nth = |nth: u64| self.get(SEEN_AT + 8 * nth);
        Ok(Seen {
            syncs: nth(0)?,
            syncs_delayed: nth(1)?,
            syncs_waiting: nth(2)?,
            writes_refused: nth(3)?,
            wall_reads_shifted: nth(4)?,
            steady_reads_drifted: nth(5)?,
            drift: nth(6)?.cast_signed(),
            table_full: nth(7)?,
            loaded: nth(8)?,
        })
    }

    /// After a kill: the syncs of the killed process no longer wait.
    pub fn forget_waiting(&self) -> io::Result<()> {
        self.put(SEEN_AT + 16, 0)
    }

    /// How much of each file is safe, by its key.
    ///
    /// # Errors
    /// When the file cannot be read, or had no room for all.
    pub fn synced(&self) -> io::Result<HashMap<u64, Synced>> {
        if self.seen()?.table_full > 0 {
            return Err(io::Error::other("the table of synced files is full"));
        }
        let mut bytes = vec![0; SLOTS * SLOT_BYTES];
        self.file.read_exact_at(&mut bytes, TABLE_AT)?;
        let number = |slot: &[u8], nth: usize| {
            slot[8 * nth..].first_chunk().map_or(0, |bytes: &[u8; 8]| u64::from_le_bytes(*bytes))
        };
        let slots = bytes.chunks_exact(SLOT_BYTES).filter(|slot| number(slot, 0) != 0);
        Ok(slots
            .map(|slot| (number(slot, 0), Synced { size: number(slot, 1), at: number(slot, 2).cast_signed() }))
            .collect())
    }

    fn rewrite(&self, synced: &HashMap<u64, Synced>) -> io::Result<()> {
        let mut bytes = vec![0; SLOTS * SLOT_BYTES];
        for (key, file) in synced {
            let start = usize::try_from(*key % SLOTS as u64).unwrap_or(0);
            let place = (start..SLOTS).chain(0..start).find(|at| bytes[at * SLOT_BYTES..][..8] == [0; 8]);
            let place = place.ok_or_else(|| io::Error::other("the table of synced files is full"))? * SLOT_BYTES;
            bytes[place..place + 8].copy_from_slice(&key.to_le_bytes());
            bytes[place + 8..place + 16].copy_from_slice(&file.size.to_le_bytes());
            bytes[place + 16..place + 24].copy_from_slice(&file.at.to_le_bytes());
        }
        self.file.write_all_at(&bytes, TABLE_AT)
    }
}

fn drifted(clocks: &Clocks, now: i64) -> i64 {
    clocks.drift_before + (now - clocks.drift_since) / 1_000 * clocks.drift_ppm / 1_000
}

fn nanos(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec * SECOND + now.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;
    use std::process::Child;
    use std::process::Stdio;
    use tempfile::TempDir;
    use test_support::until;

    /// A folder that programs of the machine write to, through the library.
    struct Bench {
        folder: TempDir,
        shim: Shim,
        control: Control,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("data")).unwrap();
            let shim = Shim::build(folder.path()).unwrap();
            let control = Control::create(folder.path().join("control")).unwrap();
            Self { folder, shim, control }
        }

        fn data(&self) -> PathBuf {
            self.folder.path().join("data")
        }

        fn run(&self, program: &str, arguments: &[&str]) -> Child {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(self.data()).env("LD_PRELOAD", self.shim.library());
            command.env("JEPSEN_CONTROL", self.control.path()).env("JEPSEN_DATA", self.data()).env("LC_ALL", "C");
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        }

        fn done(&self, program: &str, arguments: &[&str]) -> (bool, String) {
            let output = self.run(program, arguments).wait_with_output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8(said).unwrap())
        }

        fn size(&self, name: &str) -> Option<u64> {
            std::fs::metadata(self.data().join(name)).ok().map(|about| about.len())
        }
    }

    #[test]
    fn a_power_loss_removes_exactly_the_unsynced_data() {
        let bench = Bench::new();
        let (zeros, block) = ("if=/dev/zero", "bs=1000");
        assert!(bench.done("dd", &[zeros, block, "count=3", "of=kept.sst", "conv=fsync"]).0);
        assert!(bench.done("dd", &[zeros, block, "count=3", "of=wal", "conv=fdatasync"]).0);
        assert!(bench.done("dd", &[zeros, block, "count=2", "of=wal", "conv=notrunc", "oflag=append"]).0);
        assert!(bench.done("dd", &[zeros, block, "count=2", "of=never"]).0);
        assert_eq!(bench.control.seen().unwrap().syncs, 2);
        let lost = power::lose(&bench.control, &bench.data(), &mut Dice::new(1)).unwrap();
        assert_eq!((lost.bytes, lost.cut, lost.emptied + lost.removed), (4_000, 1, 1), "{lost:?}");
        assert_eq!((bench.size("kept.sst"), bench.size("wal")), (Some(3_000), Some(3_000)));
        assert!(bench.size("never").is_none_or(|size| size == 0));
    }

    #[test]
    fn an_empty_file_in_a_synced_folder_stays() {
        for seed in 0..8 {
            let bench = Bench::new();
            assert!(bench.done("dd", &["if=/dev/zero", "bs=10", "count=1", "of=never"]).0);
            assert!(bench.done("sync", &["."]).0);
            power::lose(&bench.control, &bench.data(), &mut Dice::new(seed)).unwrap();
            assert_eq!(bench.size("never"), Some(0));
        }
    }

    /// The inode number of a deleted file is used again: what the old file had synced does not apply to the new one.
    #[test]
    fn a_new_file_with_an_old_inode_number_has_nothing_synced() {
        let bench = Bench::new();
        for _ in 0..20 {
            assert!(bench.done("dd", &["if=/dev/zero", "bs=1000", "count=3", "of=a", "conv=fsync"]).0);
            std::fs::remove_file(bench.data().join("a")).unwrap();
            assert!(bench.done("dd", &["if=/dev/zero", "bs=1000", "count=3", "of=b"]).0);
            let lost = power::lose(&bench.control, &bench.data(), &mut Dice::new(1)).unwrap();
            assert!(bench.size("b").is_none_or(|size| size == 0), "{lost:?}");
            let _ = std::fs::remove_file(bench.data().join("b"));
        }
    }

    /// A single process, like a node: its knowledge of unsynced changes ends with it.
    const NAMES: &str = r#"
        #include <fcntl.h>
        #include <stdio.h>
        #include <unistd.h>
        static int make(const char *name, int bytes) {
            int fd = open(name, O_CREAT | O_WRONLY, 0644);
            for (int at = 0; at < bytes; at++) if (write(fd, "x", 1) != 1) return 1;
            return fsync(fd) || close(fd);
        }
        int main(void) {
            int failed = make("gone", 300) || make("old", 300) || make("over", 300) || make("new", 10) || make("kept", 300);
            failed = failed || unlink("kept") || fsync(open(".", O_RDONLY));
            return failed || unlink("gone") || rename("old", "other") || rename("new", "over") || link("over", "twin");
        }
    "#;

    #[test]
    fn a_power_loss_undoes_name_changes_in_unsynced_folders() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..24 {
            let bench = Bench::new();
            let (source, program) = (bench.folder.path().join("names.c"), bench.folder.path().join("names"));
            std::fs::write(&source, NAMES).unwrap();
            assert!(Command::new("cc").arg("-o").arg(&program).arg(&source).status().unwrap().success());
            assert!(bench.done(program.to_str().unwrap(), &[]).0);
            let lost = power::lose(&bench.control, &bench.data(), &mut Dice::new(seed)).unwrap();
            let there = |name: &str| bench.size(name);
            let stand =
                [there("gone").is_none(), there("old").is_none(), there("new").is_none(), there("twin").is_some()];
            // In the order in which they were made: the last of them are undone first.
            assert!(stand.is_sorted_by(|one, next| one >= next), "{stand:?}");
            assert_eq!(stand.iter().filter(|stands| !**stands).count(), lost.undone, "{lost:?}");
            assert_eq!(there("over"), Some(if stand[2] { 10 } else { 300 }));
            assert_eq!(there("old").or(there("other")), Some(300));
            assert_eq!(there("kept"), None, "its folder was synced");
            seen.insert(lost.undone);
        }
        assert!(seen.contains(&0) && seen.contains(&4) && seen.len() > 2, "{seen:?}");
    }

    #[test]
    fn a_blocked_sync_returns_when_it_is_unblocked() {
        let bench = Bench::new();
        bench.control.hold_syncs(true).unwrap();
        let mut held = bench.run("dd", &["if=/dev/zero", "bs=10", "count=1", "of=a", "conv=fsync"]);
        until::blocking("a sync waits", || bench.control.seen().unwrap().syncs_waiting == 1);
        assert!(held.try_wait().unwrap().is_none());
        assert_eq!(bench.control.seen().unwrap().syncs, 0);
        bench.control.heal().unwrap();
        assert!(held.wait().unwrap().success());
        assert_eq!(bench.control.seen().unwrap().syncs, 1);
    }

    #[test]
    fn a_full_disk_rejects_writes_below_the_nodes_directory() {
        let bench = Bench::new();
        bench.control.fill_disk(true).unwrap();
        let (wrote, said) = bench.done("dd", &["if=/dev/zero", "bs=10", "count=1", "of=a"]);
        assert!(!wrote && said.contains("No space left on device"), "{said}");
        assert!(bench.done("dd", &["if=/dev/zero", "bs=10", "count=1", "of=../elsewhere"]).0);
        bench.control.heal().unwrap();
        assert!(bench.done("dd", &["if=/dev/zero", "bs=10", "count=1", "of=a"]).0);
        assert_eq!(bench.control.seen().unwrap().writes_refused, 1);
    }

    #[test]
    fn the_wall_clock_follows_its_settings_and_stops_when_frozen() {
        let bench = Bench::new();
        let clock = || bench.done("date", &["+%s.%N"]).1.trim().parse::<f64>().unwrap();
        let real = || nanos(ClockId::Realtime) as f64 / 1e9;
        assert!((clock() - real()).abs() < 60.0);
        bench.control.shift_wall(-86_400_000).unwrap();
        assert!((clock() - real() + 86_400.0).abs() < 60.0);
        bench.control.freeze_wall().unwrap();
        assert!((clock() - clock()).abs() < 1e-9);
        bench.control.heal().unwrap();
        assert!((clock() - real()).abs() < 60.0);
    }

    #[test]
    fn a_drift_is_never_a_jump_and_never_beyond_half_a_percent() {
        let bench = Bench::new();
        assert!(bench.control.drift(5_001).is_err());
        bench.control.drift(5_000).unwrap();
        let clocks = *bench.control.clocks.lock().unwrap();
        assert_eq!(drifted(&clocks, clocks.drift_since + 10 * SECOND), SECOND / 20);
        bench.control.drift(-1_000).unwrap();
        let later = *bench.control.clocks.lock().unwrap();
        assert_eq!(later.drift_before, drifted(&clocks, later.drift_since));
    }
}
