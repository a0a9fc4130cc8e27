//! Replays the wait lines from the stream: joins, leaves and grants, and where they break the order.

use super::facts::{Facts, HolderNo, ItemNo};

/// A violation of a line's order, at that position of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Break {
    /// Another waiter was first.
    Overtook { first: HolderNo },
    /// Others waited, but this holder was granted without being in line.
    PastTheLine { first: HolderNo },
    /// A new waiter did not get the last place.
    WrongPlace { length: usize },
    /// Granted from a line without being in it.
    NotInLine,
}

/// The lines of all items, replayed.
#[derive(Debug, Default)]
pub struct Lines {
    pub breaks: Vec<(usize, Break)>,
    /// The number of grants whose line was known.
    pub grants: u64,
    pub joined: u64,
    /// The grants from a line: their positions in the stream.
    pub from_line: Vec<usize>,
}

impl Lines {
    #[must_use]
    pub fn new(facts: &Facts<'_>) -> Self {
        let mut lines = Self::default();
        for item in 0..facts.stream.of_item.len() {
            lines.replay(facts, item);
        }
        lines
    }

    fn replay(&mut self, facts: &Facts<'_>, item: ItemNo) {
        let stream = &facts.stream;
        let mut line: Option<Vec<HolderNo>> = None;
        let mut part = None;
        let mut was_taken_over = false;
        for at in stream.of_item[item].iter().copied() {
            let event = &stream.events[at];
            if part != Some(stream.part[at]) {
                part = Some(stream.part[at]);
                line = None;
            }
            let what = event.event.what.as_ref();
            let place = what.and_then(|what| what.place).map(|place| place as usize);
            match (event.kind, event.holder) {
                ("created" | "purged", _) => line = Some(Vec::new()),
                ("joined", Some(holder)) => {
                    self.joined += 1;
                    if place == Some(0) && line.is_none() {
                        line = Some(Vec::new());
                    }
                    if let Some(line) = &mut line {
                        if place.is_some_and(|place| place != line.len()) {
                            self.breaks.push((at, Break::WrongPlace { length: line.len() }));
                        }
                        line.push(holder);
                    }
                }
                ("left_line", Some(holder)) => line.iter_mut().for_each(|line| line.retain(|other| *other != holder)),
                ("reordered", _) => {
                    let first: Vec<&str> = what
                        .and_then(|what| what.first.as_ref())
                        .map(|first| first.iter().map(|actor| actor.as_str()).collect())
                        .unwrap_or_default();
                    let rank =
                        |holder: &HolderNo| first.iter().position(|actor| *actor == facts.holders[*holder].actor);
                    line.iter_mut().for_each(|line| line.sort_by_key(|holder| rank(holder).unwrap_or(usize::MAX)));
                }
                ("granted", Some(holder)) => {
                    if event.is_from_line() {
                        self.from_line.push(at);
                    }
                    if let Some(line) = &mut line {
                        self.grants += u64::from(event.is_from_line());
                        self.breaks.extend(judge(facts, at, line, holder, was_taken_over).map(|broken| (at, broken)));
                        line.retain(|other| *other != holder);
                    }
                }
                _ => {}
            }
            was_taken_over = matches!(event.kind, "taken_over" | "reserved" | "reservation_ended");
        }
    }
}

fn judge(facts: &Facts<'_>, at: usize, line: &[HolderNo], holder: HolderNo, was_taken_over: bool) -> Option<Break> {
    let event = &facts.stream.events[at];
    let first = line.first().copied();
    if event.is_from_line() {
        return match first {
            Some(first) if first == holder => None,
            Some(first) if line.contains(&holder) => Some(Break::Overtook { first }),
            _ => Some(Break::NotInLine),
        };
    }
    // The last holder may get it back during a lock delay, and a takeover does not use the line.
    let queue = event.event.queue.as_ref().map(|queue| queue.as_str());
    let has_delay = facts.history.about.queues.iter().any(|set| Some(&*set.queue) == queue && set.lock_delay_ms > 0);
    match first {
        Some(first) if first != holder && !was_taken_over && !has_delay => Some(Break::PastTheLine { first }),
        _ => None,
    }
}
