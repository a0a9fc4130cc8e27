//! Reads one sentence of a script word by word: names, numbers and times.

use lease::caller::Holder;
use lease::command::{Attempt, Write};
use lease::item::{Mirrors, Transition};
use lease::names::{ActorId, ItemId, Label, Phase, QueueName, SessionId};
use lease::numbers::{Epoch, EventNumber, Span, Token, Wall};
use std::collections::VecDeque;

const DAY: u64 = 24 * 3_600_000;

/// One sentence: its words up to the first comma or colon, the options after commas, the entries after a colon.
pub(super) struct Sentence<'a> {
    pub(super) whole: &'a str,
    pub(super) words: VecDeque<&'a str>,
    pub(super) options: Vec<&'a str>,
    pub(super) entries: Option<&'a str>,
    /// The request's id, and which attempt of it this is.
    pub(super) request: Option<(String, Attempt)>,
}

/// ` after 90s`: sent again 90 s after the first attempt.
fn repeat_after(text: &str) -> Attempt {
    let age = text.strip_prefix(" after ").and_then(span_of);
    Attempt::repeat_after(age.unwrap_or_else(|| panic!("no time after which it is repeated: {text}")))
}

impl<'a> Sentence<'a> {
    pub(super) fn new(whole: &'a str, text: &'a str) -> Self {
        let (text, request) = match text.rsplit_once(" as ") {
            Some((text, id)) => {
                let (id, attempt) = match id.split_once(" again") {
                    None => (id, Attempt::First),
                    Some((id, "")) => (id, Attempt::Repeat),
                    Some((id, after)) => (id, repeat_after(after)),
                };
                (text, Some((id.to_owned(), attempt)))
            }
            None => (text, None),
        };
        let (text, entries) = text.split_once(": ").map_or((text, None), |(text, entries)| (text, Some(entries)));
        let mut clauses = text.split(", ");
        let words = clauses.next().unwrap_or("").split_whitespace().collect();
        Self { whole, words, options: clauses.map(str::trim).collect(), entries, request }
    }

    pub(super) fn fail(&self, why: &str) -> ! {
        panic!("cannot read the line `{}`: {why}", self.whole)
    }

    pub(super) fn word(&mut self) -> &'a str {
        self.words.pop_front().unwrap_or_else(|| self.fail("ends too soon"))
    }

    pub(super) fn rest(&mut self) -> &'a str {
        let Some(first) = self.words.front().copied() else { return "" };
        self.words.clear();
        &self.whole[first.as_ptr() as usize - self.whole.as_ptr() as usize..]
    }

    /// The text after one of its words.
    pub(super) fn behind(&self, word: &str) -> &'a str {
        &self.whole[word.as_ptr() as usize + word.len() - self.whole.as_ptr() as usize..]
    }

    /// Takes the next word if it is this one.
    pub(super) fn says(&mut self, word: &str) -> bool {
        let says = self.words.front() == Some(&word);
        if says {
            self.words.pop_front();
        }
        says
    }

    pub(super) fn must(&mut self, word: &str) {
        if !self.says(word) {
            self.fail(&format!("`{word}` was expected before {:?}", self.words));
        }
    }

    /// Takes the option that begins with this name and returns the rest of it.
    pub(super) fn option(&mut self, name: &str) -> Option<&'a str> {
        let is_it = |option: &&str| option.strip_prefix(name).is_some_and(|rest| rest.starts_with(' '));
        let index = self.options.iter().position(is_it)?;
        Some(self.options.remove(index)[name.len()..].trim())
    }

    pub(super) fn flag(&mut self, name: &str) -> bool {
        let index = self.options.iter().position(|option| *option == name);
        index.map(|index| self.options.remove(index)).is_some()
    }

    pub(super) fn number<T: std::str::FromStr>(&self, text: &str) -> T {
        text.parse().unwrap_or_else(|_| self.fail(&format!("no number: {text}")))
    }

    pub(super) fn span(&self, text: &str) -> Span {
        span_of(text).unwrap_or_else(|| self.fail(&format!("no time: {text}")))
    }

    /// `for 30s`, which is optional.
    pub(super) fn length(&mut self) -> Option<Span> {
        self.says("for").then(|| self.word()).map(|text| self.span(text))
    }

    /// `with token 7`, which is optional.
    pub(super) fn token(&mut self) -> Option<Token> {
        self.says("with").then(|| {
            self.must("token");
            let text = self.word();
            Token(self.number(text))
        })
    }

    pub(super) fn needed_token(&mut self) -> Token {
        self.token().unwrap_or_else(|| self.fail("`with token N` is missing"))
    }

    pub(super) fn item(&mut self) -> ItemId {
        item_id(self.word())
    }

    pub(super) fn queue(&mut self) -> QueueName {
        QueueName::new(self.word()).expect("a queue")
    }

    /// What every write carries after its item: `with token 7` and the option `reading r3`.
    pub(super) fn write(&mut self, item: ItemId) -> Write {
        let token = self.token();
        let read_at = self.option("reading").map(|text| self.revision(text));
        Write { item, token, read_at }
    }

    pub(super) fn revision(&self, text: &str) -> EventNumber {
        let text = text.strip_prefix('r').unwrap_or_else(|| self.fail(&format!("no revision: {text}")));
        let (epoch, seq) = text.split_once('.').unwrap_or(("0", text));
        EventNumber { epoch: Epoch(self.number(epoch)), seq: self.number(seq) }
    }

    pub(super) fn mirrors(&mut self) -> Mirrors {
        let Some(names) = self.option("mirroring") else { return Mirrors::ALL };
        let names = names.split('+').filter(|name| *name != "nothing");
        names.fold(Mirrors::NONE, |mirrors, name| mirrors.with(transition(name)))
    }

    /// Fails if some of the sentence was not understood.
    pub(super) fn done(&self) {
        if !self.words.is_empty() || !self.options.is_empty() {
            self.fail(&format!("not understood: {:?} {:?}", self.words, self.options));
        }
    }
}

pub(super) fn transition(name: &str) -> Transition {
    match name {
        "claimed" => Transition::Claimed,
        "completed" => Transition::Completed,
        "awaiting_input" => Transition::AwaitingInput,
        "attempts_exhausted" => Transition::AttemptsExhausted,
        other => panic!("no transition: {other}"),
    }
}

pub(super) fn holder(name: &str) -> Holder {
    let (actor, session) = name.split_once('/').map_or((name, None), |(actor, session)| (actor, Some(session)));
    Holder::new(actor_id(actor), session.map(|session| SessionId::new(session).expect("a session")))
}

pub(super) fn actor_id(name: &str) -> ActorId {
    ActorId::new(name).expect("an actor")
}

pub(super) fn item_id(name: &str) -> ItemId {
    ItemId::new(name).expect("an item")
}

pub(super) fn phase(name: &str) -> Phase {
    Phase::new(name).expect("a phase")
}

/// `red+big`; `l*33` is 33 different labels.
pub(super) fn labels(list: Option<&str>) -> Vec<Label> {
    let Some(list) = list.filter(|list| *list != "nothing") else { return Vec::new() };
    let label = |name: &str| Label::new(name).expect("a label");
    match list.split_once('*') {
        Some((stem, count)) => {
            (1..=count.parse::<u32>().expect("a count")).map(|n| label(&format!("{stem}{n}"))).collect()
        }
        None => list.split('+').map(label).collect(),
    }
}

/// Free words; `x*600` is a text of 600 bytes.
pub(super) fn text(words: Option<&str>) -> String {
    let words = words.unwrap_or("");
    match words.split_once('*').and_then(|(what, count)| Some((what, count.parse::<usize>().ok()?))) {
        Some((what, count)) => what.repeat(count),
        None => words.to_owned(),
    }
}

/// `1d`, `2h`, `1m30s`, `1500ms`.
pub(super) fn span_of(text: &str) -> Option<Span> {
    let (mut rest, mut sum) = (text, 0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = &rest[digits..];
        let letters = unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len());
        sum += number
            * match &unit[..letters] {
                "ms" => 1,
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => DAY,
                _ => return None,
            };
        rest = &unit[letters..];
    }
    (!text.is_empty()).then_some(Span(sum))
}

/// `12:00` of the first day, or `2026-04-01T12:00`.
pub(super) fn wall_of(text: &str) -> Wall {
    let (date, clock) = text.split_once('T').unwrap_or(("2026-03-01", text));
    let numbers = |text: &str, by: char| -> Vec<u64> {
        text.split(by).map(|part| part.parse().unwrap_or_else(|_| panic!("no wall time: {text}"))).collect()
    };
    let (date, clock) = (numbers(date, '-'), numbers(clock, ':'));
    // Days from civil: the calendar of March, in which leap days come last.
    let (year, month) = if date[1] > 2 { (date[0], date[1] - 3) } else { (date[0] - 1, date[1] + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + date[2] - 1 - 719_468;
    Wall(days * DAY + clock[0] * 3_600_000 + clock[1] * 60_000 + clock.get(2).unwrap_or(&0) * 1_000)
}
