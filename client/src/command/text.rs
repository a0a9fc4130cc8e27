//! Text for people.

use lease::names::is_invisible;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, Write as _};

pub(crate) fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes a message to standard error. A closed standard error is not a failure.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Makes foreign text safe for a terminal: replaces control characters, and escapes invisible ones, like `\u{202e}`.
pub(crate) fn clean(text: &str) -> String {
    shown(text, |_| false)
}

/// Like [`clean`], but keeps line breaks and tabs.
pub(crate) fn clean_lines(text: &str) -> String {
    shown(text, |c| c == '\n' || c == '\t')
}

fn shown(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut last = ' ';
    for c in text.chars() {
        // In emoji and in scripts that need them, joiners change what is shown and hide nothing.
        let joins = matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0f}') && !last.is_ascii();
        if c.is_control() && !is_kept(c) {
            shown.push('\u{fffd}');
        } else if is_invisible(c) && !joins {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
        last = c;
    }
    shown
}

/// The JSON name of an enum value.
pub(crate) fn word(word: impl Serialize) -> String {
    match serde_json::to_value(word) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(clean("pay\u{202e}roll\u{200b}\u{2028}\n"), "pay\\u{202e}roll\\u{200b}\\u{2028}\u{fffd}");
        assert_eq!(clean_lines("a\u{2066}\n\tb"), "a\\u{2066}\n\tb");
        for seen in ["größe", "日本", "⚠\u{fe0f} 👩\u{200d}🚒", "می\u{200c}خواهم"] {
            assert_eq!(clean(seen), seen);
        }
        assert_eq!(clean("a\u{200d}b"), "a\\u{200d}b");
    }
}
