//! The resource's side of a lease: admits a holder's write only if no newer holder has been seen.
//!
//! A lease alone does not prevent late writes: a paused holder can wake up after its lease has ended, and write. So the
//! resource has to compare fencing tokens. This guard does that for resources without transactions; a database does it
//! in the statement that writes (`examples/fenced_postgres.sql`).

use lease::names::ItemId;
use lease::numbers::Token;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Default number of items that are remembered individually: about ten megabytes.
const ITEMS_MAX: usize = 100_000;
/// Outdated lines in the file before it is rewritten.
const SLACK: usize = 1_000;

/// Why a write was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum Fenced {
    /// A newer holder has written: this one has lost its lease. Nothing was written.
    #[error("a newer holder with token {highest} has written")]
    Stale { highest: Token },
    /// The token could not be made durable. Nothing was written.
    #[error("cannot store the token: {0}")]
    Disk(io::Error),
}

/// Stores the highest token of each item in a file. Use one guard per resource and space: tokens of different spaces
/// cannot be compared. The file is locked, so opening it a second time fails.
#[derive(Debug)]
pub struct FenceGuard {
    ledger: Mutex<Ledger>,
    /// One lock per item, so that writes to an item run one at a time.
    turns: Mutex<BTreeMap<ItemId, Arc<Mutex<()>>>>,
}

#[derive(Debug)]
struct Ledger {
    path: PathBuf,
    file: File,
    highest: BTreeMap<ItemId, Token>,
    /// For an item that is not remembered individually, no token below this is admitted.
    floor: Token,
    lines: usize,
    items_max: usize,
    /// An append failed, so the content of the file is unknown.
    is_broken: bool,
}

impl FenceGuard {
    /// # Errors
    /// If the file cannot be read, is damaged, or is locked by another guard.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::with_items_max(path, ITEMS_MAX)
    }

    /// Above `items_max` items, those with the lowest tokens are remembered together: a write to one of them is
    /// admitted only if its token is newer than all of theirs.
    ///
    /// # Errors
    /// Like [`FenceGuard::open`].
    pub fn with_items_max(path: impl AsRef<Path>, items_max: usize) -> io::Result<Self> {
        let path = path.as_ref().to_owned();
        let ledger = Ledger::open(path, items_max.max(1))?;
        Ok(Self { ledger: Mutex::new(ledger), turns: Mutex::default() })
    }

    /// Runs `write` if the token is not older than any token admitted for the item. The token is durable before `write`
    /// runs, and no other write to the item is admitted until `write` has ended: a check that only happens before the
    /// write would be useless.
    ///
    /// # Errors
    /// If the write was not admitted: `write` did not run.
    pub fn write<R>(&self, item: &ItemId, token: Token, write: impl FnOnce() -> R) -> Result<R, Fenced> {
        let turn = lock(&self.turns).entry(item.clone()).or_default().clone();
        let taken = lock(&turn);
        // The ledger is unlocked before the write: only writes to the same item wait for it.
        let admitted = lock(&self.ledger).admit(item, token);
        let written = admitted.map(|()| write());
        drop(taken);
        drop(turn);
        self.forget_turn(item);
        written
    }

    /// The highest token admitted for the item.
    #[must_use]
    pub fn highest(&self, item: &ItemId) -> Option<Token> {
        lock(&self.ledger).highest.get(item).copied()
    }

    fn forget_turn(&self, item: &ItemId) {
        let mut turns = lock(&self.turns);
        if turns.get(item).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            turns.remove(item);
        }
    }
}

impl Ledger {
    fn open(path: PathBuf, items_max: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        file.try_lock()
            .map_err(|error| io::Error::other(format!("{} is locked by another guard: {error}", path.display())))?;
        let mut ledger =
            Self { path, file, highest: BTreeMap::new(), floor: Token(0), lines: 0, items_max, is_broken: false };
        let whole = ledger.read()?;
        // Drops a line that was incomplete when the machine stopped: no write was admitted for it.
        ledger.file.set_len(whole)?;
        ledger.file.seek(SeekFrom::Start(whole))?;
        ledger.file.sync_all()?;
        sync_folder(&ledger.path)?;
        Ok(ledger)
    }

    /// Returns the length of the complete lines.
    fn read(&mut self) -> io::Result<u64> {
        let mut reader = BufReader::new(self.file.try_clone()?);
        let mut whole = 0;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line)?;
            if read == 0 || line.last() != Some(&b'\n') {
                return Ok(whole);
            }
            let damaged = || io::Error::other(format!("{} is damaged after byte {whole}", self.path.display()));
            let (item, token) = parse(&line).ok_or_else(damaged)?;
            match item {
                Some(item) => _ = self.highest.insert(item, token),
                None => self.floor = token,
            }
            whole += read as u64;
            self.lines += 1;
        }
    }

    fn admit(&mut self, item: &ItemId, token: Token) -> Result<(), Fenced> {
        let highest = self.highest.get(item).copied();
        let least = highest.unwrap_or(self.floor);
        if token < least {
            return Err(Fenced::Stale { highest: least });
        }
        if highest == Some(token) {
            return Ok(());
        }
        if self.is_broken {
            return Err(Fenced::Disk(io::Error::other("an earlier write of the guard failed: reopen it")));
        }
        self.append(&line(Some(item), token)).map_err(Fenced::Disk)?;
        self.highest.insert(item.clone(), token);
        self.bound().map_err(Fenced::Disk)
    }

    fn append(&mut self, line: &str) -> io::Result<()> {
        let appended = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        self.is_broken = appended.is_err();
        self.lines += 1;
        appended
    }

    fn bound(&mut self) -> io::Result<()> {
        if self.highest.len() > self.items_max {
            let mut tokens: Vec<Token> = self.highest.values().copied().collect();
            tokens.sort_unstable();
            let last = tokens[tokens.len() / 4];
            self.floor = self.floor.max(Token(last.0.saturating_add(1)));
            self.highest.retain(|_, token| *token > last);
            return self.rewrite();
        }
        if self.lines > self.highest.len() * 2 + SLACK {
            return self.rewrite();
        }
        Ok(())
    }

    /// Rewrites the file atomically: after a crash there is the old file or the new one.
    fn rewrite(&mut self) -> io::Result<()> {
        let written = self.replace();
        self.is_broken |= written.is_err();
        written
    }

    fn replace(&mut self) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let mut file = File::create(&beside)?;
        file.try_lock().map_err(io::Error::other)?;
        let mut text = line(None, self.floor);
        for (item, token) in &self.highest {
            text += &line(Some(item), *token);
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        sync_folder(&self.path)?;
        self.file = file;
        self.lines = self.highest.len() + 1;
        Ok(())
    }
}

/// A line of the file. Without an item it holds the floor.
fn line(item: Option<&ItemId>, token: Token) -> String {
    let text = match item {
        Some(item) => format!("{token} {item}"),
        None => token.to_string(),
    };
    format!("{:08x} {text}\n", crc32c::crc32c(text.as_bytes()))
}

fn parse(line: &[u8]) -> Option<(Option<ItemId>, Token)> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (sum, text) = text.split_once(' ')?;
    if u32::from_str_radix(sum, 16).ok()? != crc32c::crc32c(text.as_bytes()) {
        return None;
    }
    match text.split_once(' ') {
        None => Some((None, Token(text.parse().ok()?))),
        Some((token, item)) => Some((Some(ItemId::new(item).ok()?), Token(token.parse().ok()?))),
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> ItemId {
        ItemId::new(name).unwrap()
    }

    fn is_admitted(guard: &FenceGuard, name: &str, token: u64) -> bool {
        match guard.write(&item(name), Token(token), || ()) {
            Ok(()) => true,
            Err(Fenced::Stale { .. }) => false,
            Err(Fenced::Disk(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn older_tokens_are_rejected_even_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fence");
        let guard = FenceGuard::open(&path).unwrap();
        assert!(FenceGuard::open(&path).is_err(), "a second guard would not know of the first");
        assert!(is_admitted(&guard, "disk", 7) && is_admitted(&guard, "disk", 7) && is_admitted(&guard, "tape", 3));
        assert!(!is_admitted(&guard, "disk", 6));
        drop(guard);
        let guard = FenceGuard::open(&path).unwrap();
        assert!(!is_admitted(&guard, "disk", 6) && is_admitted(&guard, "disk", 8) && !is_admitted(&guard, "tape", 2));
    }

    #[test]
    fn a_torn_line_is_dropped_and_a_damaged_line_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fence");
        let guard = FenceGuard::open(&path).unwrap();
        assert!(is_admitted(&guard, "disk", 7) && is_admitted(&guard, "tape", 9));
        drop(guard);
        let whole = fs::read(&path).unwrap();
        for torn in 0..whole.len() {
            fs::write(&path, &whole[..torn]).unwrap();
            let guard = FenceGuard::open(&path).unwrap();
            assert!(
                is_admitted(&guard, "disk", 7) && is_admitted(&guard, "tape", 9) && !is_admitted(&guard, "tape", 8)
            );
        }
        let mut damaged = whole.clone();
        damaged[3] ^= 1;
        fs::write(&path, damaged).unwrap();
        assert!(FenceGuard::open(&path).is_err());
    }

    #[test]
    fn forgotten_items_reject_older_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fence");
        let guard = FenceGuard::with_items_max(&path, 8).unwrap();
        for token in 1..=100 {
            assert!(is_admitted(&guard, &format!("item-{token}"), token));
        }
        drop(guard);
        let guard = FenceGuard::with_items_max(&path, 8).unwrap();
        assert!(lock(&guard.ledger).highest.len() <= 8);
        assert!((1..=90).all(|token| !is_admitted(&guard, &format!("item-{token}"), token)));
        assert!(is_admitted(&guard, "item-100", 100) && is_admitted(&guard, "item-1", 101));
    }

    #[test]
    fn the_file_does_not_grow_with_the_grants_of_one_item() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fence");
        let guard = FenceGuard::open(&path).unwrap();
        for token in 1..=1_200 {
            assert!(is_admitted(&guard, "disk", token));
        }
        assert!(lock(&guard.ledger).lines <= SLACK + 3);
        drop(guard);
        assert_eq!(FenceGuard::open(&path).unwrap().highest(&item("disk")), Some(Token(1_200)));
    }

    #[test]
    fn an_admitted_write_ends_before_a_newer_one_begins() {
        let folder = tempfile::tempdir().unwrap();
        let guard = Arc::new(FenceGuard::open(folder.path().join("fence")).unwrap());
        let written = Arc::new(Mutex::new(Vec::new()));
        let (began, go_on) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
        std::thread::scope(|scope| {
            let (first, second) = (guard.clone(), guard.clone());
            let (log, later) = (written.clone(), written.clone());
            scope.spawn(move || {
                let slow = || {
                    began.0.send(()).unwrap();
                    go_on.1.recv().unwrap();
                    log.lock().unwrap().push(1);
                };
                first.write(&item("disk"), Token(1), slow).unwrap();
            });
            began.1.recv().unwrap();
            scope.spawn(move || second.write(&item("disk"), Token(2), || later.lock().unwrap().push(2)).unwrap());
            go_on.0.send(()).unwrap();
        });
        assert_eq!(*written.lock().unwrap(), [1, 2]);
    }
}
