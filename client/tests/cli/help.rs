//! The help of every command, compared with the golden file `help.txt`. UPDATE_EXPECT=1 rewrites the file.

use crate::world::Tenure;
use expect_test::expect_file;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// The options of every command are in the golden file once.
const COMMON: &str = "\nOptions of every command:\n";

fn help(home: &Path, words: &[String]) -> String {
    let said = Tenure::new(home, words.iter().map(String::as_str).chain(["-h"])).said().ends_with(0);
    assert_eq!(said.err, "");
    said.out
}

/// The names under `Commands:`.
fn verbs(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(ToOwned::to_owned).collect()
}

fn tell(home: &Path, words: &mut Vec<String>, text: &mut String) {
    let help = help(home, words);
    let (own, common) = help.split_once(COMMON).unwrap_or((&help, ""));
    *text += &format!("$ tenure {}\n{own}\n", [words.join(" ").as_str(), "-h"].join(" ").trim_start());
    if words.is_empty() {
        *text += &format!("{COMMON}{common}\n");
    } else if !common.is_empty() {
        assert!(text.contains(common.trim_end()), "options of every command are the same: {words:?}");
    }
    for verb in verbs(&help) {
        words.push(verb);
        tell(home, words, text);
        words.pop();
    }
}

/// Every command without subcommands, as help lists them.
pub(crate) fn leaves(home: &Path) -> BTreeSet<String> {
    fn gather(home: &Path, words: &mut Vec<String>, all: &mut BTreeSet<String>) {
        let within = verbs(&help(home, words));
        if within.is_empty() {
            all.insert(words.join(" "));
        }
        for verb in within {
            words.push(verb);
            gather(home, words, all);
            words.pop();
        }
    }
    let mut all = BTreeSet::new();
    gather(home, &mut Vec::new(), &mut all);
    all
}

#[test]
fn help_matches_the_golden_file() {
    let home = tempfile::tempdir().unwrap();
    let mut text = String::new();
    tell(home.path(), &mut Vec::new(), &mut text);
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    expect_file!["help.txt"].assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn the_exit_codes_are_explained() {
    let home = tempfile::tempdir().unwrap();
    let asked = Tenure::new(home.path(), ["help", "exit-codes"]).said().ends_with(0);
    let named = Tenure::new(home.path(), ["exit-codes"]).said().ends_with(0);
    assert_eq!(asked.out.trim_end(), named.out.trim_end());
    for line in ["0    done", "3    refused", "5    lost", "7    unknown"] {
        assert!(named.out.contains(line), "{named:?}");
    }
    // The README has the same text.
    let codes = Tenure::new(home.path(), ["exit-codes", "--json"]).said().ends_with(0).out;
    let codes: Vec<Value> = codes.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<_> =
        codes.iter().map(|code| format!("| {} | {} |", code["code"], code["means"].as_str().unwrap())).collect();
    let readme = include_str!("../../../README.md");
    let head = "| exit code | |\n|--:|---|\n";
    let table = readme.split_once(head).unwrap().1.split_once("\n\n").unwrap().0;
    assert_eq!(table, rows.join("\n"));
    Tenure::new(home.path(), ["frobnicate"]).said().ends_with(2);
    Tenure::new(home.path(), [] as [&str; 0]).said().ends_with(2);
}
