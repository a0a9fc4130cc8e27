//! Metrics of this process from the operating system. Values that it does not report are left out.

use std::fs;
use std::path::Path;

#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub(super) resident_bytes: Option<u64>,
    pub(super) open_files: Option<u64>,
    pub(super) open_files_max: Option<u64>,
}

impl Process {
    pub(super) fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            resident_bytes: resident(&read("/proc/self/status")),
            // Minus the descriptor that lists them.
            open_files: fs::read_dir("/proc/self/fd").ok().map(|files| (files.count() as u64).saturating_sub(1)),
            open_files_max: open_files_max(&read("/proc/self/limits")),
        }
    }
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn open_files_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Bytes of all files in a folder and its subfolders. A file that disappears meanwhile is not counted.
pub(crate) fn bytes_in(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_system_are_parsed_and_missing_ones_are_left_out() {
        assert_eq!(resident("VmPeak:\t 12 kB\nVmRSS:\t    34 kB\n"), Some(34 * 1024));
        assert_eq!(resident(""), None);
        let limits =
            "Limit   Soft Limit  Hard Limit  Units\nMax open files            1024                 4096     files\n";
        assert_eq!(open_files_max(limits), Some(1_024));
        assert_eq!(open_files_max("Max open files  unlimited unlimited files"), None);
    }

    #[test]
    fn a_folder_counts_the_bytes_of_its_files_and_subfolders() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("a"), [0; 10]).unwrap();
        fs::write(folder.path().join("below/b"), [0; 5]).unwrap();
        assert_eq!(bytes_in(folder.path()), 15);
        assert_eq!(bytes_in(&folder.path().join("nowhere")), 0);
    }
}
