//! Keeps the modules of this crate in layers: no module depends on itself through others, so each can be read without
//! the modules above it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use test_support::documents;

/// The modules at the top of a crate, each with the modules that it names.
type Modules = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_modules_of_lease_have_no_cycle() {
    let modules = modules(&documents::root().join("lease/src"));
    assert!(modules.len() > 25, "only {} modules were found", modules.len());
    assert_eq!(
        cycle(modules),
        Vec::<String>::new(),
        "each of these modules depends on the next, the last on the first"
    );
}

#[test]
fn a_cycle_is_found() {
    let modules = [("base", ""), ("claim", "item base"), ("item", "state"), ("state", "claim base"), ("view", "item")];
    let named = |names: &str| names.split_whitespace().map(str::to_owned).collect();
    let modules = modules.map(|(name, uses)| (name.to_owned(), named(uses)));
    assert_eq!(cycle(modules.into()), ["claim", "item", "state"]);
    let source = "use crate::{archive::Archive, state};\n// crate::comment\nfn f(at: crate::numbers::Time) {}\n\
                  #[cfg(test)]\nmod tests {\n    use crate::only_tests;\n}\n";
    assert_eq!(uses(source), ["archive", "numbers", "state"].map(str::to_owned).into());
}

fn modules(source: &Path) -> Modules {
    let mut modules = Modules::new();
    for path in documents::files_below(source, "rs") {
        let below = path.strip_prefix(source).expect("a file below the folder");
        let module = below.iter().next().expect("a name").to_string_lossy();
        let module = module.trim_end_matches(".rs").to_owned();
        if module != "lib" {
            modules.entry(module).or_default().extend(uses(&documents::read(&path)));
        }
    }
    let known: BTreeSet<_> = modules.keys().cloned().collect();
    for (module, uses) in &mut modules {
        uses.retain(|used| used != module && known.contains(used));
    }
    modules
}

/// The modules that a source names after `crate::`, outside comments and unit tests.
fn uses(source: &str) -> BTreeSet<String> {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines: Vec<_> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut uses = BTreeSet::new();
    for path in lines.join("\n").split("crate::").skip(1) {
        let group = path.strip_prefix('{').and_then(|group| group.split(';').next());
        for path in group.map_or(vec![path], |group| group.split(',').collect()) {
            let path = path.trim_start();
            let end = path.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(path.len());
            uses.insert(path[..end].to_owned());
        }
    }
    uses.remove("");
    uses
}

/// Modules of which each depends on the next and the last on the first. Empty if there is no cycle.
fn cycle(mut modules: Modules) -> Vec<String> {
    loop {
        let above_a_cycle = |uses: &BTreeSet<String>| uses.iter().any(|used| modules.contains_key(used));
        let free: Vec<_> =
            modules.iter().filter(|(_, uses)| !above_a_cycle(uses)).map(|(name, _)| name.clone()).collect();
        if free.is_empty() {
            break;
        }
        modules.retain(|name, _| !free.contains(name));
    }
    // Every module that is left depends on another one that is left, so a walk along them comes back to its path.
    let mut path: Vec<String> = modules.keys().next().into_iter().cloned().collect();
    while let Some(last) = path.last() {
        let next = modules[last].iter().find(|used| modules.contains_key(*used)).expect("one that is left").clone();
        if let Some(start) = path.iter().position(|name| *name == next) {
            return path.split_off(start);
        }
        path.push(next);
    }
    path
}
