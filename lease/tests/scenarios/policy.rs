//! Queue policy, pause and drain: docs/RULES.md section 14.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    a_queue_is_created_on_first_use_with_the_default_policy:
    "0s   ada creates disk in ops
     0s   ada claims disk for 48h
     1s   op revokes disk, because test
     1s   bob claims disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 1d, cut
         1s   revoked: disk, queued; revoked: ada's disk, token 1, by op: test
         1s   granted: bob holds disk, token 2, until 901s
     "#]];

    a_policy_change_may_name_the_version_that_was_read:
    "0s   op sets ops, lease_for 10s, version 0
     1s   op sets ops, lease_for 20s, version 0
     2s   op sets ops, lease_for 20s, version 1
     3s   op sets ops, lease_for 30s" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         1s   refused: invalid: version the policy is at version 1; read it again
         2s   policy of ops: version 2; policy_changed: version 2
         3s   policy of ops: version 3; policy_changed: version 3
     "#]];

    settings_must_be_consistent:
    "0s   op sets ops, lease_min 0s
     0s   op sets ops, lease_min 1h
     0s   op sets ops, lease_for 25h
     0s   op sets ops, pickup 25h
     0s   op sets ops, line_max 10001
     0s   op sets ops, backoff 2s 50 1h
     0s   op sets ops, backoff 2h 200 1h
     0s   op sets ops, phases a+a
     0s   op sets ops, mirrors claimed=a+claimed=b
     0s   op sets ops, retention 4000d
     0s   op sets ops, lock_delay 0s" => expect![[r#"
         0s   refused: invalid: lease_min must be more than zero
         0s   refused: invalid: lease_min must not exceed lease_for
         0s   refused: invalid: lease_for must not exceed lease_max
         0s   refused: invalid: pickup must not exceed lease_max
         0s   refused: invalid: line_max must not exceed 10000
         0s   refused: invalid: backoff.factor must not shrink the wait (100 percent or more)
         0s   refused: invalid: backoff.first must not exceed backoff.max
         0s   refused: invalid: phases has a duplicate phase
         0s   refused: invalid: mirrors has a duplicate transition
         0s   refused: invalid: retention must not exceed ten years; the unit is milliseconds
         0s   policy of ops: version 1; policy_changed: version 1
     "#]];

    a_new_policy_applies_to_later_decisions_only:
    "0s   ada creates many in ops: a; b
     0s   ada claims all: a for 60s; b for 60s
     1s   op sets ops, concurrency 1, lease_for 5s, lease_max 10s
     2s   ada renews a with token 1
     2s   bob claims a" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   [granted: ada holds a, token 1, until 60s, granted: ada holds b, token 2, until 60s]
         1s   policy of ops: version 1; policy_changed: version 1
         2s   renewed: a until 60s, renew after 19333ms
         2s   refused: already_claimed, retry after 58s, held by a user
     "#]];

    pause_stops_grants_while_holders_continue_and_waiters_keep_their_places:
    "0s   ada creates many in ops: a; b
     0s   ada claims a for 60s
     1s   bob claims a, waiting
     2s   op pauses ops
     3s   ada renews a with token 1
     4s   ada updates a with token 1, plan p
     5s   cid claims b
     6s   cid takes next of ops
     20s  bob claims a, waiting
     21s  ada completes a with token 1
     22s  op pauses ops
     23s  op unpauses ops
     24s  op unpauses ops
     25s  cid claims b" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   granted: ada holds a, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   ops is paused; paused: ops
         3s   renewed: a until 63s, renew after 20s, 1 in line
         4s   now: a r6; updated: a r6 plan
         5s   refused: queue_paused
         6s   empty: queue paused, retry after 1s
         20s  still waiting: place 0 of 1
         21s  now: a complete, at r6; completed: ada's a, token 1; left_line: bob (terminal_item)
         22s  ops is paused
         23s  ops is open; unpaused: ops
         24s  ops is open
         25s  granted: cid holds b, token 2, until 925s
     "#]];

    drain_ends_when_nothing_is_held:
    "0s   ada creates many in ops: a; b
     0s   ada claims a for 60s
     1s   op drains ops
     2s   op drains ops
     3s   bob claims b
     3s   bob takes next of ops
     4s   ada renews a with token 1 for 10s
     64s  tick
     65s  op drains ops
     66s  bob claims b
     67s  op unpauses ops
     68s  bob claims b" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   granted: ada holds a, token 1, until 60s
         1s   ops is draining; drain_started: ops
         2s   ops is draining
         3s   refused: queue_paused
         3s   empty: queue paused, retry after 1s
         4s   renewed: a until 60s, renew after 18666ms
         64s  expired: ada's a, token 1, an attempt; drained: ops
         65s  ops is drained
         66s  refused: queue_paused
         67s  ops is open; unpaused: ops
         68s  granted: bob holds b, token 2, until 968s
     "#]];

    a_drain_may_become_a_pause:
    "0s   ada creates many in ops: a; b
     0s   ada claims a for 60s
     1s   op drains ops
     2s   op pauses ops
     3s   bob claims b, waiting
     4s   op unpauses ops" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   granted: ada holds a, token 1, until 60s
         1s   ops is draining; drain_started: ops
         2s   ops is paused; paused: ops
         3s   waiting: place 0 of 1
         4s   ops is open; unpaused: ops; granted from the line: bob holds b, token 2, until 14s
     "#]];

    a_queue_may_be_paused_before_its_first_item:
    "0s   op pauses ops
     1s   ada creates disk in ops
     2s   bob claims disk" => expect![[r#"
         0s   ops is paused; paused: ops
         1s   created: disk r2, queued
         2s   refused: queue_paused
     "#]];

    a_lower_concurrency_ends_no_lease_and_waits_for_room:
    "0s   ada creates many in ops: a; b; c
     0s   ada claims all: a for 10s; b for 20s
     1s   op sets ops, concurrency 1
     2s   bob claims c for 60s, waiting
     10s  tick
     20s  tick" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued
         0s   [granted: ada holds a, token 1, until 10s, granted: ada holds b, token 2, until 20s]
         1s   policy of ops: version 1; policy_changed: version 1
         2s   waiting: place 0 of 1
         10s  expired: ada's a, token 1, an attempt
         20s  expired: ada's b, token 2, an attempt; granted from the line: bob holds c, token 3, until 30s
     "#]];
}
