//! The programs that a test starts.

use std::path::PathBuf;

/// The daemon: the one that `TENURED` names, or the one in the folder where this test was built.
pub fn tenured() -> PathBuf {
    if let Some(path) = std::env::var_os("TENURED") {
        return path.into();
    }
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().and_then(|folder| folder.parent()).map(|folder| folder.join("tenured"));
    match beside.filter(|path| path.exists()) {
        Some(path) => path,
        None => panic!("no daemon found: run `cargo build --package node --bin tenured`, or set TENURED to its path"),
    }
}
