//! The output of commands, without the parts that differ in every run.

/// Replaces dates and the distance from now.
pub fn timeless(text: &str) -> String {
    let mut timeless = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let is_date = rest.len() >= 20 && {
            let bytes = rest.as_bytes();
            bytes[..4].iter().all(u8::is_ascii_digit)
                && bytes[4] == b'-'
                && bytes[7] == b'-'
                && bytes[13] == b':'
                && bytes[19] == b'Z'
        };
        if is_date {
            timeless.push_str("DATE");
            rest = &rest[20..];
            // `, in 14m59s` or `, 3s ago`
            if let Some(away) = rest.strip_prefix(", ") {
                let end = away.find(['\n', ';']).unwrap_or(away.len());
                let away = &away[..end];
                let words = away.split("  ").next().unwrap();
                let words = words.strip_prefix("in ").map_or_else(
                    || words.find(" ago").map(|at| at + " ago".len()),
                    |span| Some("in ".len() + span.find(' ').unwrap_or(span.len())),
                );
                if let Some(length) = words {
                    timeless.push_str(", AWAY");
                    rest = &rest[2 + length..];
                }
            }
            // The columns after a date depend on its width.
            let blanks = rest.len() - rest.trim_start_matches(' ').len();
            if blanks > 1 {
                timeless.push_str("  ");
                rest = &rest[blanks..];
            }
            continue;
        }
        let next = rest.chars().next().unwrap();
        timeless.push(next);
        rest = &rest[next.len_utf8()..];
    }
    let lines = timeless.lines().map(|line| {
        // The width of a table head depends on the dates below it.
        let is_head = line.chars().all(|c| c.is_ascii_uppercase() || c == ' ') && line.contains("  ");
        let words: Vec<_> = line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
        if is_head { words.join("  ") } else { line.to_owned() }
    });
    lines.map(|line| line + "\n").collect()
}
