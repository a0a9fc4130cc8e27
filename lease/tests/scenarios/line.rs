//! The wait line: docs/RULES.md section 10.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    first_come_first_granted:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk for 60s, waiting
     2s   cid claims disk for 60s, waiting
     3s   ada releases disk
     4s   bob renews disk with token 2
     5s   bob releases disk
     6s   cid renews disk with token 3" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   waiting: place 1 of 2
         3s   released: disk, unassigned, active; granted from the line: bob holds disk, token 2, until 13s
         4s   renewed: disk until 64s, renew after 20s, 1 in line; picked_up: bob's disk, token 2
         5s   released: disk, unassigned, active; granted from the line: cid holds disk, token 3, until 15s
         6s   renewed: disk until 66s, renew after 20s; picked_up: cid's disk, token 3
     "#]];

    asking_again_keeps_the_place_and_is_its_heartbeat:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10m
     1s   bob claims disk, waiting as r1
     2s   cid claims disk, waiting as r2
     20s  bob claims disk, waiting as r1
     20s  cid claims disk, waiting as r3
     45s  bob claims disk, waiting
     50s  tick
     51s  cid claims disk, waiting as r2" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10m
         1s   waiting: place 0 of 1
         2s   waiting: place 1 of 2
         20s  still waiting: place 0 of 2
         20s  still waiting: place 1 of 2
         45s  still waiting: place 0 of 2
         50s  left_line: cid (wait_timeout)
         51s  refused: wait_timeout
     "#]];

    one_place_per_item_actor_and_session:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10m
     1s   bob/s1 claims disk, waiting
     1s   bob/s2 claims disk, waiting
     1s   bob claims disk, waiting
     2s   bob/s1 claims disk, waiting" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10m
         1s   waiting: place 0 of 1
         1s   waiting: place 1 of 2
         1s   waiting: place 2 of 3
         2s   still waiting: place 0 of 3
     "#]];

    a_place_ends_thirty_seconds_after_its_last_poll:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10m
     1s   bob claims disk, waiting as r1
     30s  tick
     31s  tick
     32s  bob claims disk, waiting as r1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10m
         1s   waiting: place 0 of 1
         30s  nothing
         31s  left_line: bob (wait_timeout)
         32s  refused: wait_timeout
     "#]];

    etcd11456_a_dead_waiter_is_skipped_in_the_step_that_would_have_granted_it:
    "0s   ada creates disk in ops
     0s   ada claims disk for 40s
     1s   bob claims disk, waiting
     20s  cid claims disk, waiting
     40s  tick" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 40s
         1s   waiting: place 0 of 1
         20s  waiting: place 1 of 2
         40s  left_line: bob (wait_timeout); expired: ada's disk, token 1, an attempt; granted from the line: cid holds disk, token 2, until 50s, was ada's
     "#]];

    a_token_is_minted_at_grant_and_never_on_joining:
    "0s   ada creates many in ops: disk; tape
     0s   ada claims disk for 60s
     1s   bob claims disk, waiting
     2s   cid claims tape
     3s   ada releases disk" => expect![[r#"
         0s   created: disk r1, queued, created: tape r2, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   granted: cid holds tape, token 2, until 902s
         3s   released: disk, unassigned, active; granted from the line: bob holds disk, token 3, until 13s
     "#]];

    a_grant_from_the_line_runs_for_pickup_until_its_holder_sends_a_command:
    "0s   op sets ops, pickup 5s
     0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk for 60s, waiting as r1
     2s   ada releases disk
     4s   bob claims disk for 60s, waiting as r1
     5s   bob claims disk for 60s, waiting as r1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   released: disk, unassigned, active; granted from the line: bob holds disk, token 2, until 7s
         4s   granted: bob holds disk, token 2, until 64s; picked_up: bob's disk, token 2
         5s   again granted: bob holds disk, token 2, until 64s, 59s left
     "#]];

    a_renewal_that_picks_up_keeps_the_length_that_the_claim_asked_for:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk for 2m, waiting
     2s   ada releases disk
     5s   bob renews disk with token 2 for 5s" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   released: disk, unassigned, active; granted from the line: bob holds disk, token 2, until 12s
         5s   renewed: disk until 125s, renew after 40s; picked_up: bob's disk, token 2
     "#]];

    a_grant_that_is_not_picked_up_leaves_the_item_unchanged_and_serves_the_next:
    "0s   op sets ops, attempts_max 2
     0s   ada creates disk in ops
     0s   ada claims disk for 10s
     1s   bob claims disk, waiting as r1
     2s   cid claims disk, waiting
     10s  tick
     20s  tick
     21s  bob claims disk, waiting as r1
     22s  cid releases disk" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         1s   waiting: place 0 of 1
         2s   waiting: place 1 of 2
         10s  expired: ada's disk, token 1, an attempt; granted from the line: bob holds disk, token 2, until 20s, was ada's
         20s  not_picked_up: bob's disk, token 2; granted from the line: cid holds disk, token 3, until 30s, was ada's
         21s  refused: lease_lost
         22s  released: disk, queued
     "#]];

    an_item_that_was_stale_is_stale_again_when_it_is_not_picked_up:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10s
     1s   bob claims disk, waiting
     10s  tick
     20s  tick
     21s  ada claims disk for 10s
     21s  op watches" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10s
         1s   waiting: place 0 of 1
         10s  expired: ada's disk, token 1, an attempt; granted from the line: bob holds disk, token 2, until 20s, was ada's
         20s  not_picked_up: bob's disk, token 2
         21s  granted: ada holds disk, token 3, until 31s, first at 0s
         21s  created: disk by ada; granted: ada holds disk, token 1, until 10s by ada; joined: bob at place 0 by bob; expired: ada's disk, token 1, an attempt by ?; granted from the line: bob holds disk, token 2, until 20s, was ada's by ?; not_picked_up: bob's disk, token 2 by ?; granted: ada holds disk, token 3, until 31s by ada
     "#]];

    until_it_is_picked_up_a_grant_writes_no_assignment_and_moves_no_mirror:
    "0s   ada creates many in ops: goal; disk, target goal
     0s   ada claims disk for 60s
     1s   bob claims disk for 60s, waiting
     2s   dee updates goal, reading r4, phase idle
     3s   ada releases disk, keeping it
     4s   bob renews disk with token 2
     5s   bob releases disk" => expect![[r#"
         0s   created: goal r1, queued, created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s; mirrored: goal follows disk (claimed) to in_progress
         1s   waiting: place 0 of 1
         2s   now: goal r6; updated: goal r6 phase
         3s   released: disk, active; granted from the line: bob holds disk, token 2, until 13s, was ada's
         4s   renewed: disk until 64s, renew after 20s; picked_up: bob's disk, token 2; mirrored: goal follows disk (claimed) to in_progress
         5s   released: disk, unassigned, queued
     "#]];

    a_grant_that_was_not_picked_up_keeps_origin_and_assignment:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk for 60s, waiting
     3s   ada releases disk, keeping it
     13s  tick
     14s  ada takes next of ops for 60s" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         3s   released: disk, active; granted from the line: bob holds disk, token 2, until 13s, was ada's
         13s  not_picked_up: bob's disk, token 2
         14s  granted: ada holds disk, token 3, until 74s, first at 0s
     "#]];

    any_first_command_of_the_holder_picks_up:
    "0s   ada creates many in ops: a; b; c
     0s   ada claims all: a; b; c
     1s   bob claims all: a for 60s, waiting; b for 60s, waiting; c for 60s, waiting
     2s   ada claims all: release a; release b; release c
     3s   bob records progress on a with token 4, saying hello
     3s   bob completes b with token 5
     3s   bob reserves c with token 6 for 60s" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued
         0s   [granted: ada holds a, token 1, until 15m, granted: ada holds b, token 2, until 15m, granted: ada holds c, token 3, until 15m]
         1s   [waiting: place 0 of 1, waiting: place 0 of 1, waiting: place 0 of 1]
         2s   [] [released: a, unassigned, active, released: b, unassigned, active, released: c, unassigned, active]; granted from the line: bob holds a, token 4, until 12s; granted from the line: bob holds b, token 5, until 12s; granted from the line: bob holds c, token 6, until 12s
         3s   now: a active; picked_up: bob's a, token 4; activity_recorded: a Progress: hello
         3s   now: b complete; picked_up: bob's b, token 5; completed: bob's b, token 5
         3s   reserved: c for 60s, until 63s, reserved; picked_up: bob's c, token 6; reserved: bob's c, token 6 until 63s
     "#]];

    a_release_before_pickup_serves_the_next_waiter:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   bob claims disk for 60s, waiting as r1
     1s   cid claims disk for 60s, waiting
     2s   ada releases disk
     3s   bob releases disk with token 2
     4s   bob claims disk for 60s, waiting as r1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   waiting: place 0 of 1
         1s   waiting: place 1 of 2
         2s   released: disk, unassigned, active; granted from the line: bob holds disk, token 2, until 12s
         3s   released: disk, active; granted from the line: cid holds disk, token 3, until 13s
         4s   refused: lease_lost
     "#]];

    a_claim_does_not_join_a_line_that_is_too_long:
    "0s   op sets ops, line_max 2
     0s   ada creates disk in ops
     0s   ada claims disk
     1s   bob claims disk, waiting
     1s   cid claims disk, waiting, line at most 1
     1s   cid claims disk, waiting
     1s   dee claims disk, waiting
     2s   cid claims disk, waiting, line at most 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   waiting: place 0 of 1
         1s   refused: line_too_long, 1 in line
         1s   waiting: place 1 of 2
         1s   refused: line_too_long, 2 in line
         2s   still waiting: place 1 of 2
     "#]];

    wait_for_ends_the_place_in_time:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   bob claims disk, waiting 5s as r1
     4s   bob claims disk, waiting 5s as r1
     6s   bob claims disk, waiting 5s as r1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   waiting: place 0 of 1
         4s   still waiting: place 0 of 1
         6s   refused: wait_timeout; left_line: bob (wait_timeout)
     "#]];

    withdraw_leaves_the_line_and_is_idempotent:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   bob claims disk, waiting as r1
     2s   bob withdraws from disk
     3s   bob withdraws from disk
     4s   bob claims disk, waiting as r1
     5s   bob withdraws from ghost" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   waiting: place 0 of 1
         2s   withdrawn: disk; left_line: bob
         3s   was in no line: disk
         4s   withdrawn: disk
         5s   refused: not_found
     "#]];

    a_withdrawn_claim_keeps_the_others_in_order:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   bob claims disk for 60s, waiting
     1s   cid claims disk for 60s, waiting
     1s   dee claims disk for 60s, waiting
     2s   cid withdraws from disk
     3s   dee claims disk for 60s, waiting
     4s   ada releases disk
     14s  tick" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   waiting: place 0 of 1
         1s   waiting: place 1 of 2
         1s   waiting: place 2 of 3
         2s   withdrawn: disk; left_line: cid
         3s   still waiting: place 1 of 2
         4s   released: disk, unassigned, active; granted from the line: bob holds disk, token 2, until 14s
         14s  not_picked_up: bob's disk, token 2; granted from the line: dee holds disk, token 3, until 24s
     "#]];

    reorder_puts_the_named_first_in_that_order:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   bob claims disk, waiting
     1s   cid claims disk, waiting
     1s   dee claims disk, waiting
     1s   eve claims disk, waiting
     2s   op reorders disk to eve+cid+zoe
     3s   bob claims disk, waiting
     3s   cid claims disk, waiting
     3s   dee claims disk, waiting
     3s   eve claims disk, waiting" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   waiting: place 0 of 1
         1s   waiting: place 1 of 2
         1s   waiting: place 2 of 3
         1s   waiting: place 3 of 4
         2s   line of disk: 4; reordered: eve+cid+zoe first
         3s   still waiting: place 2 of 4
         3s   still waiting: place 1 of 4
         3s   still waiting: place 3 of 4
         3s   still waiting: place 0 of 4
     "#]];

    reorder_of_an_empty_line_changes_nothing:
    "0s   ada creates disk in ops
     0s   op reorders disk to bob" => expect![[r#"
         0s   created: disk r1, queued
         0s   line of disk: 0
     "#]];

    a_line_waits_for_the_end_of_lock_delay:
    "0s   op sets ops, lock_delay 15s
     0s   ada creates disk in ops
     0s   ada claims disk for 10s
     1s   bob claims disk, waiting
     10s  tick
     20s  bob claims disk, waiting
     25s  tick" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         1s   waiting: place 0 of 1
         10s  expired: ada's disk, token 1, an attempt
         20s  still waiting: place 0 of 1
         25s  granted from the line: bob holds disk, token 2, until 35s, was ada's
     "#]];

    a_line_waits_for_unpause:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk, waiting
     2s   op pauses ops
     3s   ada releases disk
     4s   op unpauses ops" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   ops is paused; paused: ops
         3s   released: disk, unassigned, queued
         4s   ops is open; unpaused: ops; granted from the line: bob holds disk, token 2, until 14s
     "#]];

    a_line_waits_for_room_and_the_oldest_settles_first:
    "0s   op sets ops, concurrency 1
     0s   ada creates many in ops: a; b; c
     0s   ada claims a for 60s
     1s   bob claims c for 60s, waiting
     2s   cid claims b for 60s, waiting
     3s   dee claims a for 60s, waiting
     4s   ada releases a
     5s   bob releases c
     6s   cid releases b" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued, created: c r4, queued
         0s   granted: ada holds a, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   waiting: place 0 of 1
         3s   waiting: place 0 of 1
         4s   released: a, unassigned, queued; granted from the line: bob holds c, token 2, until 14s
         5s   released: c, queued; granted from the line: cid holds b, token 3, until 15s
         6s   released: b, queued; granted from the line: dee holds a, token 4, until 16s
     "#]];

    more_concurrency_settles_lines_at_once:
    "0s   op sets ops, concurrency 1
     0s   ada creates many in ops: a; b; c
     0s   ada claims a for 60s
     1s   bob claims b for 60s, waiting
     1s   cid claims c for 60s, waiting
     2s   op sets ops, concurrency 3" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued, created: c r4, queued
         0s   granted: ada holds a, token 1, until 60s
         1s   waiting: place 0 of 1
         1s   waiting: place 0 of 1
         2s   policy of ops: version 2; policy_changed: version 2; granted from the line: bob holds b, token 2, until 12s; granted from the line: cid holds c, token 3, until 12s
     "#]];

    a_line_waits_for_the_end_of_a_backoff:
    "0s   op sets ops, backoff 5s 200 1h
     0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk for 60s, waiting as r1
     2s   ada fails disk with token 1
     7s   tick
     8s   bob claims disk for 60s, waiting as r1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   now: disk pending; failed: ada's disk, token 1
         7s   queued: disk; granted from the line: bob holds disk, token 2, until 17s, was ada's
         8s   granted: bob holds disk, token 2, until 68s; picked_up: bob's disk, token 2
     "#]];

    /// Asking again keeps the place, whatever bars the item.
    a_poll_during_a_backoff_keeps_the_place:
    "0s   op sets ops, backoff 20s 200 1h
     0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk for 60s, waiting as r1
     2s   ada fails disk with token 1
     20s  bob claims disk for 60s, waiting as r1
     22s  tick
     23s  bob claims disk for 60s, waiting as r1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   now: disk pending; failed: ada's disk, token 1
         20s  still waiting: place 0 of 1
         22s  queued: disk; granted from the line: bob holds disk, token 2, until 32s, was ada's
         23s  granted: bob holds disk, token 2, until 83s; picked_up: bob's disk, token 2
     "#]];

    a_poll_during_a_reservation_keeps_the_place:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk for 60s, waiting as r1
     2s   ada reserves disk with token 1 for 40s
     20s  bob claims disk for 60s, waiting as r1
     42s  tick
     43s  bob claims disk for 60s, waiting as r1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   reserved: disk for 40s, until 42s, reserved; reserved: ada's disk, token 1 until 42s
         20s  still waiting: place 0 of 1
         42s  reservation_ended: ada's disk; granted from the line: bob holds disk, token 2, until 52s, was ada's
         43s  granted: bob holds disk, token 2, until 103s; picked_up: bob's disk, token 2
     "#]];

    a_poll_while_the_actors_other_session_holds_it_keeps_the_place:
    "0s   ada creates disk in ops
     0s   bob claims disk for 60s
     1s   ada/s1 claims disk for 60s, waiting
     2s   ada/s2 claims disk for 60s, waiting as r2
     3s   bob releases disk
     4s   ada/s1 renews disk with token 2
     5s   ada/s2 claims disk for 60s, waiting as r2
     6s   ada/s1 releases disk
     7s   ada/s2 claims disk for 60s, waiting as r2" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: bob holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   waiting: place 1 of 2
         3s   released: disk, unassigned, active; granted from the line: ada/s1 holds disk, token 2, until 13s
         4s   renewed: disk until 64s, renew after 20s, 1 in line; picked_up: ada/s1's disk, token 2
         5s   still waiting: place 0 of 1
         6s   released: disk, unassigned, active; granted from the line: ada/s2 holds disk, token 3, until 16s
         7s   granted: ada/s2 holds disk, token 3, until 67s, first at 3s; picked_up: ada/s2's disk, token 3
     "#]];

    a_head_that_may_not_be_granted_is_answered_and_the_next_is_served:
    "0s   op sets ops, max_leases 1
     0s   ada creates many in ops: a; b
     0s   ada claims a for 60s
     1s   bob claims a for 60s, waiting as r1
     1s   cid claims a for 60s, waiting
     2s   bob claims b
     3s   ada releases a
     4s   bob claims a for 60s, waiting as r1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada holds a, token 1, until 60s
         1s   waiting: place 0 of 1
         1s   waiting: place 1 of 2
         2s   granted: bob holds b, token 2, until 902s
         3s   released: a, unassigned, active; left_line: bob (too_many_leases); granted from the line: cid holds a, token 3, until 13s
         4s   refused: too_many_leases, max 1
     "#]];

    a_draining_waiter_is_answered_and_the_next_is_served:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     0s   bob/s1 registers
     1s   bob/s1 claims disk, waiting
     1s   cid claims disk, waiting
     2s   bob/s1 drains worker bob/s1
     3s   ada releases disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         0s   registered for 60s; worker_registered: bob/s1
         1s   waiting: place 0 of 1
         1s   waiting: place 1 of 2
         2s   worker drains; worker_drained: bob/s1
         3s   released: disk, unassigned, active; left_line: bob/s1 (worker_draining); granted from the line: cid holds disk, token 2, until 13s
     "#]];

    a_waiter_that_may_not_have_a_local_item_is_answered_and_the_next_is_served:
    "kind bot agent of ada
     0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk, waiting as r1
     1s   bot claims disk, waiting
     2s   ada updates disk with token 1, local to ada
     3s   ada releases disk
     4s   bob claims disk, waiting as r1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         1s   waiting: place 1 of 2
         2s   now: disk r5; updated: disk r5 mode
         3s   released: disk, unassigned, active; left_line: bob (not_found); granted from the line: bot holds disk, token 2, until 13s
         4s   refused: not_found
     "#]];

    /// Decision 0002: the oldest lease is released when the new one is picked up, not when it is granted.
    taskorch151_release_oldest_applies_to_the_head_of_a_line_at_pickup:
    "0s   op sets ops, max_leases 1, at_max_leases release_oldest
     0s   ada creates many in ops: a; b
     0s   ada claims a for 10m
     0s   bob claims b for 10m
     1s   ada claims b for 10m, waiting as r1
     2s   bob releases b
     3s   ada claims b for 10m, waiting as r1
     4s   ada renews a with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada holds a, token 1, until 10m
         0s   granted: bob holds b, token 2, until 10m
         1s   waiting: place 0 of 1
         2s   released: b, unassigned, active; granted from the line: ada holds b, token 3, until 12s
         3s   granted: ada holds b, token 3, until 603s, released a; picked_up: ada's b, token 3; released: ada's a, token 1
         4s   refused: lease_lost
     "#]];

    a_head_at_max_leases_that_does_not_pick_up_keeps_its_oldest_lease:
    "0s   op sets ops, max_leases 1, at_max_leases release_oldest
     0s   ada creates many in ops: a; b
     0s   ada claims a for 10m
     0s   bob claims b for 10m
     1s   ada claims b for 10m, waiting
     2s   bob releases b
     12s  tick
     13s  ada renews a with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada holds a, token 1, until 10m
         0s   granted: bob holds b, token 2, until 10m
         1s   waiting: place 0 of 1
         2s   released: b, unassigned, active; granted from the line: ada holds b, token 3, until 12s
         12s  not_picked_up: ada's b, token 3
         13s  renewed: a until 613s, renew after 200s
     "#]];

    a_terminal_item_answers_every_waiter_with_terminal_item:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   bob claims disk, waiting as r1
     1s   cid claims disk, waiting
     2s   ada completes disk with token 1
     3s   bob claims disk, waiting as r1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   waiting: place 0 of 1
         1s   waiting: place 1 of 2
         2s   now: disk complete; completed: ada's disk, token 1; left_line: bob (terminal_item); left_line: cid (terminal_item)
         3s   refused: terminal_item
     "#]];

    a_blocked_item_answers_every_waiter_with_blocked:
    "0s   op sets ops, attempts_max 1
     0s   ada creates disk in ops
     0s   ada claims disk for 10s
     1s   bob claims disk, waiting as r1
     10s  tick
     11s  bob claims disk, waiting as r1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         1s   waiting: place 0 of 1
         10s  expired: ada's disk, token 1, an attempt; blocked: disk, no attempts left; left_line: bob (blocked)
         11s  refused: blocked
     "#]];

    a_cancel_answers_every_waiter:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10s
     1s   bob claims disk, waiting as r1
     2s   dee cancels disk, because moot, by force
     3s   bob claims disk, waiting as r1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10s
         1s   waiting: place 0 of 1
         2s   now: disk cancelled; cancelled: ada's disk, token 1, by dee: moot; left_line: bob (terminal_item)
         3s   refused: terminal_item
     "#]];

    a_drain_answers_every_waiter_with_queue_paused:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk, waiting as r1
     2s   op drains ops
     3s   bob claims disk, waiting as r1
     4s   ada releases disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   ops is draining; drain_started: ops; left_line: bob (queue_paused)
         3s   refused: queue_paused
         4s   released: disk, unassigned, queued; drained: ops
     "#]];

    /// A grant that did not come from the line removes the place.
    a_takeover_removes_the_callers_own_place:
    "0s   ada creates disk in ops
     0s   bob claims disk for 20s
     1s   ada/s2 claims disk, waiting
     1s   ada/s1 claims disk, waiting
     2s   op reorders disk to ada
     3s   bob releases disk
     4s   ada/s2 renews disk with token 2
     5s   ada/s1 claims disk for 60s, taking over
     6s   ada/s1 releases disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: bob holds disk, token 1, until 20s
         1s   waiting: place 0 of 1
         1s   waiting: place 1 of 2
         2s   line of disk: 2; reordered: ada first
         3s   released: disk, unassigned, active; granted from the line: ada/s2 holds disk, token 2, until 13s
         4s   renewed: disk until 904s, renew after 5m, 1 in line; picked_up: ada/s2's disk, token 2
         5s   granted: ada/s1 holds disk, token 3, until 65s, first at 3s; taken_over: ada/s2's disk, token 2
         6s   released: disk, unassigned, queued
     "#]];

    /// A grant that is not picked up leaves the item as it was, with its lock delay.
    lock_delay_outlives_a_grant_that_was_not_picked_up:
    "0s   op sets ops, lock_delay 60s
     0s   ada creates disk in ops
     0s   ada claims disk for 10s
     1s   bob claims disk for 60s, waiting
     10s  tick
     11s  ada claims disk for 60s, waiting
     12s  op reorders disk to ada
     20s  bob claims disk for 60s, waiting
     22s  tick" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         1s   waiting: place 0 of 1
         10s  expired: ada's disk, token 1, an attempt
         11s  waiting: place 1 of 2
         12s  line of disk: 1; reordered: ada first; granted from the line: ada holds disk, token 2, until 22s
         20s  still waiting: place 0 of 1
         22s  not_picked_up: ada's disk, token 2
     "#]];

    /// The room that the release has just freed is for the head of the line.
    the_head_of_a_line_may_also_claim_without_waiting:
    "0s   op sets ops, concurrency 1
     0s   ada creates many in ops: a; b
     0s   ada claims a
     1s   bob claims b, waiting
     2s   ada releases a
     &    bob claims b" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada holds a, token 1, until 15m
         1s   waiting: place 0 of 1
         2s   released: a, unassigned, queued | granted: bob holds b, token 2, until 902s
     "#]];
}
