//! I16. Every watcher gets events in order and none twice; a watcher of all events misses none, even if it resumes at
//! another node; a watcher of a part misses none of that part that others saw. A number is the same event for every
//! watcher.

use super::facts::{Facts, Number};
use super::stream::{number_of, partial};
use super::verdict::Verdict;
use crate::history::{Seen, WatcherSet};
use std::collections::{BTreeMap, HashMap};

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let history = facts.history;
    let mut verdict = Verdict { facts: history.seen.len() as u64, ..Verdict::default() };
    let mut by_watcher: BTreeMap<u32, Vec<&Seen>> = BTreeMap::new();
    for seen in &history.seen {
        by_watcher.entry(seen.watcher).or_default().push(seen);
    }
    let sets = partial(history);
    let parts: HashMap<u32, &WatcherSet> = sets.iter().map(|set| (set.watcher, set)).collect();
    for (watcher, told) in &by_watcher {
        in_order(*watcher, told, !parts.contains_key(watcher), &mut verdict);
        if let Some(set) = parts.get(watcher) {
            whole_part(facts, set, told, &mut verdict);
        }
    }
    one_event_per_number(facts, &mut verdict);
    let time = facts.stream.events.windows(2).filter(|pair| pair[1].event.at_ms < pair[0].event.at_ms);
    for pair in time {
        let what = format!(
            "event {} has time {} ms, before event {} with time {} ms",
            pair[1].name(),
            pair[1].event.at_ms,
            pair[0].name(),
            pair[0].event.at_ms
        );
        verdict.violate_with(pair[1].seen, what, &[], vec![pair[0].name(), pair[1].name()]);
    }
    verdict.notes.push(format!("{} watchers", by_watcher.len()));
    verdict
}

fn in_order(watcher: u32, told: &[&Seen], is_whole: bool, verdict: &mut Verdict) {
    for pair in told.windows(2) {
        let (before, now) = (number_of(&pair[0].event), number_of(&pair[1].event));
        let what = if now == before {
            "again"
        } else if now < before || now.1 <= before.1 {
            "out of order"
        } else if is_whole && now.1 != before.1 + 1 {
            "with a gap"
        } else {
            continue;
        };
        let what = format!("watcher {watcher} got event {} after {}: {what}", name(now), name(before));
        verdict.violate_with(pair[1].at, what, &[], vec![name(before), name(now)]);
    }
}

/// What others saw of this watcher's part, between its first and its last event.
fn whole_part(facts: &Facts<'_>, set: &WatcherSet, told: &[&Seen], verdict: &mut Verdict) {
    let mut numbers: Vec<Number> = told.iter().map(|seen| number_of(&seen.event)).collect();
    numbers.sort_unstable();
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return };
    for event in facts.stream.events.iter().filter(|event| (first..=last).contains(&&event.number)) {
        let is = |wanted: &Option<String>, is: Option<&str>| wanted.is_none() || wanted.as_deref() == is;
        let belongs = is(&set.queue, event.event.queue.as_ref().map(|queue| queue.as_str()))
            && is(&set.item, event.event.item.as_ref().map(|item| item.as_str()));
        if belongs && numbers.binary_search(&event.number).is_err() {
            let what = format!("watcher {} did not get event {} ({})", set.watcher, event.name(), event.kind);
            verdict.violate_with(event.seen, what, &[], vec![event.name()]);
        }
    }
}

fn one_event_per_number(facts: &Facts<'_>, verdict: &mut Verdict) {
    let mut first: HashMap<Number, &Seen> = HashMap::with_capacity(facts.stream.events.len());
    for seen in &facts.history.seen {
        let number = number_of(&seen.event);
        let known = first.entry(number).or_insert(seen);
        if known.event != seen.event {
            let what = format!(
                "event {} is {} to watcher {} and {} to watcher {}",
                name(number),
                in_words(known),
                known.watcher,
                in_words(seen),
                seen.watcher,
            );
            verdict.violate_with(seen.at, what, &[], vec![name(number)]);
        }
    }
}

fn in_words(seen: &Seen) -> String {
    let item = seen.event.item.as_ref().map_or("", |item| item.as_str());
    let token = seen.event.what.as_ref().and_then(|what| what.token);
    let token = token.map_or_else(String::new, |token| format!(" token {}", token.0));
    format!("\"{} {item}{token}\"", seen.event.kind)
}

fn name(number: Number) -> String {
    format!("{}.{}", number.0, number.1)
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, kept};

    #[test]
    fn watchers_that_get_every_event_once_and_in_order_are_accepted() {
        kept(
            "watcher 3 item=tape
             1s sees 0.1 created disk by=1
             1s sees 0.2 created tape by=1
             2s sees 0.3 updated tape by=1
             2s sees 0.2 created tape by=2
             9s sees 0.3 updated tape by=2
             9s sees 0.2 created tape by=3
             9s sees 0.3 updated tape by=3",
        );
    }

    #[test]
    fn a_watcher_of_one_queue_is_recognised_by_its_events() {
        let story = "
            1s sees 0.1 created disk queue=jobs
            1s sees 0.2 created tape queue=other
            1s sees 0.3 created book queue=jobs
            1s sees 0.4 created pen queue=jobs
            1s sees 0.1 created disk queue=jobs by=2
            1s sees 0.4 created pen queue=jobs by=2";
        kept(
            &format!("{story}\n1s sees 0.3 created book queue=jobs by=3\n1s sees 0.4 created pen queue=jobs by=3")
                .replace(
                    "1s sees 0.1 created disk queue=jobs by=2",
                    "1s sees 0.1 created disk queue=jobs by=2\n1s sees 0.3 created book queue=jobs by=2",
                ),
        );
        broken(&["I16"], story);
    }

    #[test]
    fn a_gap_a_repeat_and_a_step_back_are_found() {
        for numbers in [["0.1", "0.3"], ["0.2", "0.2"], ["0.3", "0.2"]] {
            let [one, two] = numbers;
            broken(&["I16"], &format!("1s sees {one} updated disk\n2s sees {two} updated disk"));
        }
    }

    #[test]
    fn two_events_with_the_same_number_are_found() {
        broken(
            &["I16"],
            "1s sees 0.2 created disk by=1
             1s sees 0.2 created tape by=2",
        );
    }

    #[test]
    fn a_missing_event_in_a_part_is_found() {
        broken(
            &["I16"],
            "watcher 2 queue=jobs
             1s sees 0.1 created disk queue=jobs
             1s sees 0.2 created tape queue=jobs
             1s sees 0.3 created book queue=jobs
             1s sees 0.1 created disk queue=jobs by=2
             1s sees 0.3 created book queue=jobs by=2",
        );
    }
}
