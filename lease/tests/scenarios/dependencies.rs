//! Dependencies, and what happens to the items that wait for them: docs/RULES.md section 5.2.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    a_dependency_that_completes_wakes_its_dependents:
    "0s   ada creates many in ops: a; b; disk, after a+b
     0s   ada claims all: a; b
     1s   ada completes a with token 1
     2s   bob claims disk
     3s   ada completes b with token 2
     4s   bob claims disk" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: disk r3, pending
         0s   [granted: ada holds a, token 1, until 15m, granted: ada holds b, token 2, until 15m]
         1s   now: a complete; completed: ada's a, token 1
         2s   refused: not_ready, dependencies: 1
         3s   now: b complete; completed: ada's b, token 2; queued: disk
         4s   granted: bob holds disk, token 3, until 904s
     "#]];

    a_dependency_that_errors_or_is_cancelled_blocks_its_dependents:
    "0s   ada creates many in ops: a; b; one, after a; two, after b
     0s   ada claims a
     1s   ada fails a with token 1, finally
     2s   ada cancels b, because moot
     3s   bob claims one" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: one r3, pending, created: two r4, pending
         0s   granted: ada holds a, token 1, until 15m
         1s   now: a error; failed: ada's a, token 1, finally; blocked: one, a dependency ended
         2s   now: b cancelled; cancelled: b, by ada: moot; blocked: two, a dependency ended
         3s   refused: blocked
     "#]];

    a_queue_may_ignore_dependencies_that_failed:
    "0s   op sets ops, on_dependency_failed ignore
     0s   ada creates many in ops: a; b; disk, after a+b
     1s   ada cancels a, because moot
     2s   ada cancels b, because moot
     3s   ada creates late in ops, after a" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued, created: disk r4, pending
         1s   now: a cancelled; cancelled: a, by ada: moot
         2s   now: b cancelled; cancelled: b, by ada: moot; queued: disk
         3s   created: late r8, queued
     "#]];

    a_dependency_that_has_ended_before_counts_at_creation:
    "0s   ada creates many in ops: done; gone
     0s   ada claims done
     0s   ada completes done with token 1
     0s   ada cancels gone, because moot
     1s   ada creates one in ops, after done
     1s   ada creates two in ops, after gone+done" => expect![[r#"
         0s   created: done r1, queued, created: gone r2, queued
         0s   granted: ada holds done, token 1, until 15m
         0s   now: done complete; completed: ada's done, token 1
         0s   now: gone cancelled; cancelled: gone, by ada: moot
         1s   created: one r6, queued
         1s   created: two r7, blocked; blocked: two, a dependency ended
     "#]];

    a_blocked_dependent_waits_for_a_retry:
    "0s   ada creates many in ops: a; disk, after a
     1s   ada cancels a, because moot
     2s   ada reopens a
     3s   ada claims a
     4s   ada completes a with token 1
     5s   op retries disk
     6s   bob claims disk" => expect![[r#"
         0s   created: a r1, queued, created: disk r2, pending
         1s   now: a cancelled; cancelled: a, by ada: moot; blocked: disk, a dependency ended
         2s   now: a queued; reopened: a
         3s   granted: ada holds a, token 1, until 903s
         4s   now: a complete; completed: ada's a, token 1
         5s   now: disk queued; retried: disk
         6s   granted: bob holds disk, token 2, until 906s
     "#]];

    a_dependency_in_another_queue_counts_but_its_own_queues_policy_decides:
    "0s   op sets dev, on_dependency_failed ignore
     0s   ada creates a in dev
     0s   ada creates disk in ops, after a
     1s   ada cancels a, because moot" => expect![[r#"
         0s   policy of dev: version 1; policy_changed: version 1
         0s   created: a r2, queued
         0s   created: disk r3, pending
         1s   now: a cancelled; cancelled: a, by ada: moot; blocked: disk, a dependency ended
     "#]];

    an_unknown_or_purged_dependency_is_invalid:
    "0s   ada creates disk in ops, after ghost
     0s   op sets ops, retention 1s
     0s   ada creates a in ops
     0s   ada cancels a, because moot
     1s   tick
     2s   ada creates disk in ops, after a" => expect![[r#"
         0s   refused: invalid: depends_on ghost does not exist; create it first
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued
         0s   now: a cancelled; cancelled: a, by ada: moot
         1s   purged: a, cancelled
         2s   refused: invalid: depends_on a does not exist; create it first
     "#]];

    a_blocked_dependency_keeps_its_dependents_waiting:
    "0s   op sets ops, attempts_max 1
     0s   ada creates many in ops: a; disk, after a
     0s   ada claims a for 10s
     10s  tick
     11s  bob claims disk" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: disk r3, pending
         0s   granted: ada holds a, token 1, until 10s
         10s  expired: ada's a, token 1, an attempt; blocked: a, no attempts left
         11s  refused: not_ready, dependencies: 1
     "#]];

    an_item_has_at_most_a_thousand_dependents:
    "0s   ada creates a in ops
     0s   ada creates many in ops: n1..n1000, after a
     0s   ada creates more in ops, after a
     1s   ada claims a
     2s   ada completes a with token 1" => expect![[r#"
         0s   created: a r1, queued
         0s   created: n1 r2, pending, ... 998 more ..., created: n1000 r1001, pending
         0s   refused: too_many_dependents: a
         1s   granted: ada holds a, token 1, until 901s
         2s   now: a complete; completed: ada's a, token 1; 1000 x queued (n1 to n1000)
     "#]];

    waking_is_spread_over_entries:
    "0s   ada creates many in ops: a; b
     0s   ada creates many in ops: n1..n900, after a
     0s   ada creates many in ops: m1..m900, after b
     1s   ada claims all: a; b
     2s   ada completes a with token 1
     &    ada completes b with token 2
     2s   tick" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   created: n1 r3, pending, ... 898 more ..., created: n900 r902, pending
         0s   created: m1 r903, pending, ... 898 more ..., created: m900 r1802, pending
         1s   [granted: ada holds a, token 1, until 901s, granted: ada holds b, token 2, until 901s]
         2s   now: a complete | now: b complete; completed: ada's a, token 1; completed: ada's b, token 2; 1000 x queued (n1 to m100)
         2s   800 x queued (m101 to m900)
     "#]];

    /// Waking 2,700 dependents takes several entries; a dependent that was created after the reopen is not among them.
    a_dependent_of_a_reopened_item_is_not_woken_by_its_former_end:
    "0s   ada creates many in ops: a; b; c
     0s   ada creates many in ops: n1..n900, after a
     0s   ada creates many in ops: m1..m900, after b
     0s   ada creates many in ops: k1..k900, after c
     1s   ada claims all: a; b; c
     2s   ada completes a with token 1
     &    ada completes b with token 2
     &    ada completes c with token 3
     3s   dee reopens c
     &    dee creates disk in ops, after c
     4s   tick
     5s   bob claims disk" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued
         0s   created: n1 r4, pending, ... 898 more ..., created: n900 r903, pending
         0s   created: m1 r904, pending, ... 898 more ..., created: m900 r1803, pending
         0s   created: k1 r1804, pending, ... 898 more ..., created: k900 r2703, pending
         1s   [granted: ada holds a, token 1, until 901s, granted: ada holds b, token 2, until 901s, granted: ada holds c, token 3, until 901s]
         2s   now: a complete | now: b complete | now: c complete; completed: ada's a, token 1; completed: ada's b, token 2; completed: ada's c, token 3; 1000 x queued (n1 to m100)
         3s   now: c queued | created: disk r4711, pending; 1000 x queued (m101 to k200); reopened: c
         4s   700 x queued (k201 to k900)
         5s   refused: not_ready, dependencies: 1
     "#]];
}
