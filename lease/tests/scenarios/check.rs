//! The scenario form: a short story in the domain's words, with time as data, and what it must come to.
//!
//! A script has one step a line: `TIME actor verb ...`, or `TIME tick`. `TIME` is cluster time (`0s`, `1m30s`,
//! `1500ms`); `TIME wall 12:00 ...` also stamps a wall clock (of 2026-03-01, or a whole date; without it the wall clock
//! goes with cluster time from midnight). Each step is one entry of the log; a line that begins with `&` adds a command
//! to the entry before it. `# ...` is a remark.
//!
//! An actor is `ada`, with a session `ada/s1`, in another space `ada@acme`; `mob*100` are a hundred of them, and `100*ada`
//! is ada saying the same a hundred times. Everybody is a user, verified, a worker and
//! a dispatcher of every queue; `op` is an operator, `root` an admin. Lines without a time say otherwise, from there on:
//! `roles dee reader ops/ + worker dev/`, `roles eve none`, `kind bot agent of ada`, `verified eve cached`.
//!
//! Commands read like sentences, options follow after commas (`verbs.rs` has every verb). `... as r1` names the request
//! id, `... as r1 again` marks a repeat, `... as r1 again after 90s` one that says how long ago it was first sent; without
//! it every line has an id of its own. `TIME eve watches` is no entry: it shows all events so far, as eve may see them. Nor
//! is `TIME wakes`: it shows how many callers who wait in `next` the entry before it tells to look again, by queue. `TIME
//! queues` shows which queues there are.
//!
//! The rendering has one line a step: the outcomes, then the events. The event that an outcome promises anyway (created,
//! granted, joined, released) must be there and is not repeated. Under the surface each step runs on two replicas, one
//! of which is loaded from records anew before every step; see `world.rs` for what is compared.

use super::script::{Script, StepKind};
use super::world::World;
use expect_test::Expect;
use lease::Code;
use std::collections::BTreeSet;

pub(crate) fn check(script: &str, expected: &Expect) {
    expected.assert_eq(&tell(script).0);
}

/// What any of the scripts came to: refusal codes and event kinds.
#[derive(Default)]
pub(crate) struct Covered {
    pub(crate) codes: BTreeSet<Code>,
    pub(crate) kinds: BTreeSet<&'static str>,
}

/// Runs a script; answers its rendering and what it covers.
pub(crate) fn tell(script: &str) -> (String, Covered) {
    let mut world = World::new();
    let mut text = String::new();
    for step in Script::new(script) {
        let said = match &step.kind {
            StepKind::Entry(requests) => world.apply(&step, requests),
            StepKind::Watch(viewer) => world.watch(viewer),
            StepKind::Wakes => world.wakes(),
            StepKind::Queues => world.queues(),
        };
        let line = format!("{:<4} {}", step.time, if said.is_empty() { "nothing" } else { &said });
        text.push_str(line.trim_end());
        text.push('\n');
    }
    (text, world.covered)
}

/// Makes a test of every scenario, and a table of them all for the test of coverage.
macro_rules! scenarios {
    ($($(#[doc = $doc:literal])* $name:ident: $script:literal => $expected:expr;)*) => {
        $($(#[doc = $doc])* #[test]
        fn $name() {
            crate::scenarios::check::check($script, &$expected);
        })*

        pub(crate) const SCRIPTS: &[(&str, &str)] = &[$((stringify!($name), $script)),*];
    };
}
pub(crate) use scenarios;
