//! Creating items: docs/RULES.md section 5.1.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    creating_is_never_execution:
    "0s   ada creates disk in ops
     0s   ada renews disk with token 1
     0s   ada completes disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   refused: lease_lost
         0s   refused: lease_required
     "#]];

    creating_an_id_again_with_the_same_content_answers_the_existing_item:
    "0s   ada creates disk in ops, title big, labels red
     1s   ada creates disk in ops, title big, labels red
     2s   bob creates disk in ops, title big, labels red
     3s   bob claims disk
     4s   ada creates disk in ops, title big, labels red" => expect![[r#"
         0s   created: disk r1, queued
         1s   exists: disk r1, queued
         2s   exists: disk r1, queued
         3s   granted: bob holds disk, token 1, until 903s
         4s   exists: disk r1, active
     "#]];

    creating_an_existing_id_with_other_content_is_refused:
    "0s   ada creates disk in ops, title big
     1s   ada creates disk in ops, title small
     2s   ada creates disk in dev, title big
     3s   ada creates disk in ops" => expect![[r#"
         0s   created: disk r1, queued
         1s   refused: already_exists
         2s   refused: already_exists
         3s   refused: already_exists
     "#]];

    a_terminal_item_still_exists:
    "0s   ada creates disk in ops
     0s   ada cancels disk, because moot
     1s   ada creates disk in ops
     2s   ada creates disk in ops, title new" => expect![[r#"
         0s   created: disk r1, queued
         0s   now: disk cancelled; cancelled: disk, by ada: moot
         1s   exists: disk r1, cancelled
         2s   refused: already_exists
     "#]];

    /// The content at creation is compared, not the content after updates.
    creating_again_is_compared_with_the_original_content:
    "0s   ada creates disk in ops, title old
     1s   ada updates disk, reading r1, title new
     2s   ada creates disk in ops, title old
     3s   ada creates disk in ops, title new" => expect![[r#"
         0s   created: disk r1, queued
         1s   now: disk r2; updated: disk r2 title
         2s   exists: disk r2, queued
         3s   refused: already_exists
     "#]];

    an_id_created_anew_after_its_purge_never_repeats_a_revision_or_a_token:
    "0s   op sets ops, retention 10s
     0s   ada creates disk in ops
     0s   ada claims disk
     0s   ada completes disk with token 1
     10s  tick
     11s  ada creates disk in ops
     12s  ada claims disk
     13s  ada completes disk with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 15m
         0s   now: disk complete; completed: ada's disk, token 1
         10s  purged: disk, complete
         11s  created: disk r6, queued
         12s  granted: ada holds disk, token 2, until 912s
         13s  refused: stale_token
     "#]];

    a_batch_answers_every_item:
    "0s   ada creates a in ops
     0s   ada creates many in ops: a; b; a, title other; c, after ghost; d, after a+b" => expect![[r#"
         0s   created: a r1, queued
         0s   exists: a r1, queued, created: b r2, queued, refused: already_exists, refused: invalid: depends_on ghost does not exist; create it first, created: d r3, pending
     "#]];

    a_cycle_within_a_batch_is_invalid:
    "0s   ada creates many in ops: a, after b; b, after a
     0s   ada creates a in ops, after a
     0s   ada creates many in ops: a, after b; b" => expect![[r#"
         0s   refused: invalid: items[0].depends_on has a cycle within this batch
         0s   refused: invalid: depends_on must not contain the item itself
         0s   refused: invalid: depends_on b does not exist; create it first, created: b r1, queued
     "#]];

    parent_and_target_must_exist:
    "0s   ada creates disk in ops, parent ghost
     0s   ada creates one in ops
     0s   ada creates disk in ops, parent ghost
     0s   ada creates disk in ops, target ghost
     0s   ada creates disk in ops, parent disk
     0s   ada creates disk in ops, target disk
     0s   ada creates disk in ops, parent one, target one" => expect![[r#"
         0s   refused: invalid: parent does not exist
         0s   created: one r1, queued
         0s   refused: invalid: parent does not exist
         0s   refused: invalid: target does not exist
         0s   refused: invalid: parent is the item itself or one of its descendants
         0s   refused: invalid: target is the item itself
         0s   created: disk r2, queued
     "#]];

    delay_counts_cluster_time:
    "0s   ada creates disk in ops, delayed 10s
     9s   tick
     10s  tick" => expect![[r#"
         0s   created: disk r1, pending
         9s   nothing
         10s  queued: disk
     "#]];

    not_before_is_compared_with_the_wall_clock_of_the_entry:
    "0s   wall 11:00 ada creates disk in ops, not before 12:00
     100s wall 11:59 tick
     101s wall 12:00 tick" => expect![[r#"
         0s   created: disk r1, pending
         100s nothing
         101s queued: disk
     "#]];

    not_before_fires_once_even_if_the_wall_clock_goes_back:
    "0s   wall 12:00 ada creates many in ops: past, not before 11:00; soon, not before 12:30
     1s   wall 10:00 bob claims past
     2s   wall 12:30 tick
     3s   wall 10:00 bob claims soon" => expect![[r#"
         0s   created: past r1, queued, created: soon r2, pending
         1s   granted: bob holds past, token 1, until 901s
         2s   queued: soon
         3s   granted: bob holds soon, token 2, until 903s
     "#]];

    an_item_is_pending_until_all_its_waits_are_over:
    "0s   wall 11:00 ada creates many in ops: a; disk, after a, delayed 10s, not before 12:00
     1s   wall 11:00 ada claims a
     2s   wall 11:00 ada completes a with token 1
     10s  wall 11:00 tick
     11s  wall 12:00 tick" => expect![[r#"
         0s   created: a r1, queued, created: disk r2, pending
         1s   granted: ada holds a, token 1, until 901s
         2s   now: a complete; completed: ada's a, token 1
         10s  nothing
         11s  queued: disk
     "#]];

    a_queue_names_its_phases_and_its_first_is_the_default:
    "0s   op sets ops, phases work+review
     0s   ada creates a in ops
     0s   ada creates b in ops, phase review
     0s   ada creates c in ops, phase lunch
     1s   bob takes next of ops, count 2" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued
         0s   created: b r3, queued
         0s   refused: invalid: phase is not a phase of the queue
         1s   granted: bob holds a, token 1, until 901s, phase work, granted: bob holds b, token 2, until 901s, phase review
     "#]];

    a_local_item_is_created_by_its_owner_only:
    "kind bot agent of ada
     0s   bob creates disk in ops, local to ada
     0s   bot creates disk in ops, local to ada
     0s   ada creates disk in ops, local to ada" => expect![[r#"
         0s   refused: invalid: mode only its owner may make an item local
         0s   refused: invalid: mode only its owner may make an item local
         0s   created: disk r1, queued
     "#]];

    /// An item that bob may not see must look as if it did not exist.
    creating_again_does_not_reveal_a_local_item_of_another_actor:
    "0s   ada creates disk in ops, local to ada
     0s   bob creates disk in ops, local to ada" => expect![[r#"
         0s   created: disk r1, queued
         0s   refused: invalid: mode only its owner may make an item local
     "#]];

    live_items_and_body_bytes_of_a_space_are_bounded:
    "0s   op sets the space, items_max 2, body_bytes_max 10
     0s   ada creates a in ops, prompt 123456
     0s   ada creates b in ops, prompt 12345
     0s   ada creates b in ops, prompt 1234
     0s   ada creates c in ops
     1s   ada updates b, reading r3, context 1
     2s   ada cancels a, because moot
     3s   ada creates c in ops
     4s   ada reopens a
     5s   ada updates b, reading r3, context 123456
     6s   ada updates b, reading r6, context 1234567" => expect![[r#"
         0s   policy of the space: version 1; space_policy_changed: version 1
         0s   created: a r2, queued
         0s   refused: space_full, 2 items, 10 bytes
         0s   created: b r3, queued
         0s   refused: space_full, 2 items, 10 bytes
         1s   refused: space_full, 2 items, 10 bytes
         2s   now: a cancelled; cancelled: a, by ada: moot
         3s   created: c r5, queued
         4s   refused: space_full, 2 items, 10 bytes
         5s   now: b r6; updated: b r6 context
         6s   refused: space_full, 2 items, 10 bytes
     "#]];
}
