//! Keeps docs/RULES.md and the sources together: every section that a source cites exists, and so does every test that
//! the book names.

use std::collections::BTreeSet;
use test_support::documents;

const BOOK: &str = include_str!("../../docs/RULES.md");

#[test]
fn every_section_that_a_source_cites_exists() {
    let sections = sections(BOOK);
    let mut cited = 0;
    for path in documents::files_below(&documents::root(), "rs") {
        for section in citations(&documents::read(&path)) {
            let is_there = sections.contains(&section);
            assert!(is_there, "{} cites section {section} of docs/RULES.md, which has none", path.display());
            cited += 1;
        }
    }
    assert!(cited > 20, "only {cited} citations were found");
}

#[test]
fn every_section_that_the_book_refers_to_exists() {
    let sections = sections(BOOK);
    let unknown: Vec<_> = references(BOOK).into_iter().filter(|section| !sections.contains(section)).collect();
    assert!(unknown.is_empty(), "docs/RULES.md refers to sections that it does not have: {unknown:?}");
    let anchors: BTreeSet<_> = headings(BOOK).map(anchor).collect();
    let broken: Vec<_> = links(BOOK).filter(|link| !anchors.contains(*link)).collect();
    assert!(broken.is_empty(), "docs/RULES.md links to headings that it does not have: {broken:?}");
}

#[test]
fn every_test_that_the_book_names_exists() {
    assert_eq!(missing_tests(BOOK), Vec::<&str>::new(), "docs/RULES.md names tests or files that do not exist");
    let named = documents::code_spans(BOOK).filter(|span| span.contains("::")).count();
    assert!(named > 250, "only {named} tests are named");
}

/// The lines `## 6. Claiming an item` and `### 6.3 Takeover`, without their marks.
fn headings(book: &str) -> impl Iterator<Item = &str> {
    book.lines().filter_map(|line| line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")))
}

/// The numbers of the sections that a book has.
fn sections(book: &str) -> BTreeSet<String> {
    headings(book).map(number_at).filter(|number| !number.is_empty()).collect()
}

/// The sections that the book itself refers to.
fn references(book: &str) -> Vec<String> {
    book.split("section ").skip(1).map(number_at).filter(|number| !number.is_empty()).collect()
}

/// `6.3` of `6.3 Takeover`; empty where a text does not begin with a number.
fn number_at(text: &str) -> String {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.').to_owned()
}

/// Where the book links within itself.
fn links(book: &str) -> impl Iterator<Item = &str> {
    book.split("](#").skip(1).filter_map(|link| link.split(')').next())
}

/// The anchor that Markdown gives to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// The sections of the rule book that a source cites, as in "section 6" or "sections 9 and 11". A comment may be
/// wrapped anywhere in between.
fn citations(source: &str) -> Vec<String> {
    let is_mark = |word: &str| word.chars().all(|c| matches!(c, '/' | '!'));
    let words: Vec<&str> = source.split_whitespace().filter(|word| !is_mark(word)).collect();
    let mut cited = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let name = word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_ascii_lowercase();
        let is_followed = words.get(at + 1).is_some_and(|next| matches!(*next, "section" | "sections"));
        if !name.ends_with("rules.md") || !is_followed {
            continue;
        }
        for word in &words[at + 2..] {
            let number = number_at(word);
            if !number.is_empty() {
                cited.push(number);
            } else if *word != "and" {
                break;
            }
            if word.ends_with(['.', ':', ';']) {
                break;
            }
        }
    }
    cited
}

/// The tests and source files that a document names and that do not exist.
fn missing_tests(document: &str) -> Vec<&str> {
    let is_missing = |span: &&str| match span.rsplit_once("::") {
        // An ellipsis stands for any test of the file.
        Some((_, "…")) => false,
        Some((file, test)) => !documents::has_test(file, test),
        None => span.ends_with(".rs") && !documents::root().join(span).is_file(),
    };
    documents::code_spans(document).filter(is_missing).collect()
}

mod controls {
    use super::*;

    /// Apart from its sections, so that this file itself cites none that does not exist.
    const NAME: &str = "docs/RULES.md";

    #[test]
    fn citations_are_found_in_one_line_and_across_lines() {
        let cited = |text: &str| citations(text).join(" ");
        assert_eq!(cited(&format!("//! The wait line: {NAME} section 10.")), "10");
        assert_eq!(cited(&format!("//! Holding: {NAME} sections 9 and 11. The first 3 of them.")), "9 11");
        assert_eq!(cited(&format!("/// See {NAME}\n    /// section\n    /// 13.2: at once.")), "13.2");
        assert_eq!(cited(&format!("// {}, section 7", NAME.to_lowercase().replace("docs/", ""))), "7");
        assert_eq!(cited(&format!("// {NAME} says which section 7 means")), "");
    }

    #[test]
    fn a_section_that_the_book_does_not_have_is_noticed() {
        let book = "# Rules\n\n## 1. Time\n\nAs in [section 2](#2-space) and section 1.1.\n\n### 1.1 Order\n";
        assert_eq!(sections(book), BTreeSet::from(["1", "1.1"].map(String::from)));
        assert_eq!(references(book), ["2", "1.1"]);
        assert_eq!(links(book).collect::<Vec<_>>(), ["2-space"]);
        assert_eq!(headings(book).map(anchor).collect::<Vec<_>>(), ["1-time", "11-order"]);
        assert!(!sections(BOOK).contains("99") && citations(&format!("// {NAME} section 99")) == ["99"]);
    }

    #[test]
    fn a_test_or_a_file_that_does_not_exist_is_noticed() {
        let there = "`claim::an_unknown_item_is_not_found`, `claim::…`, `lease/tests/rulebook.rs`, `renew`";
        assert_eq!(missing_tests(there), Vec::<&str>::new());
        let missing =
            "`claim::no_such_story`, `no_such_file::an_unknown_item_is_not_found` and `lease/tests/no_such.rs`";
        let expected = ["claim::no_such_story", "no_such_file::an_unknown_item_is_not_found", "lease/tests/no_such.rs"];
        assert_eq!(missing_tests(missing), expected);
    }
}
