//! Every rule of the store as a short story. `scenarios/check.rs` says how to write a story and what each one checks;
//! docs/RULES.md lists the rules.

pub(crate) mod check;
mod render;
mod script;
mod sentence;
mod verbs;
mod world;

use std::collections::BTreeSet;

mod bounds;
mod cancel;
mod claim;
mod claim_many;
mod cluster;
mod create;
mod dependencies;
mod disclosure;
mod ending;
mod hold;
mod invalid;
mod line;
mod mirrors;
mod next;
mod policy;
mod queues;
mod requests;
mod rights;
mod shares;
mod spaces;
mod traps;
mod waking;
mod workers;
mod write;

/// Every scenario, by file.
const ALL: &[&[(&str, &str)]] = &[
    bounds::SCRIPTS,
    cancel::SCRIPTS,
    claim::SCRIPTS,
    claim_many::SCRIPTS,
    cluster::SCRIPTS,
    create::SCRIPTS,
    dependencies::SCRIPTS,
    disclosure::SCRIPTS,
    ending::SCRIPTS,
    hold::SCRIPTS,
    invalid::SCRIPTS,
    line::SCRIPTS,
    mirrors::SCRIPTS,
    next::SCRIPTS,
    policy::SCRIPTS,
    queues::SCRIPTS,
    requests::SCRIPTS,
    rights::SCRIPTS,
    shares::SCRIPTS,
    spaces::SCRIPTS,
    traps::SCRIPTS,
    waking::SCRIPTS,
    workers::SCRIPTS,
    write::SCRIPTS,
];

#[test]
fn every_refusal_and_every_event_happens_in_some_scenario() {
    let mut codes: BTreeSet<_> = lease::Code::ALL.into_iter().collect();
    let mut kinds: BTreeSet<_> = lease::event::What::KINDS.into_iter().collect();
    for (_, script) in ALL.iter().copied().flatten() {
        let (_, covered) = check::tell(script);
        codes = &codes - &covered.codes;
        kinds = &kinds - &covered.kinds;
    }
    assert!(codes.is_empty() && kinds.is_empty(), "no scenario is refused with {codes:?} or shows {kinds:?}");
}
