//! A power loss: what the disk of a killed node would show if its machine had gone dark with it.
//!
//! Bytes behind the last sync of a file are gone, and a file that was never synced is empty, or not there if its folder was not
//! synced since it was made. What was done to names (renames, deletions, links) and not followed by a sync of their folder stands, or
//! is undone, all of it or the last of it: file systems keep those in order. Sometimes the tail of a write-ahead file survives
//! in part, torn where the disk stopped.

use super::{Control, Synced};
use crate::dice::Dice;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// What a power loss took.
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

/// Takes from a node's directory what it had not synced. It must not run.
///
/// # Errors
/// When files cannot be read or cut.
pub fn lose(control: &Control, data: &Path, dice: &mut Dice) -> io::Result<Lost> {
    let synced = control.synced()?;
    let mut lost = Lost { undone: undo_names(control, dice)?, ..Lost::default() };
    let mut done = HashSet::new();
    let mut found = Vec::new();
    walk(data, &mut |path, about| {
        let key = key(about);
        // A file with two names is cut once.
        if done.insert(key) {
            found.push(Found { path: path.to_owned(), about: about.clone(), synced: synced.get(&key).copied() });
        }
        Ok(())
    })?;
    let is_unsynced_wal = |file: &&Found| {
        file.path.extension().is_some_and(|extension| extension == "log")
            && file.synced.is_some_and(|synced| file.about.len() > synced.size)
    };
    // With two of them the later one may survive where the earlier did not: rare, and no crash of ours tells it from damage.
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

/// Something that was done to a name.
struct Named {
    number: u64,
    what: String,
    from: PathBuf,
    to: PathBuf,
    /// What the name stood for.
    grave: PathBuf,
}

/// Undoes the last of what was done to names, and says how much.
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
        // It was killed while it wrote this: what it did stands.
        if let [what, from, to, ""] = text.split('\n').collect::<Vec<_>>()[..] {
            let (what, from, to) = (what.to_owned(), from.into(), to.into());
            all.push(Named { number, what, from, to, grave: path.with_extension("file") });
        }
    }
    Ok(all)
}

impl Named {
    /// False: its folder is gone, or its name is another's by now.
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

/// Of these, the files that are still there.
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

/// As the library computes it.
fn key(about: &Metadata) -> u64 {
    (about.ino().wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ born(about)) | 1
}

fn born(about: &Metadata) -> u64 {
    let since = about.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos()))
}

/// Whether its folder was synced after it was made.
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
