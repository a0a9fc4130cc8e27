//! The events in the cluster's own order, and the times of that order: every event was seen by some moment, and none
//! happened before its cause was requested. So every moment of a read is a range of positions in the stream.

use super::facts::{Facts, HolderNo, ItemNo, Number, number};
use crate::history::{Asked, History, Micros, Seen, WatcherSet};
use std::collections::{BTreeMap, BTreeSet, HashSet};

#[derive(Debug, Default)]
pub struct Stream<'h> {
    /// The events that watchers of everything saw, each once, by number.
    pub events: Vec<Happened<'h>>,
    /// For each event, where its part without gaps begins.
    pub part: Vec<usize>,
    /// Each event happened after this moment.
    pub not_before: Vec<Micros>,
    /// The moments by which positions were known to be reached, both increasing.
    known: Vec<(Micros, usize)>,
    /// The positions of each item's events.
    pub of_item: Vec<Vec<usize>>,
}

#[derive(Clone, Debug)]
pub struct Happened<'h> {
    pub number: Number,
    pub kind: &'h str,
    pub item: Option<ItemNo>,
    pub holder: Option<HolderNo>,
    pub token: Option<u64>,
    /// When the first watcher saw it.
    pub seen: Micros,
    pub event: &'h api::event::Event,
}

impl Happened<'_> {
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.number.0, self.number.1)
    }

    /// The lease that ended with it.
    #[must_use]
    pub fn ended(&self) -> Option<u64> {
        let is_late = || self.event.what.as_ref().and_then(|what| what.late) == Some(true);
        match self.kind {
            "released" | "expired" | "not_picked_up" | "taken_over" | "voided" | "reserved" | "handed_on"
            | "revoked" | "cancelled" => self.token,
            "completed" | "failed" => self.token.filter(|_| !is_late()),
            _ => None,
        }
    }

    /// The item is in a terminal state after it.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        let is_final = || self.event.what.as_ref().and_then(|what| what.is_final) == Some(true);
        matches!(self.kind, "completed" | "cancelled") || (self.kind == "failed" && is_final())
    }

    #[must_use]
    pub fn is_from_line(&self) -> bool {
        self.event.what.as_ref().and_then(|what| what.from_line) == Some(true)
    }

    /// The actor that it names in addition to a holder.
    #[must_use]
    pub fn actor(&self) -> Option<&str> {
        Some(self.event.what.as_ref()?.actor.as_ref()?.as_str())
    }
}

/// The watchers of a part: those that are listed, and those that got events of only one queue while others got events
/// of more between their first and their last event.
#[must_use]
pub fn partial(history: &History) -> Vec<WatcherSet> {
    let mut parts = history.about.watchers.clone();
    let named: HashSet<u32> = parts.iter().map(|set| set.watcher).collect();
    let queue_of = |seen: &Seen| seen.event.queue.as_ref().map(|queue| queue.as_str().to_owned());
    // For each watcher: its one queue, if it has one, and its first and last event.
    let mut told: BTreeMap<u32, (Option<String>, Number, Number)> = BTreeMap::new();
    let mut all: BTreeMap<Option<String>, BTreeSet<Number>> = BTreeMap::new();
    for seen in history.seen.iter().filter(|seen| !named.contains(&seen.watcher)) {
        let (number, queue) = (number_of(&seen.event), queue_of(seen));
        let of = told.entry(seen.watcher).or_insert((queue.clone(), number, number));
        if of.0 != queue {
            of.0 = None;
        }
        (of.1, of.2) = (of.1.min(number), of.2.max(number));
        all.entry(queue).or_default().insert(number);
    }
    for (watcher, (queue, first, last)) in told {
        let others = all.iter().filter(|(other, _)| **other != queue);
        let has_more = others.into_iter().any(|(_, numbers)| numbers.range(first..=last).next().is_some());
        if queue.is_some() && has_more {
            parts.push(WatcherSet { watcher, queue, item: None });
        }
    }
    parts
}

#[must_use]
pub fn number_of(event: &api::event::Event) -> Number {
    (event.number.0.epoch.0, event.number.0.seq)
}

impl<'h> Stream<'h> {
    #[must_use]
    pub fn new(facts: &mut Facts<'h>) -> Self {
        let history = facts.history;
        let partial: HashSet<u32> = partial(history).iter().map(|set| set.watcher).collect();
        let whole = history.seen.iter().filter(|seen| !partial.contains(&seen.watcher));
        let mut seen: Vec<_> = whole.map(|seen| (number_of(&seen.event), seen.at, &seen.event)).collect();
        seen.sort_by_key(|(number, at, _)| (*number, *at));
        seen.dedup_by_key(|(number, ..)| *number);
        let mut events = Vec::with_capacity(seen.len());
        for (number, at, event) in seen {
            let what = event.what.as_ref();
            let holder = what.and_then(|what| what.holder.as_ref());
            events.push(Happened {
                number,
                kind: &event.kind,
                item: event.item.as_ref().map(|item| facts.item(item.as_str())),
                holder: holder
                    .map(|who| facts.holder(who.actor.as_str(), who.session.as_ref().map(|session| session.as_str()))),
                token: what.and_then(|what| what.token).map(|token| token.0),
                seen: at,
                event,
            });
        }
        let mut part = Vec::with_capacity(events.len());
        for at in 0..events.len() {
            let follows = at > 0 && events[at].number.1 == events[at - 1].number.1 + 1;
            part.push(if follows { part[at - 1] } else { at });
        }
        let mut of_item = vec![Vec::new(); facts.items.len()];
        for (at, event) in events.iter().enumerate() {
            if let Some(item) = event.item {
                of_item[item].push(at);
            }
        }
        Self { events, part, not_before: Vec::new(), known: Vec::new(), of_item }
    }

    /// Computes the times of the stream, when the times of all requests are known.
    pub fn reckon(&mut self, facts: &Facts<'h>) {
        let mut lower = vec![0; self.events.len()];
        let mut known: Vec<(Micros, usize)> =
            self.events.iter().enumerate().map(|(at, event)| (event.seen, at)).collect();
        for (no, op) in facts.ops() {
            let is_cause = matches!(op.asked, Asked::Create { .. } | Asked::Update { .. });
            let Some(answered) = op.answered().filter(|answered| is_cause && answered.did != Some(false)) else {
                continue;
            };
            let Some(at) = answered.revision.as_deref().and_then(number).and_then(|number| self.place(number)) else {
                continue;
            };
            if self.events[at].item == facts.item_of[no] {
                lower[at] = facts.begin(no);
                known.extend(op.completed.map(|completed| (completed, at)));
            }
        }
        for grant in &facts.grants {
            if let Some(at) = grant.event {
                lower[at] = grant.lower;
                known.push((grant.upper, at));
            }
        }
        known.sort_unstable();
        let mut reached = 0;
        for (_, at) in &mut known {
            reached = reached.max(*at);
            *at = reached;
        }
        let mut latest = 0;
        self.not_before = lower
            .into_iter()
            .map(|lower| {
                latest = latest.max(lower);
                latest
            })
            .collect();
        self.known = known;
    }

    /// The position of the event with that number.
    #[must_use]
    pub fn place(&self, number: Number) -> Option<usize> {
        self.events.binary_search_by_key(&number, |event| event.number).ok()
    }

    /// The number of events that had certainly happened before that moment.
    #[must_use]
    pub fn reached_before(&self, moment: Micros) -> usize {
        let before = self.known.partition_point(|(known, _)| *known < moment);
        before.checked_sub(1).map_or(0, |at| self.known[at].1 + 1)
    }

    /// The number of events that may have happened by that moment.
    #[must_use]
    pub fn reachable_by(&self, moment: Micros) -> usize {
        self.not_before.partition_point(|not_before| *not_before <= moment)
    }

    /// The positions of an item's events that an operation between two moments can have seen: the state is the one
    /// before the first of them, or after any of them. `None`: there may be a gap, or nothing is known.
    #[must_use]
    pub fn around(&self, item: ItemNo, invoked: Micros, completed: Micros) -> Option<Around<'_>> {
        let (from, to) = (self.reached_before(invoked), self.reachable_by(completed));
        // After the last event that was seen, there may be unseen ones.
        if from == 0 || to >= self.events.len() || to < from || self.part[from - 1] != self.part[to] {
            return None;
        }
        let all = self.of_item.get(item)?;
        let first = all.partition_point(|at| *at < from);
        let last = all.partition_point(|at| *at < to);
        let begin = all.partition_point(|at| *at < self.part[from - 1]);
        Some(Around { before: &all[begin..first], during: &all[first..last] })
    }
}

/// The position of a moment among the events of one item.
#[derive(Clone, Copy, Debug)]
pub struct Around<'s> {
    /// Certainly happened before, without a gap since the first of them.
    pub before: &'s [usize],
    /// May have happened before, in this order.
    pub during: &'s [usize],
}
