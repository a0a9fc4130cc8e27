//! Keeps the text that users see in plain English: phrases that stood in it before and that readers stumble over do not
//! come back.

use test_support::documents;

/// In lower case. See docs/STYLE.md for what to write instead.
const BANNED: [&str; 13] = [
    "unless said",
    "unless told",
    "unless it is told",
    "is told",
    "are told",
    "is none",
    "are none",
    "so many",
    "so long",
    "who asks",
    "whoever",
    "beside",
    "wish",
];

#[test]
fn no_banned_phrase_is_in_text_that_users_see() {
    let root = documents::root();
    let mut paths = ["client/tests/cli/help.txt", "api/src/code.rs", "README.md"].map(|path| root.join(path)).to_vec();
    paths.extend(documents::files_in(&root.join("docs"), "md"));
    let mut found = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = documents::read(&path);
        let shown = match name.as_str() {
            "code.rs" => only_strings(&text),
            "STYLE.md" => without_examples(&text),
            _ => text,
        };
        let here = banned_in(&shown).into_iter();
        found.extend(here.map(|(line, phrase)| format!("{}:{line}: {phrase}", path.display())));
    }
    assert!(found.is_empty(), "write these in plain English (docs/STYLE.md):\n{}", found.join("\n"));
}

/// What stands in quotation marks; every line keeps its number.
fn only_strings(source: &str) -> String {
    let strings = |line: &str| line.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" | ");
    source.lines().map(strings).collect::<Vec<_>>().join("\n")
}

/// The style guide without what it quotes: its tables, code and quotations. Every line keeps its number.
fn without_examples(guide: &str) -> String {
    let prose = |line: &str| {
        if line.starts_with('|') {
            return String::new();
        }
        line.split(['`', '"']).step_by(2).collect::<Vec<_>>().join(" | ")
    };
    guide.lines().map(prose).collect::<Vec<_>>().join("\n")
}

/// Every banned phrase in a text, with its line. Only whole words count; they may be separated by a line break.
fn banned_in(text: &str) -> Vec<(usize, &'static str)> {
    let words = words_of(text);
    let mut found = Vec::new();
    for phrase in BANNED {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        for run in words.windows(wanted.len()) {
            let is_same = run.iter().zip(&wanted).all(|(word, wanted)| word.text == *wanted);
            if is_same && run[1..].iter().all(|word| word.follows_space) {
                found.push((run[0].line, phrase));
            }
        }
    }
    found.sort_unstable();
    found
}

struct Word {
    /// In lower case.
    text: String,
    line: usize,
    /// Only white space is between this word and the one before.
    follows_space: bool,
}

/// Letters, digits and `_` make a word, so that the name of a test is one.
fn words_of(text: &str) -> Vec<Word> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = Vec::new();
    let mut follows_space = false;
    for (line, number) in text.lines().zip(1..) {
        let mut rest = line;
        while let Some(start) = rest.find(is_word) {
            follows_space &= rest[..start].trim().is_empty();
            rest = &rest[start..];
            let (word, behind) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
            words.push(Word { text: word.to_lowercase(), line: number, follows_space });
            follows_space = true;
            rest = behind;
        }
        follows_space &= rest.trim().is_empty();
    }
    words
}

mod controls {
    use super::*;

    #[test]
    fn a_phrase_is_found_in_any_case_and_across_lines() {
        assert_eq!(banned_in("The default,\nUnless  said otherwise."), [(2, "unless said")]);
        assert_eq!(banned_in("Every caller is\n  told."), [(1, "is told")]);
        assert_eq!(banned_in("(Whoever's turn it is)"), [(1, "whoever")]);
    }

    #[test]
    fn other_words_and_words_apart_are_not_found() {
        assert_eq!(banned_in("besides; wishes; a `name_of_whoever_asks`; it is. Told so; of them are | none"), []);
    }

    #[test]
    fn only_strings_of_a_source_and_no_examples_of_the_guide_count() {
        assert_eq!(banned_in(&only_strings("/// A wish.\nA = \"a\", 400, \"As you wish\";")), [(2, "wish")]);
        let guide = "| wish | request |\nNot `whoever`, not \"so many\".\nWrite so long.";
        assert_eq!(banned_in(&without_examples(guide)), [(3, "so long")]);
    }
}
