//! `next` finds and grants items in one command: docs/RULES.md section 8.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    highest_priority_first_then_oldest:
    "0s   ada creates many in ops: a, priority 3; b, priority 8; c, priority 8; d, priority 3
     0s   ada takes next of ops, count 3
     1s   bob takes next of ops for 30s" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued, created: d r4, queued
         0s   granted: ada holds b, token 1, until 15m, granted: ada holds c, token 2, until 15m, granted: ada holds a, token 3, until 15m
         1s   granted: bob holds d, token 4, until 31s
     "#]];

    oldest_and_newest_on_request:
    "0s   ada creates many in ops: a, priority 3; b, priority 8; c, priority 1
     0s   ada takes next of ops, oldest
     0s   ada takes next of ops, newest
     0s   ada takes next of ops" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued
         0s   granted: ada holds a, token 1, until 15m
         0s   granted: ada holds c, token 2, until 15m
         0s   granted: ada holds b, token 3, until 15m
     "#]];

    two_callers_are_never_given_the_same_item:
    "0s   ada creates many in ops: a; b
     0s   ada takes next of ops
     &    bob takes next of ops
     &    cid takes next of ops" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   granted: ada holds a, token 1, until 15m | granted: bob holds b, token 2, until 15m | empty: nothing queued, retry after 1s
     "#]];

    items_assigned_to_or_reserved_for_the_caller_come_first:
    "0s   ada creates many in ops: a, priority 9; b, priority 1; c, priority 2
     0s   ada assigns b to bob
     0s   bob claims c
     0s   bob reserves c with token 1 for 60s
     1s   bob takes next of ops, count 3" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued
         0s   assigned: b to bob; assigned: b, bob, by ada
         0s   granted: bob holds c, token 1, until 15m
         0s   reserved: c for 60s, until 60s, reserved; reserved: bob's c, token 1 until 60s
         1s   granted: bob holds c, token 2, until 901s, first at 0s, granted: bob holds b, token 3, until 901s, granted: bob holds a, token 4, until 901s
     "#]];

    the_callers_own_items_are_filtered_like_all_others:
    "0s   ada creates many in ops: a, mode cloud; b, needs gpu; c, local to ada; d
     0s   ada assigns a to bob
     &    ada assigns b to bob
     &    ada assigns c to bob
     &    ada assigns d to bob
     1s   bob takes next of ops, mode local, count 9
     2s   bob takes next of ops, count 9
     3s   bob takes next of ops, able gpu, count 9" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued, created: d r4, queued
         0s   assigned: a to bob | assigned: b to bob | assigned: c to bob | assigned: d to bob; assigned: a, bob, by ada; assigned: b, bob, by ada; assigned: c, bob, by ada; assigned: d, bob, by ada
         1s   granted: bob holds d, token 1, until 901s
         2s   granted: bob holds a, token 2, until 902s
         3s   granted: bob holds b, token 3, until 903s
     "#]];

    an_item_assigned_to_another_actor_is_handed_out:
    "0s   ada creates disk in ops
     0s   ada assigns disk to bob
     1s   cid takes next of ops" => expect![[r#"
         0s   created: disk r1, queued
         0s   assigned: disk to bob; assigned: disk, bob, by ada
         1s   granted: cid holds disk, token 1, until 901s
     "#]];

    a_reserved_item_is_offered_to_nobody_else:
    "0s   ada creates disk in ops
     0s   ada claims disk
     0s   ada reserves disk with token 1 for 60s
     1s   bob takes next of ops
     1s   ada/s2 takes next of ops" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         0s   reserved: disk for 60s, until 60s, reserved; reserved: ada's disk, token 1 until 60s
         1s   empty: nothing queued, retry after 1s
         1s   granted: ada/s2 holds disk, token 2, until 901s, first at 0s
     "#]];

    priority_bounds_are_inclusive:
    "0s   ada creates many in ops: a, priority 3; b, priority 6
     0s   bob takes next of ops, priority from 6
     0s   bob takes next of ops, priority from 4
     0s   bob takes next of ops, priority to 3" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   granted: bob holds b, token 1, until 15m
         0s   empty: nothing eligible, retry after 1s
         0s   granted: bob holds a, token 2, until 15m
     "#]];

    filters_by_label_phase_priority_and_needs:
    "0s   ada creates many in ops: a, labels red; b, labels red+big, priority 2; c, phase review; d, needs gpu, priority 9
     0s   bob takes next of ops, labels red+big
     0s   bob takes next of ops, phase review
     0s   bob takes next of ops, priority from 6
     0s   bob takes next of ops, able gpu+ssd, priority from 6
     0s   bob takes next of ops, priority to 4
     0s   bob takes next of ops, priority to 5" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued, created: d r4, queued
         0s   granted: bob holds b, token 1, until 15m
         0s   granted: bob holds c, token 2, until 15m, phase review
         0s   empty: nothing eligible, retry after 1s
         0s   granted: bob holds d, token 3, until 15m
         0s   empty: nothing eligible, retry after 1s
         0s   granted: bob holds a, token 4, until 15m
     "#]];

    filters_by_mode:
    "0s   ada creates many in ops: a, mode cloud; b, local to ada; c
     0s   ada takes next of ops, mode local
     0s   ada takes next of ops, mode local
     0s   bob takes next of ops, mode cloud
     0s   bob takes next of ops" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued
         0s   granted: ada holds b, token 1, until 15m
         0s   granted: ada holds c, token 2, until 15m
         0s   granted: bob holds a, token 3, until 15m
         0s   empty: nothing queued, retry after 1s
     "#]];

    filters_by_parent_and_ancestor:
    "0s   ada creates many in ops: top; mid, parent top; leaf, parent mid; lone, priority 9
     0s   ada takes next of ops, children of mid
     0s   ada takes next of ops, under top, count 5" => expect![[r#"
         0s   created: top r1, queued, created: mid r2, queued, created: leaf r3, queued, created: lone r4, queued
         0s   granted: ada holds leaf, token 1, until 15m
         0s   granted: ada holds mid, token 2, until 15m
     "#]];

    skips_items_whose_ancestor_another_actor_holds:
    "0s   ada creates many in ops: top; mid, parent top; leaf, parent mid, priority 9
     0s   ada/s1 claims top
     1s   bob takes next of ops
     1s   ada/s2 takes next of ops" => expect![[r#"
         0s   created: top r1, queued, created: mid r2, queued, created: leaf r3, queued
         0s   granted: ada/s1 holds top, token 1, until 15m
         1s   empty: nothing eligible, retry after 1s
         1s   granted: ada/s2 holds leaf, token 2, until 901s
     "#]];

    /// The parent in between is complete and archived; its own parent still counts.
    a_held_ancestor_counts_also_above_a_finished_parent:
    "0s   ada creates many in ops: top; mid, parent top; leaf, parent mid
     0s   ada claims mid
     0s   ada completes mid with token 1
     1s   ada claims top
     2s   bob takes next of ops" => expect![[r#"
         0s   created: top r1, queued, created: mid r2, queued, created: leaf r3, queued
         0s   granted: ada holds mid, token 1, until 15m
         0s   now: mid complete; completed: ada's mid, token 1
         1s   granted: ada holds top, token 2, until 901s
         2s   empty: nothing eligible, retry after 1s
     "#]];

    an_ancestor_is_found_also_above_a_finished_parent:
    "0s   ada creates many in ops: top; mid, parent top; leaf, parent mid
     0s   ada claims mid
     0s   ada completes mid with token 1
     1s   ada claims top
     2s   ada takes next of ops, under top" => expect![[r#"
         0s   created: top r1, queued, created: mid r2, queued, created: leaf r3, queued
         0s   granted: ada holds mid, token 1, until 15m
         0s   now: mid complete; completed: ada's mid, token 1
         1s   granted: ada holds top, token 2, until 901s
         2s   granted: ada holds leaf, token 3, until 902s
     "#]];

    skips_items_with_a_line:
    "0s   op pauses ops
     0s   ada creates many in ops: a, priority 9; b
     0s   bob claims a for 30s, waiting
     0s   op sets ops, concurrency 1
     1s   op unpauses ops
     &    cid takes next of ops
     2s   op sets ops, concurrency 2
     &    cid takes next of ops" => expect![[r#"
         0s   ops is paused; paused: ops
         0s   created: a r2, queued, created: b r3, queued
         0s   waiting: place 0 of 1
         0s   policy of ops: version 1; policy_changed: version 1
         1s   ops is open | empty: queue full, retry after 1s; unpaused: ops; granted from the line: bob holds a, token 1, until 11s
         2s   policy of ops: version 2 | granted: cid holds b, token 2, until 902s; policy_changed: version 2
     "#]];

    the_count_is_cut_to_the_room_that_is_left:
    "0s   op sets ops, max_leases 2, concurrency 3
     0s   ada creates many in ops: a; b; c; d
     0s   ada takes next of ops, count 100
     0s   bob takes next of ops, count 2
     0s   cid takes next of ops
     0s   ada takes next of ops" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued, created: c r4, queued, created: d r5, queued
         0s   granted: ada holds a, token 1, until 15m, granted: ada holds b, token 2, until 15m
         0s   granted: bob holds c, token 3, until 15m
         0s   empty: queue full, retry after 1s
         0s   empty: queue full, retry after 1s
     "#]];

    release_oldest_takes_one_at_a_time:
    "0s   op sets ops, max_leases 1, at_max_leases release_oldest
     0s   ada creates many in ops: a; b; c
     0s   ada takes next of ops, count 3
     1s   ada takes next of ops, count 3" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued, created: c r4, queued
         0s   granted: ada holds a, token 1, until 15m
         1s   granted: ada holds b, token 2, until 901s, released a; released: ada's a, token 1
     "#]];

    nothing_eligible_is_empty_with_a_reason:
    "0s   ada takes next of ops
     0s   ada creates many in ops: a, needs gpu
     1s   ada takes next of ops
     1s   op pauses ops
     1s   ada takes next of ops
     1s   op drains ops
     1s   ada takes next of ops" => expect![[r#"
         0s   empty: nothing queued, retry after 1s
         0s   created: a r1, queued
         1s   empty: nothing eligible, retry after 1s
         1s   ops is paused; paused: ops
         1s   empty: queue paused, retry after 1s
         1s   ops is draining; drain_started: ops; drained: ops
         1s   empty: queue paused, retry after 1s
     "#]];

    a_stale_item_is_handed_out_again:
    "0s   ada creates disk in ops
     0s   ada takes next of ops for 10s
     10s  bob takes next of ops for 10s" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  granted: bob holds disk, token 2, until 20s; expired: ada's disk, token 1, an attempt
     "#]];

    a_lease_is_cut_to_the_ceiling:
    "0s   op sets ops, lease_for 10s, lease_max 60s
     0s   ada creates many in ops: a; b
     0s   ada takes next of ops for 2m
     0s   ada takes next of ops" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada holds a, token 1, until 60s, cut
         0s   granted: ada holds b, token 2, until 10s
     "#]];

    an_item_under_lock_delay_is_handed_to_its_previous_holder_only:
    "0s   op sets ops, lock_delay 60s
     0s   ada creates disk in ops
     0s   ada takes next of ops for 10s
     11s  bob takes next of ops
     12s  ada takes next of ops for 10s" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         11s  empty: nothing queued, retry after 1s; expired: ada's disk, token 1, an attempt
         12s  granted: ada holds disk, token 2, until 22s, first at 0s
     "#]];

    a_call_examines_at_most_a_thousand_items_and_answers_a_cursor:
    "0s   ada creates many in ops: n1..n1000, labels red
     0s   ada creates many in ops: m1..m20, labels blue
     1s   bob takes next of ops, labels blue
     2s   bob takes next of ops, labels blue, behind 5/1000" => expect![[r#"
         0s   created: n1 r1, queued, ... 998 more ..., created: n1000 r1000, queued
         0s   created: m1 r1001, queued, ... 18 more ..., created: m20 r1020, queued
         1s   empty: examined enough, retry after 1ms, more behind 5/1000
         2s   granted: bob holds m1, token 1, until 902s
     "#]];

    a_registered_workers_capabilities_and_mode_are_the_default:
    "0s   ada creates many in ops: a, needs gpu, priority 9; b, mode cloud, priority 8; c, local to ada, priority 1
     0s   ada/s1 registers, able gpu, mode local
     0s   ada/s1 takes next of ops, count 5
     0s   ada/s2 takes next of ops, count 5" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued
         0s   registered for 60s; worker_registered: ada/s1
         0s   granted: ada/s1 holds a, token 1, until 15m, granted: ada/s1 holds c, token 2, until 15m
         0s   granted: ada/s2 holds b, token 3, until 15m
     "#]];
}
