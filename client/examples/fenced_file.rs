//! A file that several holders write to, one after the other. A holder that was paused past the end of its lease writes
//! late. Without a guard its old content replaces the new content; with a guard the write is rejected.

use client::names::ItemId;
use client::{FenceGuard, Token};
use std::path::Path;
use std::{fs, io};

/// A write to a resource.
struct Write<'a> {
    token: Token,
    content: &'a str,
}

/// Accepts every write, also the late one.
fn write_unguarded(path: &Path, write: &Write<'_>) -> io::Result<()> {
    fs::write(path, write.content)
}

/// Accepts a write only if no newer holder has written.
fn write_guarded(guard: &FenceGuard, item: &ItemId, path: &Path, write: &Write<'_>) -> io::Result<()> {
    guard.write(item, write.token, || fs::write(path, write.content)).map_err(io::Error::other)?
}

/// Ada holds the item and is paused. Bob is granted the item and writes. Ada wakes up and writes. Returns the content
/// of both files.
pub(crate) fn late_write(folder: &Path) -> io::Result<(String, String)> {
    let item = ItemId::new("disk-42").map_err(|bad| io::Error::other(bad.to_string()))?;
    let guard = FenceGuard::open(folder.join("fence"))?;
    let (plain, fenced) = (folder.join("unguarded"), folder.join("guarded"));
    let bob = Write { token: Token(18), content: "bob's, who holds it" };
    let ada = Write { token: Token(17), content: "ada's, who lost it" };
    for write in [bob, ada] {
        write_unguarded(&plain, &write)?;
        // A holder whose write is rejected has to stop.
        let _ = write_guarded(&guard, &item, &fenced, &write);
    }
    Ok((fs::read_to_string(plain)?, fs::read_to_string(fenced)?))
}

#[allow(dead_code, clippy::print_stdout, reason = "run by people; the test runs what is above")]
fn main() -> io::Result<()> {
    let folder = std::env::temp_dir().join(format!("fenced-file-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let (unguarded, guarded) = late_write(&folder)?;
    println!("without a guard: {unguarded}\nwith a guard:    {guarded}");
    fs::remove_dir_all(folder)
}
