//! The daemon's exit codes. A supervisor uses them to decide whether to restart it, and the service files rely on them.

use crate::replica::DIFFERS;

/// Why a daemon ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It failed, or the cluster refused it. A restart does not help before a person has looked.
    Failed,
    /// Its options are invalid.
    Usage,
    /// Its state differs from the cluster's: it must not be restarted before a person has looked.
    Diverged,
    /// A temporary cause: no disk space, too many open files, no memory. It may be restarted after a while.
    Passing,
}

/// Parts of the messages that name an exhausted resource.
const PASSING: [&str; 6] = [
    "No space left on device",
    "Disk quota exceeded",
    "disk space is used up",
    "Too many open files",
    "Cannot allocate memory",
    "Resource temporarily unavailable",
];

impl Ending {
    /// Searches the message, because RocksDB, openraft and the system pass on nothing else.
    #[must_use]
    pub fn of(why: &str) -> Self {
        if why.contains(DIFFERS) {
            Self::Diverged
        } else if PASSING.iter().any(|words| why.contains(words)) {
            Self::Passing
        } else {
            Self::Failed
        }
    }

    /// The exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Diverged => 3,
            // EX_TEMPFAIL of sysexits.h.
            Self::Passing => 75,
        }
    }
}

/// Shown at the end of `tenured --help`.
pub const CODES: &str = "\
Exit codes:
   0  stopped on request
   1  failed, or its directory or the cluster refused it: read its last log lines before you restart it
   2  invalid options
   3  its state differs from that of other nodes: do not restart it
  75  temporary cause, such as no disk space or too many open files: restart it after some seconds
 101  a defect: report it, and restart it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_causes_have_exit_code_75_and_others_do_not() {
        let of = |why: &str| Ending::of(why).code();
        assert_eq!(of("IO error: No space left on device: While appending to file: /x/000012.log"), 75);
        assert_eq!(of("While open a file for appending: /x/000012.log: Too many open files"), 75);
        assert_eq!(of("disk space is used up: /x has 5 bytes free"), 75);
        assert_eq!(of("IO error: Input/output error: While fsync: /x/000012.log"), 1);
        assert_eq!(of("/x: its log is gone, and with it what node 3 has promised"), 1);
        assert_eq!(of("this node's state differs from that of nodes [2, 3] at index 1024: it must not go on"), 3);
    }
}
