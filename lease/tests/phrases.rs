//! Keeps the text that users see in plain English: phrases that stood in it before and that readers stumble over do not
//! come back.
//!
//! Users see the documents, the help texts, the problems, the OpenAPI descriptions and the log lines. All but the
//! documents are strings and doc comments of the product's sources.

use test_support::documents;

/// In lower case. See docs/STYLE.md for what to write instead. Of "behind" only the uses that mean "after": a node may
/// be behind another one.
const BANNED: [&str; 22] = [
    "unless said",
    "unless told",
    "unless it is told",
    "is told",
    "are told",
    "was told",
    "were told",
    "is none",
    "are none",
    "so many",
    "so long",
    "who asks",
    "who waits",
    "whoever",
    "beside",
    "wish",
    "behind it",
    "behind them",
    "behind this",
    "behind which",
    "stands behind",
    "comes behind",
];

#[test]
fn no_banned_phrase_is_in_text_that_users_see() {
    let root = documents::root();
    let mut texts = ["README.md", "CHANGELOG.md", "client/tests/cli/help.txt"].map(|path| root.join(path)).to_vec();
    for folder in ["docs", "cluster-scripts", "jepsen-tests"] {
        texts.extend(documents::files_below(&root.join(folder), "md"));
    }
    let crates = ["api", "client", "jepsen-tests", "lease", "node", "raft-store", "sabotage", "test-support"];
    let crates = crates.map(|name| root.join(name).join("src"));
    let sources: Vec<_> = crates.iter().flat_map(|folder| documents::files_below(folder, "rs")).collect();
    assert!(texts.len() > 40 && sources.len() > 200, "{} documents, {} sources", texts.len(), sources.len());
    let mut found = Vec::new();
    for path in texts.into_iter().chain(sources) {
        let text = documents::read(&path);
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        let shown = match is_source {
            true => only_shown(&text),
            false if path.ends_with("STYLE.md") => without_examples(&text),
            false => text,
        };
        let here = banned_in(&shown).into_iter();
        found.extend(here.map(|(line, phrase)| format!("{}:{line}: {phrase}", path.display())));
    }
    assert!(found.is_empty(), "write these in plain English (docs/STYLE.md):\n{}", found.join("\n"));
}

/// The strings and the doc comments of a source. Every line keeps its number.
fn only_shown(source: &str) -> String {
    let mut shown = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(next) = rest.chars().next() {
        let is_doc = (rest.starts_with("///") && !rest.starts_with("////")) || rest.starts_with("//!");
        let length = if is_doc || rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(hashes) = raw_string(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            let begin = hashes + 2;
            rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len())
        } else if next == '"' {
            end_of_string(rest)
        } else if let Some(length) = char_literal(rest) {
            length
        } else {
            // Code separates what is shown.
            shown.push(if next == '\n' { '\n' } else { '|' });
            rest = &rest[next.len_utf8()..];
            continue;
        };
        let (piece, after) = rest.split_at(length);
        match is_doc {
            // A sentence continues on the next line, after the indent of its comment.
            true => shown.push_str(&piece[3..]),
            false if next == '"' || next == 'r' => shown.push_str(&piece.replace("\\n", "| ").replace('\\', "  ")),
            false => shown.push('|'),
        }
        rest = if is_doc { after_indent(after, &mut shown) } else { after };
    }
    shown
}

/// The rest of a source after a doc comment, without the indent of the doc comment in the next line, if there is one.
fn after_indent<'s>(rest: &'s str, shown: &mut String) -> &'s str {
    match rest.strip_prefix('\n').map(str::trim_start) {
        Some(next) if next.starts_with("///") || next.starts_with("//!") => {
            shown.extend(rest[..rest.len() - next.len()].chars().filter(|c| *c == '\n'));
            next
        }
        _ => rest,
    }
}

/// The number of `#` of a raw string that begins here.
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let quoted = after.trim_start_matches('#');
    quoted.starts_with('"').then_some(after.len() - quoted.len())
}

/// The length of the string that begins here, with its quotation marks.
fn end_of_string(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    rest.len()
}

/// The length of a quotation mark as a character: it begins no string.
fn char_literal(rest: &str) -> Option<usize> {
    ["'\"'", "'\\\"'"].into_iter().find(|literal| rest.starts_with(literal)).map(str::len)
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
    fn strings_and_doc_comments_of_a_source_count_and_its_code_does_not() {
        let source = "/// Every caller is\n    /// told.\nlet wish = \"As you \\\n   wish\"; // whoever\nlet quote = '\"'; beside(r#\"a \" wish\"#);";
        assert_eq!(banned_in(&only_shown(source)), [(1, "is told"), (4, "wish"), (5, "wish")]);
        assert_eq!(banned_in(&only_shown("f(\"it is\", \"told\"); is(none)")), []);
    }

    #[test]
    fn examples_of_the_guide_do_not_count() {
        let guide = "| wish | request |\nNot `whoever`, not \"so many\".\nWrite so long.";
        assert_eq!(banned_in(&without_examples(guide)), [(3, "so long")]);
    }
}
