//! Samples the resources of nodes, hostile callers and this suite every second.

use super::{FREE_MIN_MIB, seats};
use crate::cluster::Cluster;
use crate::history::soak::{Bounds, Sample};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

const EVERY: Duration = Duration::from_secs(1);
/// The folder of a node's log in its data directory.
const LOG: &str = "log";
/// The clock ticks per second in `/proc`: 100 on every machine that Linux runs on today.
const TICK_MS: u64 = 10;
const BLOCK: u64 = 512;

/// Stops when it is dropped.
#[derive(Debug)]
pub(super) struct Sampler {
    shared: Arc<Mutex<Shared>>,
    looking: JoinHandle<()>,
    stop: DropGuard,
}

#[derive(Debug, Default)]
struct Shared {
    samples: Vec<Sample>,
    /// The running processes of hostile callers, with the CPU time that each had used at the last sample.
    hostile: BTreeMap<u32, u64>,
    /// The CPU time of those that ended.
    hostile_cpu_ms: u64,
    free_mib: Option<u64>,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sampler {
    pub(super) fn start(cluster: Arc<Cluster>) -> Self {
        let shared: Arc<Mutex<Shared>> = Arc::default();
        let stop = CancellationToken::new();
        let (all, stopped) = (shared.clone(), stop.clone());
        let looking = tokio::spawn(async move {
            while !stopped.is_cancelled() {
                let (cluster, all) = (cluster.clone(), all.clone());
                // Listing many files may wait for the disk.
                let _ = spawn_blocking(move || look(&cluster, &all)).await;
                tokio::select! {
                    () = sleep(EVERY) => {}
                    () = stopped.cancelled() => {}
                }
            }
        });
        Self { shared, looking, stop: stop.drop_guard() }
    }

    /// Sets the processes that are the hostile callers from now on.
    pub(super) fn hostile(&self, pids: Vec<u32>) {
        let mut shared = lock(&self.shared);
        shared.hostile_cpu_ms += shared.hostile.values().sum::<u64>();
        shared.hostile = pids.into_iter().map(|pid| (pid, 0)).collect();
    }

    /// Why hostile callers should stop at once: the machine itself is in danger.
    pub(super) fn is_too_much(&self, bounds: Bounds) -> Option<String> {
        let shared = lock(&self.shared);
        if let Some(free) = shared.free_mib.filter(|free| *free < FREE_MIN_MIB) {
            return Some(format!("only {free} MiB are free on the disk"));
        }
        let last = shared.samples.iter().rev().take(8);
        let beyond = last.filter(|sample| sample.disk_kib / 1024 > bounds.disk_mib * 2);
        beyond.map(|sample| format!("node {} uses {} MiB of the disk", sample.seat, sample.disk_kib / 1024)).next()
    }

    pub(super) async fn stop(self) -> Vec<Sample> {
        drop(self.stop);
        let _ = self.looking.await;
        std::mem::take(&mut lock(&self.shared).samples)
    }
}

fn look(cluster: &Cluster, shared: &Mutex<Shared>) {
    let at = cluster.now();
    let mut samples = Vec::new();
    for (seat, pid) in seats(cluster) {
        let (disk_kib, log_kib) = cluster.data(seat).map_or((0, 0), |data| disk(&data));
        if let Some((cpu_ms, resident_kib)) = cpu_ms(pid).zip(resident_kib(pid)) {
            let open_files = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count) as u64;
            samples.push(Sample { at, seat, resident_kib, cpu_ms, disk_kib, log_kib, open_files });
        }
    }
    let own = std::process::id();
    if let Some((cpu_ms, resident_kib)) = cpu_ms(own).zip(resident_kib(own)) {
        samples.push(Sample { at, seat: Sample::SUITE, resident_kib, cpu_ms, ..Sample::default() });
    }
    let mut shared = lock(shared);
    for (pid, used) in &mut shared.hostile {
        *used = cpu_ms(*pid).unwrap_or(0).max(*used);
    }
    let resident_kib = shared.hostile.keys().filter_map(|pid| resident_kib(*pid)).sum();
    let cpu_ms = shared.hostile_cpu_ms + shared.hostile.values().sum::<u64>();
    samples.push(Sample { at, seat: Sample::HOSTILE, resident_kib, cpu_ms, ..Sample::default() });
    shared.free_mib = rustix::fs::statvfs(&cluster.options().folder)
        .ok()
        .map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) / 1024 / 1024);
    shared.samples.extend(samples);
}

/// The size of all files, and of the log's files. A file that is removed or renamed meanwhile may be missed.
fn disk(data: &Path) -> (u64, u64) {
    let mut seen = BTreeSet::new();
    let log = kib(&data.join(LOG), &mut seen);
    (log + kib(data, &mut seen), log)
}

fn kib(folder: &Path, seen: &mut BTreeSet<(u64, u64)>) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let each = entries.flatten().map(|entry| match entry.metadata() {
        Ok(entry_is) if entry_is.is_dir() => kib(&entry.path(), seen),
        Ok(file) if seen.insert((file.dev(), file.ino())) => file.blocks() * BLOCK / 1024,
        Ok(_) | Err(_) => 0,
    });
    each.sum()
}

fn resident_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").trim().parse().ok()
}

fn cpu_ms(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the process may contain any characters.
    let (_, behind) = stat.rsplit_once(") ")?;
    let mut fields = behind.split(' ').skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(ticks * TICK_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_and_its_files_are_seen() {
        let own = std::process::id();
        assert!(resident_kib(own).is_some_and(|kib| kib > 1_000));
        assert!(cpu_ms(own).is_some());
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("log")).unwrap();
        fs::write(folder.path().join("log/1"), vec![1; 100_000]).unwrap();
        fs::write(folder.path().join("2"), vec![1; 50_000]).unwrap();
        // The same file under another name.
        fs::hard_link(folder.path().join("2"), folder.path().join("3")).unwrap();
        let (all, log) = disk(folder.path());
        assert!((97..=110).contains(&log) && (145..=165).contains(&all), "{all} {log}");
    }
}
