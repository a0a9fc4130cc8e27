//! What happens at each bound: docs/RULES.md section 20.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    a_queue_has_a_thousand_classes_of_items_and_no_more:
    "0s   ada creates many in ops: n1..n1000, needs itself
     1s   ada creates more in ops, needs gpu
     1s   ada creates more in ops
     1s   ada creates more in ops, needs n7
     1s   ada creates other in ops, mode cloud, needs gpu
     1s   ada creates mine in ops, local to ada, needs gpu
     1s   ada updates more, reading r1001, needs gpu
     1s   ada updates more, reading r1001, phase review
     1s   ada updates more, reading r1001, needs n8
     2s   bob takes next of ops, able n999
     2s   bob hands on n999 with token 1 to review
     3s   bob completes n999 with token 1
     3s   ada creates last in ops, needs gpu
     4s   ada reopens n999" => expect![[r#"
         0s   created: n1 r1, queued, ... 998 more ..., created: n1000 r1000, queued
         1s   refused: invalid: needs the queue already has 1000 combinations of mode, needs and phase
         1s   refused: invalid: needs the queue already has 1000 combinations of mode, needs and phase
         1s   created: more r1001, queued
         1s   created: other r1002, queued
         1s   created: mine r1003, queued
         1s   refused: invalid: needs the queue already has 1000 combinations of mode, needs and phase
         1s   refused: invalid: needs the queue already has 1000 combinations of mode, needs and phase
         1s   now: more r1004; updated: more r1004 needs
         2s   granted: bob holds n999, token 1, until 902s
         2s   refused: invalid: needs the queue already has 1000 combinations of mode, needs and phase
         3s   now: n999 complete; completed: bob's n999, token 1
         3s   created: last r1007, queued
         4s   refused: invalid: needs the queue already has 1000 combinations of mode, needs and phase
     "#]];

    /// The phase comes from the policy, which names at most 32.
    a_mirror_may_exceed_the_bound_on_classes:
    "0s   ada creates many in ops: n1..n999, needs itself
     0s   ada creates target in ops
     0s   ada creates source in dev, target target
     1s   ada creates last in ops, needs gpu
     1s   bob claims source
     2s   ada creates last in ops" => expect![[r#"
         0s   created: n1 r1, queued, ... 997 more ..., created: n999 r999, queued
         0s   created: target r1000, queued
         0s   created: source r1001, queued
         1s   refused: invalid: needs the queue already has 1000 combinations of mode, needs and phase
         1s   granted: bob holds source, token 1, until 901s; mirrored: target follows source (claimed) to in_progress
         2s   refused: invalid: needs the queue already has 1000 combinations of mode, needs and phase
     "#]];

    local_items_of_many_persons_do_not_use_up_the_classes_of_others:
    "0s   mob*1001 creates %-own in ops, local to %
     1s   mob1001 takes next of ops
     1s   mob1002 takes next of ops
     1s   ada creates disk in ops" => expect![[r#"
         0s   created: mob1-own r1, queued | ... 999 more ... | created: mob1001-own r1001, queued
         1s   granted: mob1001 holds mob1001-own, token 1, until 901s
         1s   empty: nothing eligible, retry after 1s
         1s   created: disk r1003, queued
     "#]];

    a_session_has_ten_thousand_leases_and_no_more:
    "0s   op sets ops, max_leases 0
     0s   ada creates many in ops: a1..a1000
     &    ada creates many in ops: b1..b1000
     &    ada creates many in ops: c1..c1000
     &    ada creates many in ops: d1..d1000
     &    ada creates many in ops: e1..e1000
     &    ada creates many in ops: f1..f1000
     &    ada creates many in ops: g1..g1000
     &    ada creates many in ops: h1..h1000
     &    ada creates many in ops: i1..i1000
     &    ada creates many in ops: j1..j1000
     &    ada creates many in ops: x; y; z
     0s   99*ada takes next of ops, count 100
     &    ada takes next of ops, count 99
     &    bob claims z
     1s   ada claims all or none: x; y
     &    ada takes next of ops, count 5
     &    ada takes next of ops, count 5
     &    ada claims y
     &    ada claims z, waiting
     &    ada/two claims y
     2s   ada claims y, taking over
     &    bob releases z
     &    ada renews all
     3s   ada releases a7
     &    ada claims y, taking over" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a1 r2, queued, ... 998 more ..., created: a1000 r1001, queued | ... 9 more ... | created: x r10002, queued, created: y r10003, queued, created: z r10004, queued
         0s   granted: ada holds a1, token 1, until 15m, ... 98 more ..., granted: ada holds a100, token 100, until 15m | ... 99 more ... | granted: bob holds z, token 10000, until 15m
         1s   [refused: all_or_none, refused: too_many_leases, max 10000] | granted: ada holds j1000, token 10001, until 901s | empty: too many leases, retry after 1s | refused: too_many_leases, max 10000 | waiting: place 0 of 1 | granted: ada/two holds y, token 10002, until 901s
         2s   refused: too_many_leases, max 10000 | released: z, unassigned, queued | renewed all: 10000, 15m left, renew after 5m; left_line: ada (too_many_leases)
         3s   released: a7, unassigned, queued | granted: ada holds y, token 10003, until 903s, first at 1s; taken_over: ada/two's y, token 10002
     "#]];

    an_actor_has_ten_thousand_leases_in_a_queue_by_default:
    "0s   ada creates many in ops: a1..a1000
     &    ada creates many in ops: b1..b1000
     &    ada creates many in ops: c1..c1000
     &    ada creates many in ops: d1..d1000
     &    ada creates many in ops: e1..e1000
     &    ada creates many in ops: f1..f1000
     &    ada creates many in ops: g1..g1000
     &    ada creates many in ops: h1..h1000
     &    ada creates many in ops: i1..i1000
     &    ada creates many in ops: j1..j1000
     &    ada creates many in ops: x; y; z
     &    ada creates other in dev
     0s   bob/s*200 takes next of ops, count 50
     1s   bob/s7 claims x
     &    bob claims other
     &    cid claims x
     2s   op sets ops, max_leases 10001
     2s   bob/s7 claims y" => expect![[r#"
         0s   created: a1 r1, queued, ... 998 more ..., created: a1000 r1000, queued | ... 10 more ... | created: other r10004, queued
         0s   granted: bob/s1 holds a1, token 1, until 15m, ... 48 more ..., granted: bob/s1 holds a50, token 50, until 15m | ... 198 more ... | granted: bob/s200 holds j951, token 9951, until 15m, ... 48 more ..., granted: bob/s200 holds j1000, token 10000, until 15m
         1s   refused: too_many_leases, max 10000 | granted: bob holds other, token 10001, until 901s | granted: cid holds x, token 10002, until 901s
         2s   policy of ops: version 1; policy_changed: version 1
         2s   granted: bob/s7 holds y, token 10003, until 902s
     "#]];

    there_are_ten_thousand_spaces_and_no_more:
    "0s   op@s*10000 sets the space, items_max 7
     1s   op@t sets the space, items_max 7
     &    op@t pauses ops
     &    op@t sets ops, lease_for 10s
     &    ada@t creates disk in ops
     &    ada@t registers
     &    ada@s10000 creates disk in ops" => expect![[r#"
         0s   policy of the space: version 1 | ... 9998 more ... | policy of the space: version 1; 10000 x space_policy_changed ( to )
         1s   refused: invalid: space cannot be created; the limit of 10000 is reached | refused: invalid: space cannot be created; the limit of 10000 is reached | refused: invalid: space cannot be created; the limit of 10000 is reached | refused: invalid: space cannot be created; the limit of 10000 is reached | refused: invalid: space cannot be created; the limit of 10000 is reached | created: disk r2, queued
     "#]];

    a_space_has_ten_thousand_queues_and_no_more:
    "0s   mob*10000 creates % in %
     1s   ada creates disk in ops
     &    op pauses ops
     &    op sets ops, lease_for 10s
     &    op pauses mob7
     &    ada creates disk in mob7" => expect![[r#"
         0s   created: mob1 r1, queued | ... 9998 more ... | created: mob10000 r10000, queued
         1s   refused: invalid: queue cannot be created; the limit of 10000 is reached | refused: invalid: queue cannot be created; the limit of 10000 is reached | refused: invalid: queue cannot be created; the limit of 10000 is reached | mob7 is paused | created: disk r10002, queued; paused: mob7
     "#]];

    a_space_has_a_hundred_thousand_workers_and_no_more:
    "0s   mob*100000 registers
     1s   bob registers
     &    mob7 registers
     &    mob7 removes worker mob7
     &    bob registers
     &    bob@acme registers" => expect![[r#"
         0s   registered for 60s | ... 99998 more ... | registered for 60s; 100000 x worker_registered ( to )
         1s   refused: invalid: worker cannot be registered; the limit of 100000 is reached | registered for 60s | worker removed | registered for 60s | registered for 60s; worker_registered: mob7; worker_removed: mob7; worker_registered: bob; worker_registered: bob
     "#]];

    answering_a_long_line_uses_up_the_steps_of_an_entry:
    "0s   op sets ops, attempts_max 1
     0s   ada creates many in ops: a; b; c
     0s   ada claims a for 10s
     0s   ada claims b for 10s
     0s   ada claims c for 11s
     1s   mob*999 claims a, waiting
     11s  tick
     11s  tick" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued, created: c r4, queued
         0s   granted: ada holds a, token 1, until 10s
         0s   granted: ada holds b, token 2, until 10s
         0s   granted: ada holds c, token 3, until 11s
         1s   waiting: place 0 of 1 | ... 997 more ... | waiting: place 998 of 999
         11s  expired: ada's a, token 1, an attempt; blocked: a, no attempts left; 999 x left_line (a to a)
         11s  expired: ada's b, token 2, an attempt; blocked: b, no attempts left; expired: ada's c, token 3, an attempt; blocked: c, no attempts left
     "#]];
}
