//! The form of a scenario: a short story in the words of the domain, with time as data, and the expected result.
//!
//! A script has one step per line: `TIME actor verb ...`, or `TIME tick`. `TIME` is cluster time (`0s`, `1m30s`,
//! `1500ms`). `TIME wall 12:00 ...` also sets the wall clock, to a time of 2026-03-01 or to a whole date; by default
//! the wall clock is midnight plus cluster time. Each step is one entry of the log; a line that begins with `&` adds a
//! command to the entry of the line before. `# ...` is a remark.
//!
//! An actor is `ada`, with a session `ada/s1`, in another space `ada@acme`. `mob*100` is a hundred actors, and
//! `100*ada` is ada sending the same command a hundred times. By default every actor is a verified user with the roles
//! worker and dispatcher for every queue; `op` is an operator and `root` an admin. Lines without a time change that for
//! the steps after them: `roles dee reader ops/ + worker dev/`, `roles eve none`, `kind bot agent of ada`,
//! `verified eve cached`.
//!
//! Commands read like sentences, with options after commas (`verbs.rs` has every verb). `... as r1` sets the request
//! id, `... as r1 again` marks a repeat, and `... as r1 again after 90s` a repeat that says how long ago it was first
//! sent. By default every line has its own request id. Three lines are not entries: `TIME eve watches` shows all events
//! so far as eve may see them, `TIME wakes` shows how many callers that wait in `next` the last entry wakes, by queue,
//! and `TIME queues` shows which queues exist.
//!
//! The rendering has one line per step: the outcomes, then the events. An event that an outcome implies (created,
//! granted, joined, released) must exist and is not shown again. Each step also runs on two replicas, one of which is
//! loaded from records before every step; `world.rs` compares them.

use super::script::{Script, StepKind};
use super::world::World;
use expect_test::Expect;
use lease::Code;
use std::collections::BTreeSet;

pub(crate) fn check(script: &str, expected: &Expect) {
    expected.assert_eq(&tell(script).0);
}

/// The refusal codes and event kinds that occurred in a script.
#[derive(Default)]
pub(crate) struct Covered {
    pub(crate) codes: BTreeSet<Code>,
    pub(crate) kinds: BTreeSet<&'static str>,
}

/// Runs a script and returns its rendering and what it covers.
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

/// Makes a test of every scenario, and a table of all of them for the test of coverage.
macro_rules! scenarios {
    ($($(#[doc = $doc:literal])* $name:ident: $script:literal => $expected:expr;)*) => {
        $($(#[doc = $doc])* #[test]
        fn $name() {
            crate::check::check($script, &$expected);
        })*

        pub(crate) const SCRIPTS: &[(&str, &str)] = &[$((stringify!($name), $script)),*];
    };
}
pub(crate) use scenarios;
