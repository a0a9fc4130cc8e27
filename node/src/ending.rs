//! With what the daemon ends, so that whatever started it knows whether to start it again. The service files go by these.

use crate::compare::DIFFERS;

/// Why a daemon has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It failed, or was refused. Starting it again does not help before a person has looked.
    Failed,
    /// Its options make no sense.
    Usage,
    /// Its state is not the cluster's: it must not come back before a person has looked.
    Diverged,
    /// For a cause that passes: no disk space, too many open files, no memory. It may be started again after a while.
    Passing,
}

/// What the system says, in its own words, when it has run out of something.
const PASSING: [&str; 6] = [
    "No space left on device",
    "Disk quota exceeded",
    "disk space is used up",
    "Too many open files",
    "Cannot allocate memory",
    "Resource temporarily unavailable",
];

impl Ending {
    /// The words come from RocksDB, openraft and the system, which all pass on nothing else.
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
            // As sysexits.h calls it: try again later.
            Self::Passing => 75,
        }
    }
}

/// For the end of `tenured --help`.
pub const CODES: &str = "\
Exit codes:
   0  stopped as it was asked to
   1  it failed, or its directory or the cluster refused it: look at its last words before you start it again
   2  the options make no sense
   3  its state differs from that of other nodes: do not start it again
  75  for a cause that passes, such as no disk space or too many open files: start it again after some seconds
 101  a defect: report it, and start it again";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_passes_is_to_be_started_again() {
        let of = |why: &str| Ending::of(why).code();
        assert_eq!(of("IO error: No space left on device: While appending to file: /x/000012.log"), 75);
        assert_eq!(of("While open a file for appending: /x/000012.log: Too many open files"), 75);
        assert_eq!(of("disk space is used up: /x has 5 bytes free"), 75);
        assert_eq!(of("IO error: Input/output error: While fsync: /x/000012.log"), 1);
        assert_eq!(of("/x: its log is gone, and with it what node 3 has promised"), 1);
        assert_eq!(of("this node's state differs from that of nodes [2, 3] at index 1024: it must not go on"), 3);
    }
}
