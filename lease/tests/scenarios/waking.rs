//! Which callers that wait in `next` are woken, and how many: docs/RULES.md section 2.3.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    an_item_that_becomes_free_wakes_one:
    "0s   ada creates disk in ops
     0s   wakes
     0s   ada creates many in ops: a; b; c, delayed 9s
     0s   wakes
     1s   ada claims disk for 5s
     1s   wakes
     2s   ada releases disk
     2s   wakes
     3s   ada claims disk for 2s
     5s   tick
     5s   wakes
     9s   tick
     9s   wakes" => expect![[r#"
         0s   created: disk r1, queued
         0s   1 of ops
         0s   created: a r2, queued, created: b r3, queued, created: c r4, pending
         0s   2 of ops
         1s   granted: ada holds disk, token 1, until 6s
         1s   nobody
         2s   released: disk, unassigned, queued
         2s   1 of ops
         3s   granted: ada holds disk, token 2, until 5s, first at 1s
         5s   expired: ada's disk, token 2, an attempt
         5s   1 of ops
         9s   queued: c
         9s   1 of ops
     "#]];

    /// Until then only the actor whose lease lapsed may take it.
    the_end_of_a_lock_delay_wakes_one:
    "0s   op sets ops, lock_delay 3s
     0s   ada creates disk in ops
     0s   ada claims disk for 2s
     2s   tick
     2s   wakes
     3s   bob takes next of ops
     3s   wakes
     5s   tick
     5s   wakes
     5s   bob takes next of ops" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 2s
         2s   expired: ada's disk, token 1, an attempt
         2s   1 of ops
         3s   empty: nothing queued, retry after 1s
         3s   nobody
         5s   nothing
         5s   1 of ops
         5s   granted: bob holds disk, token 2, until 905s
     "#]];

    the_end_of_a_lease_wakes_those_who_wait_for_a_descendant_in_any_queue:
    "0s   ada creates epic in plans
     0s   ada creates story in plans, parent epic
     0s   ada creates many in ops: a, parent story; b, parent story
     0s   ada claims epic for 9s
     1s   bob takes next of ops
     2s   ada releases epic
     2s   wakes
     3s   ada claims epic for 2s
     5s   tick
     5s   wakes
     6s   ada claims epic
     7s   ada completes epic with token 3
     7s   wakes" => expect![[r#"
         0s   created: epic r1, queued
         0s   created: story r2, queued
         0s   created: a r3, queued, created: b r4, queued
         0s   granted: ada holds epic, token 1, until 9s
         1s   empty: nothing eligible, retry after 1s
         2s   released: epic, unassigned, queued
         2s   2 of plans, 2 of ops
         3s   granted: ada holds epic, token 2, until 5s, first at 0s
         5s   expired: ada's epic, token 2, an attempt
         5s   2 of plans, 2 of ops
         6s   granted: ada holds epic, token 3, until 906s, first at 0s
         7s   now: epic complete; completed: ada's epic, token 3
         7s   1 of plans, 2 of ops
     "#]];

    another_parent_wakes_those_who_wait_for_a_descendant:
    "0s   ada creates epic in plans
     0s   ada creates story in plans, parent epic
     0s   ada creates a in ops, parent story
     0s   ada claims story
     0s   eve claims epic
     1s   ada updates story with token 1, parent nothing
     1s   wakes" => expect![[r#"
         0s   created: epic r1, queued
         0s   created: story r2, queued
         0s   created: a r3, queued
         0s   granted: ada holds story, token 1, until 15m
         0s   granted: eve holds epic, token 2, until 15m
         1s   now: story r6; updated: story r6 parent
         1s   1 of ops
     "#]];

    /// Counting very many descendants would keep others waiting.
    the_end_of_a_lease_on_an_item_with_very_many_descendants_wakes_all_callers_in_its_space:
    "0s   ada@acme creates elsewhere in home
     0s   ada creates epic in plans
     0s   ada creates many in ops: n1..n1000, parent epic
     0s   ada claims epic
     1s   ada releases epic
     1s   wakes
     2s   ada creates one in more, parent epic
     2s   ada claims epic
     3s   ada releases epic
     3s   wakes" => expect![[r#"
         0s   created: elsewhere r1, queued
         0s   created: epic r1, queued
         0s   created: n1 r2, queued, ... 998 more ..., created: n1000 r1001, queued
         0s   granted: ada holds epic, token 1, until 15m
         1s   released: epic, unassigned, queued
         1s   1 of plans, 1000 of ops
         2s   created: one r1004, queued
         2s   granted: ada holds epic, token 2, until 902s, first at 0s
         3s   released: epic, unassigned, queued
         3s   all of plans, all of ops, all of more
     "#]];

    /// The item has ended, and the queue had room for another one before.
    the_end_of_an_item_wakes_nobody_when_the_queue_had_room:
    "0s   ada creates many in ops: a; b
     0s   ada claims a
     1s   ada completes a with token 1
     1s   wakes
     2s   ada claims b
     3s   ada fails b with token 2, finally
     3s   wakes" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   granted: ada holds a, token 1, until 15m
         1s   now: a complete; completed: ada's a, token 1
         1s   nobody
         2s   granted: ada holds b, token 2, until 902s
         3s   now: b error; failed: ada's b, token 2, finally
         3s   nobody
     "#]];

    the_end_of_an_item_wakes_one_when_the_queue_was_full:
    "0s   op sets ops, concurrency 2
     0s   ada creates many in ops: a; b; c; d
     0s   wakes
     0s   ada takes next of ops, count 2
     1s   ada creates e in ops
     1s   wakes
     2s   ada completes a with token 1
     2s   wakes
     3s   op sets ops, concurrency 4
     3s   wakes" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued, created: c r4, queued, created: d r5, queued
         0s   2 of ops
         0s   granted: ada holds a, token 1, until 15m, granted: ada holds b, token 2, until 15m
         1s   created: e r8, queued
         1s   nobody
         2s   now: a complete; completed: ada's a, token 1
         2s   1 of ops
         3s   policy of ops: version 2; policy_changed: version 2
         3s   3 of ops
     "#]];

    the_end_of_an_item_wakes_one_when_its_actor_was_at_max_leases:
    "0s   op sets ops, max_leases 1
     0s   ada creates many in ops: a; b
     0s   ada takes next of ops
     0s   ada takes next of ops
     1s   ada completes a with token 1
     1s   wakes
     1s   ada takes next of ops" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada holds a, token 1, until 15m
         0s   empty: too many leases, retry after 1s
         1s   now: a complete; completed: ada's a, token 1
         1s   1 of ops
         1s   granted: ada holds b, token 2, until 901s
     "#]];

    /// An actor below its maximum could have taken more before.
    the_end_of_an_item_wakes_nobody_when_its_actor_was_below_max_leases:
    "0s   op sets ops, max_leases 2
     0s   ada creates many in ops: a; b; c
     0s   ada takes next of ops
     1s   ada completes a with token 1
     1s   wakes
     2s   ada takes next of ops, count 2
     3s   ada completes b with token 2
     &    ada completes c with token 3
     3s   wakes" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued, created: c r4, queued
         0s   granted: ada holds a, token 1, until 15m
         1s   now: a complete; completed: ada's a, token 1
         1s   nobody
         2s   granted: ada holds b, token 2, until 902s, granted: ada holds c, token 3, until 902s
         3s   now: b complete | now: c complete; completed: ada's b, token 2; completed: ada's c, token 3
         3s   2 of ops
     "#]];

    opening_a_queue_wakes_all_and_a_closed_queue_wakes_nobody:
    "0s   ada creates a in ops
     1s   op pauses ops
     1s   wakes
     2s   ada creates b in ops
     2s   wakes
     3s   op unpauses ops
     3s   wakes
     4s   root begins an epoch
     4s   wakes
     5s   root activates
     5s   wakes" => expect![[r#"
         0s   created: a r1, queued
         1s   ops is paused; paused: ops
         1s   nobody
         2s   created: b r3, queued
         2s   nobody
         3s   ops is open; unpaused: ops
         3s   all of ops
         4s   epoch 5097604, tokens above 5345225211904; epoch_begun: 5097604 in default, event 5097604.5
         4s   nobody
         5s   active; activated: default
         5s   all of ops
     "#]];

    a_reservation_wakes_one:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   ada reserves disk with token 1 for 5s
     1s   wakes
     6s   tick
     6s   wakes
     7s   ada assigns disk to bob
     7s   wakes" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   reserved: disk for 5s, until 6s, reserved; reserved: ada's disk, token 1 until 6s
         1s   1 of ops
         6s   reservation_ended: ada's disk
         6s   1 of ops
         7s   assigned: disk to bob; assigned: disk, bob, by ada
         7s   nobody
     "#]];

    an_item_that_ends_and_comes_back_in_one_entry_wakes_one:
    "0s   ada creates many in ops: a; b
     0s   ada takes next of ops, count 2
     1s   ada completes a with token 1
     &    ada completes b with token 2
     &    ada reopens a
     1s   wakes" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   granted: ada holds a, token 1, until 15m, granted: ada holds b, token 2, until 15m
         1s   now: a complete | now: b complete | now: a queued; completed: ada's a, token 1; completed: ada's b, token 2; reopened: a
         1s   1 of ops
     "#]];
}
