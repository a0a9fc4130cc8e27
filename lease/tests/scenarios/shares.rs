//! The last quarter of a shared bound is for actors that use little of it: docs/RULES.md section 20.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    one_dispatcher_cannot_fill_a_space_with_items:
    "0s   op sets the space, items_max 1000, body_bytes_max 0
     1s   hog creates many in ops: a1..a751
     2s   ada creates disk in ops
     2s   bob creates many in dev: b1..b101
     3s   hog creates tape in ops
     3s   hog cancels a1
     3s   hog creates tape in ops
     4s   op sets the space, items_max 900, body_bytes_max 0
     4s   ada creates fan in ops
     4s   hog cancels a2
     4s   hog creates other in ops" => expect![[r#"
         0s   policy of the space: version 1; space_policy_changed: version 1
         1s   created: a1 r2, queued, ... 749 more ..., refused: space_full, 1000 items, 0 bytes
         2s   created: disk r752, queued
         2s   created: b1 r753, queued, ... 99 more ..., refused: space_full, 1000 items, 0 bytes
         3s   refused: space_full, 1000 items, 0 bytes
         3s   now: a1 cancelled; cancelled: a1, by hog:
         3s   refused: space_full, 1000 items, 0 bytes
         4s   policy of the space: version 2; space_policy_changed: version 2
         4s   created: fan r855, queued
         4s   now: a2 cancelled; cancelled: a2, by hog:
         4s   refused: space_full, 900 items, 0 bytes
     "#]];

    one_dispatcher_cannot_fill_a_space_with_bodies:
    "0s   op sets the space, items_max 0, body_bytes_max 4194304
     1s   hog creates many in ops: a1..a50, prompt x*60000
     &    hog creates many in ops: b1..b5, prompt x*60000
     2s   ada creates many in ops: d1..d20, prompt x*60000
     3s   hog creates note in ops
     3s   ada claims a1
     3s   ada records plan_updated on a1 with token 1, saying x*5000
     4s   ada completes a1 with token 1, result x*5000" => expect![[r#"
         0s   policy of the space: version 1; space_policy_changed: version 1
         1s   created: a1 r2, queued, ... 48 more ..., created: a50 r51, queued | created: b1 r52, queued, created: b2 r53, queued, refused: space_full, 0 items, 4194304 bytes, refused: space_full, 0 items, 4194304 bytes, refused: space_full, 0 items, 4194304 bytes
         2s   created: d1 r54, queued, ... 18 more ..., refused: space_full, 0 items, 4194304 bytes
         3s   created: note r71, queued
         3s   granted: ada holds a1, token 1, until 903s
         3s   refused: space_full, 0 items, 4194304 bytes
         4s   now: a1 complete, at r73; completed: ada's a1, token 1
     "#]];

    reopening_an_item_counts_towards_the_share_of_its_creator:
    "0s   op sets the space, items_max 400, body_bytes_max 0
     1s   hog creates many in ops: a1..a300
     1s   hog cancels a1
     1s   ada creates disk in ops
     2s   hog reopens a1
     2s   hog cancels a2
     2s   hog reopens a1" => expect![[r#"
         0s   policy of the space: version 1; space_policy_changed: version 1
         1s   created: a1 r2, queued, ... 298 more ..., created: a300 r301, queued
         1s   now: a1 cancelled; cancelled: a1, by hog:
         1s   created: disk r303, queued
         2s   refused: space_full, 400 items, 0 bytes
         2s   now: a2 cancelled; cancelled: a2, by hog:
         2s   now: a1 queued; reopened: a1
     "#]];

    one_dispatcher_cannot_make_all_the_queues_of_a_space:
    "0s   hog/s*7501 creates % in %
     1s   ada creates disk in ada
     1s   op pauses ops
     1s   op sets dev, lease_for 10s
     1s   hog creates more in more
     1s   hog creates more in ada" => expect![[r#"
         0s   created: hog/s1 r1, queued | ... 7499 more ... | refused: invalid: queue cannot be created; the rest of the limit of 10000 is kept for actors with few
         1s   created: disk r7501, queued
         1s   ops is paused; paused: ops
         1s   policy of dev: version 1; policy_changed: version 1
         1s   refused: invalid: queue cannot be created; the rest of the limit of 10000 is kept for actors with few
         1s   created: more r7504, queued
     "#]];

    a_removed_queue_no_longer_counts_towards_the_share_of_its_maker:
    "roles hog operator
     0s   hog/s*7501 unpauses %
     1d   tick
     1d   tick
     1d   tick
     1d   tick
     1d   tick
     1d   tick
     1d   tick
     1d   tick
     1d   queues
     2d   hog unpauses more" => expect![[r#"
         0s   hog/s1 is open | ... 7499 more ... | refused: invalid: queue cannot be created; the rest of the limit of 10000 is kept for actors with few
         1d   nothing
         1d   nothing
         1d   nothing
         1d   nothing
         1d   nothing
         1d   nothing
         1d   nothing
         1d   nothing
         1d   nothing
         2d   more is open
     "#]];

    one_actor_cannot_take_all_the_places_of_workers:
    "0s   hog/s*75001 registers
     1s   ada registers
     1s   bob/s*1563 registers
     1s   hog registers
     1s   hog/s7 registers
     1s   hog/s7 removes worker hog/s7
     1s   hog registers" => expect![[r#"
         0s   registered for 60s | ... 74999 more ... | refused: invalid: worker cannot be registered; the rest of the limit of 100000 is kept for actors with few; 75000 x worker_registered ( to )
         1s   registered for 60s; worker_registered: ada
         1s   registered for 60s | ... 1561 more ... | refused: invalid: worker cannot be registered; the rest of the limit of 100000 is kept for actors with few; 1562 x worker_registered ( to )
         1s   refused: invalid: worker cannot be registered; the rest of the limit of 100000 is kept for actors with few
         1s   registered for 60s; worker_registered: hog/s7
         1s   worker removed; worker_removed: hog/s7
         1s   refused: invalid: worker cannot be registered; the rest of the limit of 100000 is kept for actors with few
     "#]];

    one_actor_cannot_take_all_the_places_of_a_line:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   hog/s*751 claims disk, waiting
     2s   bob claims disk, waiting
     2s   cid/s*16 claims disk, waiting
     2s   hog claims disk, waiting
     3s   hog/s1 claims disk, waiting
     3s   hog/s1 withdraws from disk
     3s   hog/s1 claims disk, waiting" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   waiting: place 0 of 1 | ... 749 more ... | refused: line_too_long, 750 in line
         2s   waiting: place 750 of 751
         2s   waiting: place 751 of 752 | ... 14 more ... | refused: line_too_long, 766 in line
         2s   refused: line_too_long, 766 in line
         3s   still waiting: place 0 of 766
         3s   withdrawn: disk; left_line: hog/s1
         3s   refused: line_too_long, 765 in line
     "#]];

    a_line_of_eight_places_is_not_divided:
    "0s   op sets ops, line_max 8
     0s   ada creates disk in ops
     0s   ada claims disk
     1s   bob/s*9 claims disk, waiting" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   waiting: place 0 of 1 | ... 7 more ... | refused: line_too_long, 8 in line
     "#]];

    an_actor_has_ten_thousand_places_and_no_more:
    "0s   ada creates many in ops: a1..a15
     0s   15*ada takes next of ops
     1s   hog/s*714 claims a1, waiting
     &    hog/s*714 claims a2, waiting
     &    hog/s*714 claims a3, waiting
     &    hog/s*714 claims a4, waiting
     &    hog/s*714 claims a5, waiting
     &    hog/s*714 claims a6, waiting
     &    hog/s*714 claims a7, waiting
     &    hog/s*714 claims a8, waiting
     &    hog/s*714 claims a9, waiting
     &    hog/s*714 claims a10, waiting
     &    hog/s*714 claims a11, waiting
     &    hog/s*714 claims a12, waiting
     &    hog/s*714 claims a13, waiting
     &    hog/s*714 claims a14, waiting
     2s   hog/s*5 claims a15, waiting
     2s   bob claims a15, waiting
     3s   hog/s1 withdraws from a1
     3s   hog claims a15, waiting" => expect![[r#"
         0s   created: a1 r1, queued, ... 13 more ..., created: a15 r15, queued
         0s   granted: ada holds a1, token 1, until 15m | ... 13 more ... | granted: ada holds a15, token 15, until 15m
         1s   waiting: place 0 of 1 | ... 9994 more ... | waiting: place 713 of 714
         2s   waiting: place 0 of 1 | waiting: place 1 of 2 | waiting: place 2 of 3 | waiting: place 3 of 4 | refused: too_many_leases, max 10000
         2s   waiting: place 4 of 5
         3s   withdrawn: a1; left_line: hog/s1
         3s   waiting: place 5 of 6
     "#]];
}
