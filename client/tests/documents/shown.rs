//! The commands of a document: those in its blocks with their output, and those in its sentences.

use std::fs;
use test_support::documents::root;

/// The first words of commands.
const PROGRAMS: [&str; 14] = [
    "tenured",
    "tenure",
    "./x",
    "curl",
    "cargo",
    "openssl",
    "sqlite3",
    "jq",
    "systemctl",
    "systemd-analyze",
    "kubectl",
    "docker",
    "podman",
    "apt-get",
];

#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) document: String,
    pub(crate) line: usize,
    /// The command as shown, with its continuation lines.
    pub(crate) command: String,
    /// The output below it, if the block shows it.
    pub(crate) output: Option<Vec<String>>,
    /// In a sentence, where commands contain placeholders.
    pub(crate) is_inline: bool,
}

impl Shown {
    pub(crate) fn program(&self) -> &str {
        self.command.split_whitespace().next().unwrap_or_default()
    }

    pub(crate) fn place(&self) -> String {
        format!("{}:{}: {}", self.document, self.line, self.command)
    }
}

/// A block that holds no command.
#[derive(Clone, Debug)]
pub(crate) struct Other {
    pub(crate) place: String,
    pub(crate) first: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    pub(crate) commands: Vec<Shown>,
    pub(crate) others: Vec<Other>,
}

/// Every document of the repository, by its path from the top.
pub(crate) fn documents() -> Vec<String> {
    let mut found = vec!["README.md".to_owned(), "CHANGELOG.md".to_owned()];
    let mut folders = vec!["docs".to_owned(), "cluster-scripts".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

pub(crate) fn read(document: &str) -> Document {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut shown = Document::default();
    // The sentences, with the lines of blocks replaced by empty lines.
    let mut sentences: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let fence = lines[at].trim_start().starts_with("```");
        let is_block = fence || is_indented(lines[at]) && (at == 0 || lines[at - 1].trim().is_empty());
        if !is_block {
            sentences.push(lines[at]);
            at += 1;
            continue;
        }
        let from = if fence { at + 1 } else { at };
        let ends = |line: &str| if fence { line.trim() == "```" } else { !line.is_empty() && !is_indented(line) };
        let length = lines[from..].iter().position(|line| ends(line)).unwrap_or(lines.len() - from);
        block(document, from, &lines[from..from + length], &mut shown);
        let next = from + length + usize::from(fence);
        sentences.extend((at..next).map(|_| ""));
        at = next;
    }
    inline(document, &sentences.join("\n"), &mut shown);
    shown
}

/// Four blanks start a block; three belong to the text of a list item.
fn is_indented(line: &str) -> bool {
    line.starts_with("    ") && !line.trim().is_empty()
}

fn block(document: &str, from: usize, lines: &[&str], shown: &mut Document) {
    let indent = lines.iter().filter(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start().len());
    let indent = indent.min().unwrap_or(0);
    let lines: Vec<&str> = lines.iter().map(|line| line.get(indent..).unwrap_or_default()).collect();
    let is_session = lines.iter().any(|line| line.starts_with("$ "));
    let program = |line: &str| line.split_whitespace().next().is_some_and(|word| PROGRAMS.contains(&word));
    if !is_session && !lines.iter().any(|line| program(line)) {
        let first = lines.first().copied().unwrap_or_default().to_owned();
        shown.others.push(Other { place: format!("{document}:{}", from + 1), first });
        return;
    }
    let mut goes_on = false;
    for (at, line) in lines.iter().enumerate() {
        let begins = !goes_on && if is_session { line.starts_with("$ ") } else { !line.is_empty() };
        let text = line.strip_prefix("$ ").unwrap_or(line);
        if begins {
            shown.commands.push(Shown {
                document: document.to_owned(),
                line: from + at + 1,
                command: text.to_owned(),
                output: is_session.then(Vec::new),
                is_inline: false,
            });
        } else if let Some(last) = shown.commands.last_mut().filter(|_| !line.is_empty()) {
            if goes_on {
                last.command += &format!("\n{line}");
            } else if let Some(output) = &mut last.output {
                output.push((*line).to_owned());
            }
        }
        goes_on = (begins || goes_on) && line.ends_with('\\');
    }
}

/// Commands between backticks that have arguments. A name alone is no command.
fn inline(document: &str, text: &str, shown: &mut Document) {
    let mut line = 1;
    for (at, piece) in text.split('`').enumerate() {
        let begins_at = line;
        line += piece.matches('\n').count();
        let words: Vec<&str> = piece.split_whitespace().collect();
        if at % 2 == 1 && words.len() > 1 && PROGRAMS.contains(&words[0]) {
            shown.commands.push(Shown {
                document: document.to_owned(),
                line: begins_at,
                command: words.join(" "),
                output: None,
                is_inline: true,
            });
        }
    }
}
