//! Durations and dates, as people write and read them.

use api::dates::Date;
use lease::numbers::Wall;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A duration: `500ms`, `90s`, `15m`, `1h30m`, `2d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span(pub(crate) Duration);

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Span {
    pub(crate) fn ms(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn of_ms(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a duration: write it like 500ms, 90s, 15m, 1h30m or 2d");
        let mut rest = text;
        let mut total: u64 = 0;
        let mut last = u64::MAX;
        if rest.is_empty() {
            return Err(wrong());
        }
        while !rest.is_empty() {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, after) = rest.split_at(digits);
            let letters = after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
            let (unit, after) = after.split_at(letters);
            let number: u64 = number.parse().map_err(|_| wrong())?;
            let (_, ms) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
            // Units go from the largest to the smallest, each at most once.
            if ms >= last {
                return Err(wrong());
            }
            total = number.checked_mul(ms).and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
            last = ms;
            rest = after;
        }
        Ok(Self(Duration::from_millis(total)))
    }
}

/// Shows the two largest units: milliseconds do not matter while there are hours.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.ms();
        let mut written = 0;
        for (name, ms) in UNITS {
            let number = left / ms;
            left %= ms;
            if number > 0 {
                write!(f, "{number}{name}")?;
                written += 1;
            } else if written > 0 {
                written += 1;
            }
            if written == 2 || (written > 0 && name == "s") {
                return Ok(());
            }
        }
        if written == 0 { f.write_str("0s") } else { Ok(()) }
    }
}

/// The time of this machine's clock.
pub(crate) fn wall_now() -> Wall {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// A date to the second, and how far it is from now by this machine's clock.
pub(crate) fn when(date: Date) -> String {
    let (now, at) = (wall_now().0, date.0.0);
    let away = if at >= now { format!("in {}", rounded(at - now)) } else { format!("{} ago", rounded(now - at)) };
    format!("{}, {away}", day(date))
}

fn rounded(ms: u64) -> Span {
    Span::of_ms(ms / 1_000 * 1_000)
}

/// `2026-11-16 22:52:19Z`
pub(crate) fn day(date: Date) -> String {
    let text = date.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{}Z", seconds.replace('T', " ")),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units_from_largest_to_smallest() {
        for (text, ms) in [
            ("500ms", 500),
            ("90s", 90_000),
            ("15m", 900_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("1s500ms", 1_500),
            ("0s", 0),
        ] {
            assert_eq!(text.parse(), Ok(Span::of_ms(ms)), "{text}");
        }
        for wrong in
            ["", "90", "s", "1.5h", "-1s", "1m1h", "1s1s", "1 s", "1w", "99999999999999999999s", "9999999999999999d"]
        {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_shown_with_their_two_largest_units() {
        for (ms, text) in [
            (0, "0s"),
            (500, "500ms"),
            (1_500, "1s"),
            (90_000, "1m30s"),
            (3_600_000, "1h"),
            (3_601_000, "1h"),
            (5_461_000, "1h31m"),
            (90_061_000, "1d1h"),
        ] {
            assert_eq!(Span::of_ms(ms).to_string(), text, "{ms}");
        }
    }
}
