//! Checks the sources themselves: which modules may use which others, and that no modules use each other in a cycle.
//!
//! It sees what is named: imports and paths. A method that another module adds to a type is not named, so a module that
//! only calls it does not count as its user.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of `node/src`. Each may use itself and those before it.
const FOLDERS: [&str; 7] = ["net", "replica", "peers", "admin", "observe", "edge", "daemon"];

/// Names that may occur only in some modules of `node`, each with the modules that may use it.
const ONLY_IN: [(&str, &[&str]); 12] = [
    ("tokio::net", &["net", "peers", "edge", "daemon"]),
    ("socket2", &["net", "edge::server"]),
    ("std::net::TcpListener", &[]),
    ("std::net::TcpStream", &["observe::otlp"]),
    ("axum", &["edge"]),
    ("hyper", &["edge"]),
    ("tower", &["edge"]),
    ("rocksdb", &[]),
    ("raft_store::state::rocks", &["peers::tokio_node", "daemon"]),
    ("raft_store::log", &["admin", "observe::scrape", "edge", "daemon"]),
    ("std::fs", &["net", "peers", "observe", "edge", "daemon"]),
    ("clap", &["observe::logs", "daemon"]),
];

/// Crates without a cycle between their modules.
const ACYCLIC: [&str; 5] = ["lease", "api", "raft-store", "node", "client"];

/// The crates that each crate may use.
const CRATES: [(&str, &[&str]); 6] = [
    ("lease", &["sabotage"]),
    ("api", &["lease"]),
    ("raft-store", &["lease", "sabotage"]),
    ("node", &["api", "lease", "raft-store", "sabotage"]),
    ("client", &["api", "lease"]),
    ("jepsen-tests", &["api", "client"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The modules of a crate, each with the paths that it names. A module is a file; its name is its path, such as
/// `edge::gate`, and the name of the crate's root is empty.
struct Modules(BTreeMap<String, Vec<String>>);

impl Modules {
    fn of(crate_name: &str) -> Self {
        let folder = root().join(crate_name).join("src");
        let mut files = Vec::new();
        collect(&folder, &mut files);
        let modules = files.iter().map(|file| {
            let name = file.strip_prefix(&folder).unwrap().with_extension("").to_str().unwrap().replace('/', "::");
            let name = if name == "lib" || name == "main" { String::new() } else { name };
            (name, paths_in(&product_code(&fs::read_to_string(file).unwrap())))
        });
        let modules: BTreeMap<_, _> = modules.collect();
        assert!(modules.len() > 5, "{crate_name}: the sources are not where they were");
        Self(modules)
    }

    /// The module that a path leads to, seen from another module. None: a path out of the crate.
    fn target(&self, from: &str, path: &str) -> Option<String> {
        let mut base: Vec<&str> = parts(from).collect();
        let mut rest = path.split("::").peekable();
        match *rest.peek()? {
            "crate" => {
                base.clear();
                rest.next();
            }
            "self" => _ = rest.next(),
            "super" => {
                while rest.next_if_eq(&"super").is_some() {
                    base.pop();
                }
            }
            first if self.0.contains_key(&joined(&base, first)) => {}
            _ => return None,
        }
        while let Some(part) = rest.next_if(|part| self.0.contains_key(&joined(&base, part))) {
            base.push(part);
        }
        Some(base.join("::"))
    }

    /// The modules that each module uses.
    fn uses(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let used = self.0.iter().map(|(from, paths)| {
            let used = paths.iter().filter_map(|path| self.target(from, path)).filter(|to| to != from);
            (from.as_str(), used.collect())
        });
        used.collect()
    }

    /// A cycle of modules in the same folder, if there is one. A module and the folder of its name are one unit: the
    /// modules in the folder may use it, and it may use them.
    fn cycle(&self) -> Option<Vec<String>> {
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, used) in self.uses() {
            for to in used {
                let (from, to): (Vec<&str>, Vec<&str>) = (parts(from).collect(), parts(&to).collect());
                let shared = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
                if shared < from.len().min(to.len()) {
                    uses.entry(from[..=shared].join("::")).or_default().insert(to[..=shared].join("::"));
                }
            }
        }
        let mut done = BTreeSet::new();
        uses.keys().find_map(|from| visit(from, &uses, &mut Vec::new(), &mut done))
    }
}

fn visit(
    from: &str,
    uses: &BTreeMap<String, BTreeSet<String>>,
    way: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(begin) = way.iter().position(|module| module == from) {
        return Some([&way[begin..], &[from.to_owned()]].concat());
    }
    if done.contains(from) {
        return None;
    }
    way.push(from.to_owned());
    let found = uses.get(from).into_iter().flatten().find_map(|to| visit(to, uses, way, done));
    way.pop();
    done.insert(from.to_owned());
    found
}

/// The parts of a module's name; the crate's root has none.
fn parts(module: &str) -> impl Iterator<Item = &str> {
    module.split("::").filter(|part| !part.is_empty())
}

fn joined(base: &[&str], part: &str) -> String {
    base.iter().copied().chain([part]).collect::<Vec<_>>().join("::")
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.file_name().unwrap().to_str().unwrap() {
            "bin" | "tests" | "tests.rs" => {}
            _ if path.is_dir() => collect(&path, files),
            name if name.ends_with(".rs") => files.push(path),
            _ => {}
        }
    }
}

/// The text without comments, the contents of strings, and the unit tests at its end.
fn product_code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let mut code = String::new();
    for line in text.lines() {
        let mut is_quoted = false;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' if is_quoted => _ = chars.next(),
                '"' => is_quoted = !is_quoted,
                '/' if !is_quoted && chars.peek() == Some(&'/') => break,
                _ if is_quoted => {}
                _ => code.push(c),
            }
        }
        code.push('\n');
    }
    code
}

/// Every path of two or more parts, and every import. Groups are written out: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn paths_in(code: &str) -> Vec<String> {
    let mut tokens = tokens(code).into_iter().peekable();
    let mut paths = Vec::new();
    while tokens.peek().is_some() {
        read_path(&mut tokens, "", &mut paths);
    }
    paths.retain(|path| path.contains("::"));
    paths
}

fn tokens(code: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut last = ' ';
    for c in code.chars() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        match tokens.last_mut() {
            Some(token) if is_word(c) && is_word(last) || c == ':' && last == ':' && token == ":" => token.push(c),
            _ if c.is_whitespace() => {}
            _ => tokens.push(c.into()),
        }
        last = c;
    }
    tokens
}

fn read_path(tokens: &mut std::iter::Peekable<std::vec::IntoIter<String>>, prefix: &str, paths: &mut Vec<String>) {
    let mut path = prefix.to_owned();
    while let Some(token) = tokens.next() {
        if token == "{" && !path.is_empty() {
            while tokens.peek().is_some_and(|token| token != "}") {
                read_path(tokens, &path, paths);
                tokens.next_if(|token| token == ",");
            }
            tokens.next();
            return;
        }
        if !token.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return paths.push(path);
        }
        path += &token;
        if tokens.next_if(|token| token == "::").is_none() {
            return paths.push(path);
        }
        path += "::";
    }
}

/// Whether a module or a path is this one or below it.
fn is_in(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn folder(module: &str) -> Option<usize> {
    FOLDERS.iter().position(|folder| is_in(module, folder))
}

#[test]
fn every_folder_of_the_node_uses_only_the_folders_before_it() {
    let modules = Modules::of("node");
    for (from, used) in modules.uses() {
        let Some(own) = folder(from) else {
            assert!(from.is_empty(), "{from} is in no folder: add it to one, or add a folder to FOLDERS");
            continue;
        };
        for to in used {
            assert!(folder(&to).is_some_and(|other| other <= own), "{from} uses {to}: {} must not", FOLDERS[own]);
        }
    }
}

#[test]
fn sockets_disks_and_http_are_used_only_where_they_belong() {
    let modules = Modules::of("node");
    for (module, paths) in &modules.0 {
        for (name, allowed) in ONLY_IN {
            if let Some(path) = paths.iter().find(|path| is_in(path, name)) {
                let is_allowed = allowed.iter().any(|allowed| is_in(module, allowed));
                assert!(is_allowed, "{module} uses {path}: only {allowed:?} may");
            }
        }
    }
}

#[test]
fn no_modules_use_each_other_in_a_cycle() {
    let cycles = ACYCLIC.iter().filter_map(|crate_name| Some((crate_name, Modules::of(crate_name).cycle()?)));
    let cycles: Vec<_> = cycles.map(|(crate_name, cycle)| format!("{crate_name}: {}", cycle.join(" uses "))).collect();
    assert!(cycles.is_empty(), "{}", cycles.join("\n"));
}

#[test]
fn every_crate_depends_only_on_the_crates_before_it() {
    for (name, allowed) in CRATES {
        let manifest = fs::read_to_string(root().join(name).join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]")).unwrap();
        let ours = dependencies.lines().filter(|line| line.contains("path = \"../"));
        for dependency in ours.filter_map(|line| line.split([' ', '.']).next()) {
            assert!(allowed.contains(&dependency), "{name} depends on {dependency}: only {allowed:?} are allowed");
        }
    }
}

#[test]
fn paths_are_found_in_imports_groups_and_code() {
    let code = "use a::{b, c::{d, self}};\n// x::y\nfn f() { g::h::<T>(\"i::j\"); k.l(); m: n::O }\n\
                #[cfg(test)]\nmod tests {}";
    assert_eq!(paths_in(&product_code(code)), ["a::b", "a::c::d", "a::c::self", "g::h::", "n::O"]);
}
