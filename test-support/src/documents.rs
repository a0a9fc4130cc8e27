//! Reads the files of the repository, for tests over its documents.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate is in a folder of the repository").to_owned()
}

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// The files directly in a folder whose names end in `.extension`, in the order of their names.
pub fn files_in(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let (files, _) = entries_of(folder);
    files.into_iter().filter(|file| file.extension().is_some_and(|of| of == extension)).collect()
}

/// The same for a folder and all folders below it. Hidden folders and build output are skipped.
pub fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = files_in(folder, extension);
    for below in entries_of(folder).1 {
        let name = below.file_name().unwrap_or_default().to_string_lossy();
        if name != "target" && !name.starts_with('.') {
            files.extend(files_below(&below, extension));
        }
    }
    files
}

/// The files and the folders in a folder. Links are neither.
fn entries_of(folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display())) {
        let entry = entry.expect("an entry of a folder");
        let kind = entry.file_type().expect("the type of an entry");
        if kind.is_file() {
            files.push(entry.path());
        } else if kind.is_dir() {
            folders.push(entry.path());
        }
    }
    files.sort();
    folders.sort();
    (files, folders)
}

/// What a Markdown text without code blocks shows as code.
pub fn code_spans(markdown: &str) -> impl Iterator<Item = &str> {
    markdown.split('`').skip(1).step_by(2)
}

/// The folders of a crate's tests in which a named file may be.
const FOLDERS: [&str; 10] =
    ["", "scenarios/", "cli/", "cluster/", "processes/", "edge/", "edge_server/", "log/", "peers/", "state/"];

/// Whether a test exists that a document names as `file::test` or `crate/file::test`; without a crate it is a test of
/// `lease`. The file is in the crate's `tests` or is `main.rs` in a folder of that name there, or it is the crate's
/// `src/file/tests.rs`; `crate/src/file::test` is in `src/file.rs`.
pub fn has_test(file: &str, test: &str) -> bool {
    let (krate, file) = file.split_once('/').unwrap_or(("lease", file));
    let krate = root().join(krate);
    let in_tests = FOLDERS.map(|folder| krate.join("tests").join(format!("{folder}{file}.rs")));
    let elsewhere = ["tests/{file}/main.rs", "src/{file}/tests.rs", "{file}.rs"];
    let elsewhere = elsewhere.map(|place| krate.join(place.replace("{file}", file)));
    let sources = in_tests.iter().chain(&elsewhere).filter_map(|place| std::fs::read_to_string(place).ok());
    // In a scenario file a name stands alone, without `fn`.
    let (scenario, function) = (format!("    {test}:\n"), format!("fn {test}()"));
    sources.into_iter().any(|source| source.contains(&scenario) || source.contains(&function))
}
