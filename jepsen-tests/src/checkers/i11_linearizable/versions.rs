//! The order of an item's revisions agrees with the order of time, every revision has one value, and an update that
//! names the revision it read replaced exactly that revision.

use crate::checkers::facts::{Facts, ItemNo, Number, OpNo, number};
use crate::checkers::i01_mutual_exclusion::describe;
use crate::checkers::verdict::{Verdict, seconds};
use crate::history::{Asked, Micros, Outcome};

/// An operation that created or saw a revision.
#[derive(Clone, Copy)]
struct Version {
    revision: Number,
    makes: bool,
    begin: Micros,
    end: Micros,
    value: Option<Option<u64>>,
    no: OpNo,
}

pub fn check(facts: &Facts<'_>, item: ItemNo, verdict: &mut Verdict) {
    let mut versions: Vec<Version> = facts.of_item[item].iter().filter_map(|no| version(facts, *no)).collect();
    if versions.is_empty() {
        return;
    }
    versions.sort_by_key(|version| (version.revision, !version.makes, version.begin));
    verdict.facts += versions.len() as u64;
    // The latest start of all operations with a lower revision.
    let mut latest: Option<Version> = None;
    for group in versions.chunk_by(|one, other| one.revision == other.revision) {
        let maker = group.first().filter(|version| version.makes);
        let value = group.iter().find_map(|version| version.value);
        for version in group {
            if let Some(latest) = latest.filter(|latest| version.end < latest.begin) {
                stale(facts, item, &latest, version, verdict);
            }
            if let Some(maker) = maker.filter(|maker| version.end < maker.begin) {
                let what = format!(
                    "revision {} of {} was seen at {}, before {} was asked, which made it",
                    name(version.revision),
                    facts.items[item],
                    seconds(version.end),
                    describe(facts.op(maker.no)),
                );
                verdict.violate(version.end, what, &[version.no, maker.no]);
            }
            if let (Some(one), Some(other)) = (value, version.value)
                && one != other
            {
                let what = format!("revision {} of {} has two values", name(version.revision), facts.items[item]);
                verdict.violate(version.begin, what, &[group[0].no, version.no]);
            }
        }
        let last = group.iter().max_by_key(|version| version.begin).copied();
        latest = latest.into_iter().chain(last).max_by_key(|version| version.begin);
    }
    read_at(facts, item, &versions, verdict);
    refusals(facts, item, &versions, verdict);
}

fn version(facts: &Facts<'_>, no: OpNo) -> Option<Version> {
    let op = facts.op(no);
    let answered = op.answered()?;
    let end = op.completed?;
    let made = |value| {
        let revision = answered.revision.as_deref().and_then(number)?;
        Some(Version { revision, makes: true, begin: facts.begin(no), end, value, no })
    };
    match (&op.asked, &answered.item) {
        (Asked::Create { .. }, _) if answered.did == Some(true) => made(None),
        (Asked::Update { value, .. }, _) => made(Some(Some(*value))),
        // Ending an item creates no revision: the answer contains the existing one.
        (Asked::Complete { .. } | Asked::Fail { .. }, _) => {
            made(None).map(|version| Version { makes: false, ..version })
        }
        (Asked::Read { .. }, Some(seen)) => {
            let revision = number(&seen.revision)?;
            Some(Version { revision, makes: false, begin: op.invoked, end, value: Some(seen.value), no })
        }
        _ => None,
    }
}

fn stale(facts: &Facts<'_>, item: ItemNo, old: &Version, new: &Version, verdict: &mut Verdict) {
    let what = format!(
        "{} asked at {} {} revision {} of {}, though revision {} was there by {}",
        describe(facts.op(old.no)),
        seconds(old.begin),
        if old.makes { "made" } else { "saw" },
        name(old.revision),
        facts.items[item],
        name(new.revision),
        seconds(new.end),
    );
    verdict.violate(old.begin, what, &[new.no, old.no]);
}

/// There is no other revision between the one that an update read and the one it created.
fn read_at(facts: &Facts<'_>, item: ItemNo, versions: &[Version], verdict: &mut Verdict) {
    for version in versions {
        let Asked::Update { read_at: Some(read_at), .. } = &facts.op(version.no).asked else { continue };
        let Some(read_at) = number(read_at) else { continue };
        let before = versions.partition_point(|other| other.revision < version.revision);
        let between = before.checked_sub(1).map(|at| &versions[at]).filter(|other| other.revision > read_at);
        if let Some(between) = between {
            let what = format!(
                "{} read revision {} and made {}, and there was {} between: that one is lost",
                describe(facts.op(version.no)),
                name(read_at),
                name(version.revision),
                name(between.revision),
            );
            verdict.violate(version.begin, what, &[between.no, version.no]);
        } else if version.revision <= read_at {
            let what = format!(
                "an update of {} read revision {} and made {}",
                facts.items[item],
                name(read_at),
                name(version.revision)
            );
            verdict.violate(version.begin, what, &[version.no]);
        }
    }
}

/// An update that was refused as stale found another revision than the one it read.
fn refusals(facts: &Facts<'_>, item: ItemNo, versions: &[Version], verdict: &mut Verdict) {
    let is_open = |no: &OpNo| {
        let op = facts.op(*no);
        let is_write = matches!(
            op.asked,
            Asked::Update { .. } | Asked::Complete { .. } | Asked::Fail { .. } | Asked::Revoke { .. }
        );
        is_write && op.outcome == Outcome::Unknown
    };
    let first_open = facts.of_item[item].iter().find(|no| is_open(no)).map_or(Micros::MAX, |no| facts.op(*no).invoked);
    for no in facts.of_item[item].iter().copied() {
        let op = facts.op(no);
        let (Asked::Update { read_at: Some(read_at), .. }, Outcome::Refused { code }) = (&op.asked, &op.outcome) else {
            continue;
        };
        let (Some(read_at), Some(completed), "stale_write") = (number(read_at), op.completed, code.as_str()) else {
            continue;
        };
        // A revision without an answer may have existed.
        if first_open <= completed {
            continue;
        }
        let begin = facts.begin(no);
        let from = versions.partition_point(|version| version.revision < read_at);
        let to = versions.partition_point(|version| version.revision <= read_at);
        let was_there = versions[from..to].iter().any(|version| version.end < begin);
        let followed = versions.get(to).map(|version| version.revision);
        let next = versions[to..].iter().take_while(|version| Some(version.revision) == followed);
        let next_made = next.filter(|version| version.makes).map(|version| version.begin).min();
        let still_there = versions[from..to].iter().any(|version| !version.makes && version.begin > completed)
            || next_made.is_some_and(|made| made > completed);
        verdict.fact();
        if was_there && still_there {
            let what = format!(
                "{} was refused, and the revision it read, {}, was the current one",
                describe(op),
                name(read_at)
            );
            verdict.violate(op.invoked, what, &[versions[from].no, no]);
        }
    }
}

fn name(revision: Number) -> String {
    format!("{}.{}", revision.0, revision.1)
}
