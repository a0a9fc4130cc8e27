//! How many backups of one state run at a time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of backups at a time. Each keeps files on disk that compaction would have dropped, and keeps the disk
/// busy.
pub const AT_ONCE: usize = 2;

/// The number of running backups of one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackupSlots(Arc<AtomicUsize>);

/// One running backup.
#[derive(Debug)]
pub(crate) struct BackupSlot(BackupSlots);

impl BackupSlots {
    pub(crate) fn take(&self) -> io::Result<BackupSlot> {
        let taken = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < AT_ONCE).then_some(n + 1));
        match taken {
            Ok(_) => Ok(BackupSlot(self.clone())),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!(
                    "{AT_ONCE} backups of this node are running: retry when one of them has ended, or ask another node"
                ),
            )),
        }
    }
}

impl Drop for BackupSlot {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}
