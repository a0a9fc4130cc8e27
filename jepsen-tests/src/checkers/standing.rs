//! The state of an item after each of its events: its holder and its assignee, as far as the stream shows.

use super::facts::{Facts, HolderNo, ItemNo, Number};
use crate::history::Micros;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing<'h> {
    /// `None` if unknown.
    pub holder: Option<Option<HolderNo>>,
    pub assignee: Option<Option<&'h str>>,
    /// The position of the last event that certainly changed it.
    pub revision: Option<Number>,
    /// The last lease expired, and nobody had the item since.
    pub has_lapsed: bool,
    pub is_terminal: Option<bool>,
}

/// After each event of the item.
#[must_use]
pub fn standings<'h>(facts: &Facts<'h>, item: ItemNo) -> Vec<Standing<'h>> {
    let stream = &facts.stream;
    let Some(places) = stream.of_item.get(item) else { return Vec::new() };
    let mut now = Standing::default();
    let mut part = None;
    let mut all = Vec::with_capacity(places.len());
    for at in places {
        let event = &stream.events[*at];
        if part != Some(stream.part[*at]) {
            part = Some(stream.part[*at]);
            now = Standing::default();
        }
        let actor = event.event.what.as_ref().and_then(|what| what.actor.as_ref()).map(|actor| actor.as_str());
        let holds = event.holder.map(|holder| facts.holders[holder].actor);
        match event.kind {
            "created" => {
                now = Standing { holder: Some(None), assignee: Some(None), is_terminal: Some(false), ..now };
            }
            "granted" => {
                now.holder = Some(event.holder);
                now.is_terminal = Some(false);
                now.has_lapsed = false;
                if !event.is_from_line() {
                    now.assignee = Some(holds);
                }
            }
            "picked_up" => (now.holder, now.assignee) = (Some(event.holder), Some(holds)),
            "assigned" => now.assignee = Some(actor),
            "unassigned" => now.assignee = Some(None),
            "reopened" | "retried" => now.is_terminal = Some(false),
            // A release may keep the assignment, and a revoke may move it: the assignee is unknown after that.
            "released" | "revoked" => now.assignee = None,
            "handed_on" => now.assignee = Some(None),
            _ => {}
        }
        if event.ended().is_some() {
            now.holder = Some(None);
            now.has_lapsed = event.kind == "expired";
        }
        if event.is_terminal() {
            (now.holder, now.assignee, now.is_terminal) = (Some(None), Some(None), Some(true));
        }
        match event.kind {
            "created" | "updated" => now.revision = Some(event.number),
            // With a result or an error its content has changed, without one it has not.
            "completed" | "failed" => now.revision = None,
            _ => {}
        }
        all.push(now);
    }
    all
}

/// The states that a read between two moments may have seen; empty if unknown.
pub fn possible<'a, 'h>(
    facts: &Facts<'h>,
    item: ItemNo,
    standings: &'a [Standing<'h>],
    (invoked, completed): (Micros, Micros),
) -> &'a [Standing<'h>] {
    let Some(around) = facts.stream.around(item, invoked, completed) else { return &[] };
    if around.before.is_empty() {
        return &[];
    }
    let places = &facts.stream.of_item[item];
    let last_before = places.partition_point(|at| *at < around.before[0]) + around.before.len() - 1;
    &standings[last_before..=last_before + around.during.len()]
}
