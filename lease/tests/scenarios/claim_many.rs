//! Several claims and releases in one command: docs/RULES.md section 7.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    a_batch_answers_every_entry_truthfully_and_in_order:
    "0s   ada creates many in ops: a; b; c
     0s   bob claims b for 30s
     1s   ada claims all: a for 30s; b for 30s; ghost; c for 10s" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued
         0s   granted: bob holds b, token 1, until 30s
         1s   [granted: ada holds a, token 2, until 31s, refused: already_claimed, retry after 29s, held by a user, refused: not_found, granted: ada holds c, token 3, until 11s]
     "#]];

    a_batch_may_wait_for_some_entries:
    "0s   ada creates many in ops: a; b
     0s   bob claims b for 30s
     1s   ada claims all: a for 30s; b for 30s, waiting
     2s   bob releases b
     3s   ada claims b for 30s" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   granted: bob holds b, token 1, until 30s
         1s   [granted: ada holds a, token 2, until 31s, waiting: place 0 of 1]
         2s   released: b, unassigned, active; granted from the line: ada holds b, token 3, until 12s
         3s   granted: ada holds b, token 3, until 33s; picked_up: ada's b, token 3
     "#]];

    the_same_item_twice_is_one_lease:
    "0s   ada creates disk in ops
     0s   ada claims all: disk for 30s; disk for 40s
     1s   ada claims all or none: disk for 50s; disk for 60s" => expect![[r#"
         0s   created: disk r1, queued
         0s   [granted: ada holds disk, token 1, until 30s, renewed: ada holds disk, token 1, until 40s]
         1s   [renewed: ada holds disk, token 1, until 51s, renewed: ada holds disk, token 1, until 61s]
     "#]];

    all_or_none_grants_every_entry_in_one_step:
    "0s   ada creates many in ops: a; b
     0s   ada claims all or none: a for 30s; b for 30s" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   [granted: ada holds a, token 1, until 30s, granted: ada holds b, token 2, until 30s]
     "#]];

    all_or_none_grants_nothing_when_one_entry_is_refused:
    "0s   ada creates many in ops: a; b; c
     0s   ada claims c
     0s   bob claims b for 30s
     1s   ada claims all or none: a for 30s; b for 30s; release c
     2s   ada renews c with token 1
     2s   cid claims a for 30s" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued
         0s   granted: ada holds c, token 1, until 15m
         0s   granted: bob holds b, token 2, until 30s
         1s   [refused: all_or_none, refused: already_claimed, retry after 29s, held by a user] [refused: all_or_none]
         2s   renewed: c until 902s, renew after 5m
         2s   granted: cid holds a, token 3, until 32s
     "#]];

    all_or_none_cannot_wait:
    "0s   ada creates many in ops: a; b
     0s   ada claims all or none: a; b, waiting" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   refused: invalid: claims[1].on_conflict must not be wait with all_or_none
     "#]];

    all_or_none_counts_the_room_that_its_own_entries_take:
    "0s   op sets ops, concurrency 1
     0s   ada creates many in ops: a; b
     0s   ada claims all or none: a; b
     1s   ada claims all: a; b" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   [refused: all_or_none, refused: queue_full, retry after 1s]
         1s   [granted: ada holds a, token 1, until 901s, refused: queue_full, retry after 1s]
     "#]];

    claims_may_use_the_room_that_releases_of_the_batch_free:
    "0s   op sets ops, max_leases 1, concurrency 1
     0s   ada creates many in ops: a; b
     0s   ada claims a
     1s   ada claims all: b for 30s; release a with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada holds a, token 1, until 15m
         1s   [granted: ada holds b, token 2, until 31s] [released: a, unassigned, queued]
     "#]];

    all_or_none_counts_the_room_that_its_releases_free:
    "0s   op sets ops, max_leases 2
     0s   ada creates many in ops: a; b; c; d
     0s   ada claims all: a; b
     1s   ada claims all or none: c; d; release a
     2s   ada claims all or none: c; d; release a; release b" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued, created: c r4, queued, created: d r5, queued
         0s   [granted: ada holds a, token 1, until 15m, granted: ada holds b, token 2, until 15m]
         1s   [refused: all_or_none, refused: too_many_leases, max 2] [refused: all_or_none]
         2s   [granted: ada holds c, token 3, until 902s, granted: ada holds d, token 4, until 902s] [released: a, unassigned, queued, released: b, unassigned, queued]
     "#]];

    releasing_an_item_that_the_caller_does_not_hold_frees_no_room:
    "0s   op sets ops, concurrency 1
     0s   ada creates many in ops: a; b
     0s   bob claims a
     1s   ada claims all: b; release a" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: bob holds a, token 1, until 15m
         1s   [refused: queue_full, retry after 1s] [refused: not_holder]
     "#]];

    a_release_in_a_batch_serves_the_line_in_the_same_step:
    "0s   ada creates many in ops: a; b
     0s   ada claims a
     1s   bob claims a for 30s, waiting
     2s   ada claims all: b; release a" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   granted: ada holds a, token 1, until 15m
         1s   waiting: place 0 of 1
         2s   [granted: ada holds b, token 2, until 902s] [released: a, unassigned, active]; granted from the line: bob holds a, token 3, until 12s
     "#]];

    a_batch_that_policy_rejects_has_no_effect_at_all:
    "0s   op sets the space, identity checked
     0s   ada creates many in ops: a; b
     0s   ada claims a for 30s
     verified ada self_reported
     1s   ada claims all: b; release a with token 1
     verified ada checked
     2s   ada renews a with token 1
     2s   bob claims b" => expect![[r#"
         0s   policy of the space: version 1; space_policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada holds a, token 1, until 30s
         1s   refused: rejected_by_policy
         2s   renewed: a until 32s, renew after 10s
         2s   granted: bob holds b, token 2, until 902s
     "#]];

    an_empty_batch_is_invalid:
    "0s   ada claims all
     0s   ada creates many in ops: a; b
     0s   ada claims all: a; release a" => expect![[r#"
         0s   refused: invalid: claims must not be empty
         0s   created: a r1, queued, created: b r2, queued
         0s   refused: invalid: claims[0].item must not be claimed and released in one batch
     "#]];

    /// taskorch172: a batch reported success for every entry and held one.
    taskorch172_an_entry_does_not_lose_what_an_earlier_entry_was_granted:
    "0s   op sets ops, max_leases 1, at_max_leases release_oldest
     0s   ada creates many in ops: a; b
     1s   ada claims all: a for 30s; b for 30s
     2s   ada renews a with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         1s   [granted: ada holds a, token 1, until 31s, refused: too_many_leases, max 1]
         2s   renewed: a until 32s, renew after 10s
     "#]];

    taskorch172_an_entry_does_not_lose_what_an_earlier_entry_renewed:
    "0s   op sets ops, max_leases 1, at_max_leases release_oldest
     0s   ada creates many in ops: a; b
     0s   ada claims a for 30s
     1s   ada claims all: a for 30s; b for 30s
     2s   ada renews a with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada holds a, token 1, until 30s
         1s   [renewed: ada holds a, token 1, until 31s, refused: too_many_leases, max 1]
         2s   renewed: a until 32s, renew after 10s
     "#]];

    taskorch172_all_or_none_does_not_release_what_it_renews:
    "0s   op sets ops, max_leases 1, at_max_leases release_oldest
     0s   ada creates many in ops: a; b
     0s   ada claims a for 30s
     1s   ada claims all or none: a for 30s; b for 30s
     2s   ada renews a with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada holds a, token 1, until 30s
         1s   [refused: all_or_none, refused: too_many_leases, max 1]
         2s   renewed: a until 32s, renew after 10s
     "#]];

    an_item_taken_over_twice_in_one_batch_is_one_lease:
    "0s   ada creates disk in ops
     0s   ada/s1 claims disk for 30s
     1s   ada/s2 claims all or none: disk for 30s, taking over; disk for 30s, taking over
     2s   ada/s2 renews disk with token 2" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada/s1 holds disk, token 1, until 30s
         1s   [granted: ada/s2 holds disk, token 2, until 31s, first at 0s, renewed: ada/s2 holds disk, token 2, until 31s, first at 0s]; taken_over: ada/s1's disk, token 1
         2s   renewed: disk until 32s, renew after 10s
     "#]];

    all_or_none_does_not_release_an_item_that_it_also_claims:
    "0s   op sets ops, max_leases 1, at_max_leases release_oldest
     0s   ada creates many in ops: a; y
     0s   ada claims a for 10m
     0s   bob claims y for 10m
     1s   ada claims y for 10m, waiting
     2s   bob releases y
     3s   ada claims all or none: y; a
     4s   ada claims all: a; y; a
     5s   ada renews all" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: y r3, queued
         0s   granted: ada holds a, token 1, until 10m
         0s   granted: bob holds y, token 2, until 10m
         1s   waiting: place 0 of 1
         2s   released: y, unassigned, active; granted from the line: ada holds y, token 3, until 12s
         3s   [refused: all_or_none, refused: too_many_leases, max 1]
         4s   [renewed: ada holds a, token 1, until 904s, refused: too_many_leases, max 1, renewed: ada holds a, token 1, until 904s]
         5s   renewed all: 1, 10m left, renew after 200s; picked_up: ada's y, token 3; released: ada's a, token 1
     "#]];

    an_offer_may_be_picked_up_with_the_room_that_a_release_of_the_batch_frees:
    "0s   op sets ops, max_leases 1, at_max_leases release_oldest
     0s   ada creates many in ops: a; y; z
     0s   ada claims a for 10m
     0s   bob claims y for 10m
     1s   ada claims y for 10m, waiting
     2s   bob releases y
     3s   ada claims all: y; z; release a" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: y r3, queued, created: z r4, queued
         0s   granted: ada holds a, token 1, until 10m
         0s   granted: bob holds y, token 2, until 10m
         1s   waiting: place 0 of 1
         2s   released: y, unassigned, active; granted from the line: ada holds y, token 3, until 12s
         3s   [granted: ada holds y, token 3, until 903s, refused: too_many_leases, max 1] [released: a, unassigned, queued]; picked_up: ada's y, token 3
     "#]];

    /// A claim in a batch is not a poll of the waiting request, which still gets the answer.
    a_batch_does_not_take_over_the_answer_of_a_waiting_claim:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   bob claims disk, waiting as r1
     2s   bob claims all: disk, waiting as r2
     3s   bob withdraws from disk
     4s   bob claims disk, waiting as r1 again" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   waiting: place 0 of 1
         2s   [still waiting: place 0 of 1]
         3s   withdrawn: disk; left_line: bob
         4s   withdrawn: disk
     "#]];
}
