//! Cancelling held items and items that nobody holds: docs/RULES.md section 13.2.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    an_item_that_nobody_holds_is_cancelled_at_once:
    "0s   ada creates many in ops: queued; pending, delayed 60s; stale; reserved; blocked
     0s   op sets ops, attempts_max 1
     0s   ada claims blocked for 5s
     5s   op sets ops, attempts_max 5
     5s   ada claims all: stale for 5s; reserved for 5s
     6s   ada reserves reserved with token 3 for 60s
     10s  tick
     11s  dee cancels queued, because moot
     11s  dee cancels pending, because moot
     11s  dee cancels stale, because moot
     11s  dee cancels reserved, because moot
     11s  dee cancels blocked, because moot
     12s  dee cancels blocked, because moot" => expect![[r#"
         0s   created: queued r1, queued, created: pending r2, pending, created: stale r3, queued, created: reserved r4, queued, created: blocked r5, queued
         0s   policy of ops: version 1; policy_changed: version 1
         0s   granted: ada holds blocked, token 1, until 5s
         5s   policy of ops: version 2; expired: ada's blocked, token 1, an attempt; blocked: blocked, no attempts left; policy_changed: version 2
         5s   [granted: ada holds stale, token 2, until 10s, granted: ada holds reserved, token 3, until 10s]
         6s   reserved: reserved for 60s, until 66s, reserved; reserved: ada's reserved, token 3 until 66s
         10s  expired: ada's stale, token 2, an attempt
         11s  now: queued cancelled; cancelled: queued, by dee: moot
         11s  now: pending cancelled; cancelled: pending, by dee: moot
         11s  now: stale cancelled; cancelled: stale, by dee: moot
         11s  now: reserved cancelled; cancelled: reserved, by dee: moot
         11s  now: blocked cancelled; cancelled: blocked, by dee: moot
         12s  refused: terminal_item
     "#]];

    a_held_item_is_cancelled_thirty_seconds_after_the_renewal_that_showed_it:
    "0s   ada creates disk in ops
     0s   ada claims disk for 5m
     10s  dee cancels disk, because moot
     50s  ada renews disk with token 1
     60s  ada renews disk with token 1
     79s  ada records progress on disk with token 1
     80s  tick
     81s  ada renews disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 5m
         10s  now: disk active, ends by 5m; cancel_requested: disk, by dee: moot
         50s  renewed: disk until 80s, renew after 10s, cancel requested
         60s  renewed: disk until 80s, renew after 6666ms, cancel requested
         79s  now: disk active; activity_recorded: disk Progress:
         80s  cancelled: ada's disk, token 1, by time: moot
         81s  refused: lease_lost
     "#]];

    a_held_item_is_cancelled_at_its_expiry_at_the_latest:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     10s  dee cancels disk, because moot
     11s  bob claims disk, waiting
     20s  bob claims disk, waiting
     40s  bob claims disk, waiting
     60s  tick" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         10s  now: disk active, ends by 60s; cancel_requested: disk, by dee: moot
         11s  waiting: place 0 of 1
         20s  still waiting: place 0 of 1
         40s  still waiting: place 0 of 1
         60s  expired: ada's disk, token 1, an attempt; cancelled: disk, by time: moot; left_line: bob (terminal_item)
     "#]];

    force_cancels_a_held_item_at_once:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     10s  dee cancels disk, because moot, by force
     11s  ada renews disk with token 1
     12s  ada completes disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         10s  now: disk cancelled; cancelled: ada's disk, token 1, by dee: moot
         11s  refused: lease_lost
         12s  refused: terminal_item
     "#]];

    a_second_cancel_changes_nothing_but_force_may_follow:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     10s  dee cancels disk, because moot
     11s  dee cancels disk, because really
     12s  dee cancels disk, because now, by force" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         10s  now: disk active, ends by 60s; cancel_requested: disk, by dee: moot
         11s  now: disk active, ends by 60s
         12s  now: disk cancelled; cancelled: ada's disk, token 1, by dee: now
     "#]];

    a_holder_may_still_complete:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     10s  dee cancels disk, because moot
     11s  ada completes disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         10s  now: disk active, ends by 60s; cancel_requested: disk, by dee: moot
         11s  now: disk complete; completed: ada's disk, token 1
     "#]];

    after_a_cancel_request_every_end_of_the_lease_cancels_the_item:
    "0s   ada creates many in ops: a; b; c; d; e
     0s   ada claims all: a; b; c; d; e
     1s   dee cancels a, because moot
     &    dee cancels b, because moot
     &    dee cancels c, because moot
     &    dee cancels d, because moot
     &    dee cancels e, because moot
     2s   ada releases a
     2s   ada fails b with token 2
     2s   ada hands on c with token 3 to review
     2s   ada reserves d with token 4
     2s   op revokes e, because stuck" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued, created: d r4, queued, created: e r5, queued
         0s   [granted: ada holds a, token 1, until 15m, granted: ada holds b, token 2, until 15m, granted: ada holds c, token 3, until 15m, granted: ada holds d, token 4, until 15m, granted: ada holds e, token 5, until 15m]
         1s   now: a active, ends by 15m | now: b active, ends by 15m | now: c active, ends by 15m | now: d active, ends by 15m | now: e active, ends by 15m; cancel_requested: a, by dee: moot; cancel_requested: b, by dee: moot; cancel_requested: c, by dee: moot; cancel_requested: d, by dee: moot; cancel_requested: e, by dee: moot
         2s   released: a, unassigned, cancelled; cancelled: a, by ada: moot
         2s   now: b cancelled; failed: ada's b, token 2; cancelled: b, by ada: moot
         2s   now: c cancelled, at r20; handed_on: ada's c, token 3 to review; cancelled: c, by ada: moot
         2s   reserved: d for 2d, until 172802s, cancelled; released: ada's d, token 4; cancelled: d, by ada: moot
         2s   revoked: e, cancelled; revoked: ada's e, token 5, by op: stuck; cancelled: e, by op: moot
     "#]];

    /// Like a renewal, an extension answers that a cancel was requested, so the thirty seconds begin.
    an_extension_shows_the_cancel_too:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     10s  dee cancels disk, because moot
     50s  ada extends disk with token 1 by 10m
     79s  tick
     80s  tick" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         10s  now: disk active, ends by 60s; cancel_requested: disk, by dee: moot
         50s  extended: disk until 80s, cancel requested; extended: ada's disk, token 1 until 650s
         79s  nothing
         80s  cancelled: ada's disk, token 1, by time: moot
     "#]];

    a_claim_by_the_holder_shows_the_cancel_too:
    "0s   ada creates disk in ops
     0s   ada claims disk for 5m
     10s  dee cancels disk, because moot
     20s  ada claims disk for 5m
     50s  tick" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 5m
         10s  now: disk active, ends by 5m; cancel_requested: disk, by dee: moot
         20s  renewed: ada holds disk, token 1, until 50s, cancel requested
         50s  cancelled: ada's disk, token 1, by time: moot
     "#]];

    renew_all_shows_the_cancel_too:
    "0s   ada creates many in ops: a; b
     0s   ada claims all: a for 5m; b for 5m
     10s  dee cancels a, because moot
     20s  ada renews all
     50s  ada renews all, expecting a=1+b=2" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   [granted: ada holds a, token 1, until 5m, granted: ada holds b, token 2, until 5m]
         10s  now: a active, ends by 5m; cancel_requested: a, by dee: moot
         20s  renewed all: 2, 30s left, renew after 10s, cancel requested: a
         50s  renewed all: 1, 5m left, renew after 100s, lost: a; cancelled: ada's a, token 1, by time: moot
     "#]];
}
