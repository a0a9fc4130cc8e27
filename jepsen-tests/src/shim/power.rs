//! A power loss: changes the disk of a killed node to what it would be if its machine had lost power at that moment.
//!
//! Bytes after the last sync of a file are lost. A file that was never synced is empty, or missing if its folder was
//! not synced since the file was created. Name changes (renames, deletions, links) that were not followed by a sync of
//! their folder are kept, or undone, all of them or only the last: file systems keep their order. Sometimes the tail of
//! a write-ahead file survives in part, cut at an arbitrary byte.

use super::{Control, Synced};
use crate::dice::Dice;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// What a power loss removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    pub bytes: u64,
    pub cut: usize,
    pub emptied: usize,
    pub removed: usize,
    pub torn: bool,
    /// Renames, deletions and links.
    pub undone: usize,
}

struct Found {
    path: PathBuf,
    about: Metadata,
    synced: Option<Synced>,
}

/// Removes everything unsynced from the directory of a node, which must not run.
///
/// # Errors
/// When files cannot be read or truncated.
pub fn lose(control: &Control, data: &Path, dice: &mut Dice) -> io::Result<Lost> {
    let synced = control.synced()?;
    let mut lost = Lost { undone: undo_names(control, dice)?, ..Lost::default() };
    let mut done = HashSet::new();
    let mut found = Vec::new();
    walk(data, &mut |path, about| {
        let key = key(about);
        // A file with two names is truncated once.
        if done.insert(key) {
            found.push(Found { path: path.to_owned(), about: about.clone(), synced: synced.get(&key).copied() });
        }
        Ok(())
    })?;
    let is_unsynced_wal = |file: &&Found| {
        file.path.extension().is_some_and(|extension| extension == "log")
            && file.synced.is_some_and(|synced| file.about.len() > synced.size)
    };
    // With two such files the later one could survive although the earlier did not: this is rare, and cannot be told
    // from damage.
    let may_tear = found.iter().filter(is_unsynced_wal).count() == 1 && dice.chance(40);
    for file in &found {
        let size = file.about.len();
        match file.synced {
            Some(synced) if size <= synced.size => {}
            Some(synced) => {
                let torn = may_tear && is_unsynced_wal(&file);
                let keep = if torn { synced.size + dice.below(size - synced.size) } else { synced.size };
                cut(&file.path, keep)?;
                lost.bytes += size - keep;
                lost.cut += 1;
                lost.torn |= torn;
            }
            None => {
                lost.bytes += size;
                if !name_is_safe(&file.path, &file.about, &synced)? && dice.chance(50) {
                    fs::remove_file(&file.path)?;
                    lost.removed += 1;
                } else if size > 0 {
                    cut(&file.path, 0)?;
                    lost.emptied += 1;
                }
            }
        }
    }
    Ok(lost)
}

/// A name change.
struct Named {
    number: u64,
    what: String,
    from: PathBuf,
    to: PathBuf,
    /// What the name referred to.
    grave: PathBuf,
}

/// Undoes the last name changes, and returns how many.
fn undo_names(control: &Control, dice: &mut Dice) -> io::Result<usize> {
    let mut all = named(&control.graves())?;
    all.sort_by_key(|named| named.number);
    let stand = match dice.below(3) {
        0 => all.len(),
        1 => 0,
        _ => usize::try_from(dice.below(all.len() as u64 + 1)).unwrap_or(0),
    };
    let mut undone = 0;
    for named in all.drain(stand..).rev() {
        undone += usize::from(named.undo()?);
    }
    control.forget_names()?;
    Ok(undone)
}

fn named(graves: &Path) -> io::Result<Vec<Named>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(graves)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        let (Some(number), Some("done")) = (number, path.extension().and_then(|extension| extension.to_str())) else {
            continue;
        };
        let text = fs::read_to_string(&path)?;
        // The process was killed while it wrote this record: the change is kept.
        if let [what, from, to, ""] = text.split('\n').collect::<Vec<_>>()[..] {
            let (what, from, to) = (what.to_owned(), from.into(), to.into());
            all.push(Named { number, what, from, to, grave: path.with_extension("file") });
        }
    }
    Ok(all)
}

impl Named {
    /// Returns false if its folder is gone, or another file has its name by now.
    fn undo(&self) -> io::Result<bool> {
        let is_free = |path: &Path| !path.exists() && path.parent().is_some_and(Path::exists);
        match self.what.as_str() {
            "unlink" if is_free(&self.from) => fs::hard_link(&self.grave, &self.from)?,
            "rmdir" if is_free(&self.from) => fs::create_dir(&self.from)?,
            "rename" if self.to.exists() && is_free(&self.from) => {
                fs::rename(&self.to, &self.from)?;
                if self.grave.exists() {
                    fs::hard_link(&self.grave, &self.to)?;
                }
            }
            "link" if self.to.exists() => fs::remove_file(&self.to)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The files of these that still exist.
pub(super) fn live_among(data: &Path, synced: &HashMap<u64, Synced>) -> io::Result<HashMap<u64, Synced>> {
    let mut live = HashMap::new();
    let mut take = |about: &Metadata| {
        let key = key(about);
        live.extend(synced.get(&key).map(|file| (key, *file)));
    };
    if !data.exists() {
        return Ok(live);
    }
    take(&fs::metadata(data)?);
    walk_all(data, &mut |_, about| {
        take(about);
        Ok(())
    })?;
    Ok(live)
}

/// The same computation as in the library.
fn key(about: &Metadata) -> u64 {
    (about.ino().wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ born(about)) | 1
}

fn born(about: &Metadata) -> u64 {
    let since = about.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos()))
}

/// Whether its folder was synced after it was created.
fn name_is_safe(path: &Path, about: &Metadata, synced: &HashMap<u64, Synced>) -> io::Result<bool> {
    let Some(folder) = path.parent() else { return Ok(true) };
    let folder = synced.get(&key(&fs::metadata(folder)?));
    Ok(folder.is_some_and(|folder| u64::try_from(folder.at).unwrap_or(0) > born(about)))
}

fn cut(path: &Path, to: u64) -> io::Result<()> {
    File::options().write(true).open(path)?.set_len(to)
}

fn walk(folder: &Path, visit: &mut dyn FnMut(&Path, &Metadata) -> io::Result<()>) -> io::Result<()> {
    walk_all(folder, &mut |path, about| if about.is_file() { visit(path, about) } else { Ok(()) })
}

fn walk_all(folder: &Path, visit: &mut dyn FnMut(&Path, &Metadata) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let about = fs::symlink_metadata(&path)?;
        visit(&path, &about)?;
        if about.is_dir() {
            walk_all(&path, visit)?;
        }
    }
    Ok(())
}
