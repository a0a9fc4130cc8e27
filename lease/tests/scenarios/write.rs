//! Writing, in the order of the checks, and activities: docs/RULES.md section 12.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    every_write_with_a_lower_token_is_stale_held_or_not:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10s
     10s  bob claims disk for 10s
     11s  ada updates disk with token 1, plan x
     11s  ada records progress on disk with token 1
     11s  ada awaits input on disk with token 1
     11s  ada resumes disk with token 1
     11s  ada hands on disk with token 1 to review
     11s  ada completes disk with token 1
     11s  ada fails disk with token 1
     11s  bob completes disk with token 1
     12s  bob releases disk
     13s  ada updates disk with token 1, reading r1, plan x
     13s  ada completes disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  granted: bob holds disk, token 2, until 20s; expired: ada's disk, token 1, an attempt
         11s  refused: stale_token
         11s  refused: stale_token
         11s  refused: stale_token
         11s  refused: stale_token
         11s  refused: stale_token
         11s  refused: stale_token
         11s  refused: stale_token
         11s  refused: stale_token
         12s  released: disk, unassigned, queued
         13s  refused: stale_token
         13s  refused: stale_token
     "#]];

    stale_token_comes_before_stale_write_and_before_terminal_item:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10s
     10s  bob claims disk for 10s
     11s  ada completes disk with token 1, reading r0
     12s  bob completes disk with token 2
     13s  ada completes disk with token 1
     13s  bob completes disk with token 2
     13s  bob updates disk, reading r1, title x" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  granted: bob holds disk, token 2, until 20s; expired: ada's disk, token 1, an attempt
         11s  refused: stale_token
         12s  now: disk complete; completed: bob's disk, token 2
         13s  refused: stale_token
         13s  refused: terminal_item
         13s  refused: terminal_item
     "#]];

    a_write_without_a_token_to_a_held_item_is_already_claimed_also_for_the_holder:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10s
     1s   bob updates disk, reading r1, title mine
     1s   ada updates disk, reading r1, title mine
     1s   bob completes disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10s
         1s   refused: already_claimed, retry after 9s, held by a user
         1s   refused: already_claimed, retry after 9s, held by ada until 10s
         1s   refused: already_claimed, retry after 9s, held by a user
     "#]];

    any_token_is_stale_from_another_actor_and_the_right_one_not_holder_from_another_session:
    "0s   ada creates disk in ops
     0s   ada/s1 claims disk for 10s
     1s   bob updates disk with token 1, title mine
     1s   ada/s2 completes disk with token 1
     1s   bob fails disk with token 7" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada/s1 holds disk, token 1, until 10s
         1s   refused: stale_token
         1s   refused: not_holder
         1s   refused: stale_token
     "#]];

    an_update_without_a_lease_requires_read_at:
    "0s   ada creates disk in ops
     1s   bob updates disk, title x
     1s   bob updates disk, reading r1, title x
     2s   cid updates disk, reading r1, priority 3
     3s   cid updates disk, reading r2, priority 3, title y
     4s   bob updates disk, reading r1, title z
     5s   bob updates disk, reading r2, title z" => expect![[r#"
         0s   created: disk r1, queued
         1s   refused: invalid: read_at is required while nobody holds the item
         1s   now: disk r2; updated: disk r2 title
         2s   refused: stale_write, now r2, changed: title
         3s   now: disk r3; updated: disk r3 title+priority
         4s   refused: stale_write, now r3, changed: title+priority
         5s   refused: stale_write, now r3, changed: title+priority
     "#]];

    a_queue_may_require_a_lease_for_every_update:
    "0s   op sets ops, require_lease always
     0s   ada creates disk in ops
     0s   ada updates disk, reading r2, title x
     0s   ada claims disk
     0s   ada updates disk with token 1, title x" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   refused: lease_required
         0s   granted: ada holds disk, token 1, until 15m
         0s   now: disk r4; updated: disk r4 title
     "#]];

    every_write_other_than_update_requires_a_lease:
    "0s   ada creates disk in ops
     0s   ada records progress on disk
     0s   ada awaits input on disk
     0s   ada resumes disk
     0s   ada hands on disk to review
     0s   ada completes disk
     0s   ada fails disk, finally
     0s   ada completes disk with token 5" => expect![[r#"
         0s   created: disk r1, queued
         0s   refused: lease_required
         0s   refused: lease_required
         0s   refused: lease_required
         0s   refused: lease_required
         0s   refused: lease_required
         0s   refused: lease_required
         0s   refused: lease_required
     "#]];

    under_a_lease_read_at_is_checked_when_it_is_sent:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   ada updates disk with token 1, title x
     2s   ada updates disk with token 1, reading r1, title y
     2s   ada completes disk with token 1, reading r1
     3s   ada updates disk with token 1, reading r3, title y
     4s   ada completes disk with token 1, reading r4" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   now: disk r3; updated: disk r3 title
         2s   refused: stale_write, now r3, changed: title
         2s   refused: stale_write, now r3, changed: title
         3s   now: disk r4; updated: disk r4 title
         4s   now: disk complete, at r4; completed: ada's disk, token 1
     "#]];

    renewals_state_changes_and_progress_do_not_change_the_revision:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   ada renews disk with token 1
     1s   ada awaits input on disk with token 1, asking why
     1s   ada resumes disk with token 1
     1s   ada records progress on disk with token 1, saying half
     2s   ada updates disk with token 1, reading r1, title x" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   renewed: disk until 901s, renew after 5m
         1s   now: disk awaiting_input; awaited_input: disk, token 1
         1s   now: disk active; resumed: disk, token 1
         1s   now: disk active; activity_recorded: disk Progress: half
         2s   now: disk r6; updated: disk r6 title
     "#]];

    an_update_that_changes_nothing_emits_no_event:
    "0s   ada creates disk in ops, title x, labels red
     1s   ada updates disk, reading r1, title x, labels red
     2s   ada updates disk, reading r1, title x, labels blue" => expect![[r#"
         0s   created: disk r1, queued
         1s   now: disk r1
         2s   now: disk r2; updated: disk r2 labels
     "#]];

    every_field_may_be_updated:
    "0s   ada creates many in ops: goal; top; disk
     1s   ada updates disk, reading r3, title t, priority 9, labels a+b, needs gpu, parent top, target goal, mode cloud, phase p, prompt x, context y, data z, instructions i
     2s   ada updates disk, reading r4, parent nothing, target nothing, needs nothing
     3s   bob takes next of ops, phase p" => expect![[r#"
         0s   created: goal r1, queued, created: top r2, queued, created: disk r3, queued
         1s   now: disk r4; updated: disk r4 title+priority+labels+needs+parent+target+mode+phase+prompt+instructions+context+data
         2s   now: disk r5; updated: disk r5 needs+parent+target
         3s   granted: bob holds disk, token 1, until 903s, phase p, at r5
     "#]];

    a_parent_must_not_be_a_descendant:
    "0s   ada creates many in ops: top; mid, parent top; leaf, parent mid
     1s   ada updates top, reading r1, parent leaf
     1s   ada updates top, reading r1, parent top
     1s   ada updates top, reading r1, parent ghost
     1s   ada updates top, reading r1, target top
     1s   ada updates leaf, reading r3, parent top" => expect![[r#"
         0s   created: top r1, queued, created: mid r2, queued, created: leaf r3, queued
         1s   refused: invalid: parent is the item itself or one of its descendants
         1s   refused: invalid: parent is the item itself or one of its descendants
         1s   refused: invalid: parent does not exist
         1s   refused: invalid: target is the item itself
         1s   now: leaf r4; updated: leaf r4 parent
     "#]];

    not_before_may_be_updated_only_while_pending:
    "0s   wall 10:00 ada creates many in ops: disk, not before 12:00; tape
     1s   wall 10:00 ada updates tape, reading r2, not_before 12:00
     2s   wall 10:00 ada updates disk, reading r1, not_before 11:00
     3s   wall 11:00 tick
     4s   wall 11:00 ada creates film in ops, not before 12:00
     5s   wall 11:00 ada updates film, reading r5, not_before nothing" => expect![[r#"
         0s   created: disk r1, pending, created: tape r2, queued
         1s   refused: wrong_state: queued
         2s   now: disk r3; updated: disk r3 not_before
         3s   queued: disk
         4s   created: film r5, pending
         5s   now: film r6; updated: film r6 not_before; queued: film
     "#]];

    activities_are_recorded_and_some_change_the_revision:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   ada records progress on disk with token 1, saying half
     1s   ada records plan_updated on disk with token 1, saying first a then b
     1s   ada records external_url_updated on disk with token 1, saying http://x
     1s   ada records policy_decision on disk with token 1, saying allowed
     2s   ada records plan_updated on disk with token 1, reading r4, saying other
     3s   ada records completed on disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   now: disk active; activity_recorded: disk Progress: half
         1s   now: disk active, at r4; activity_recorded: disk PlanUpdated: first a then b
         1s   now: disk active, at r5; activity_recorded: disk ExternalUrlUpdated: http://x
         1s   now: disk active, at r5; activity_recorded: disk PolicyDecision: allowed
         2s   refused: stale_write, now r5, changed: external_url
         3s   refused: invalid: kind must be recorded with the command of that name
     "#]];

    a_lapse_while_awaiting_input_is_not_an_attempt:
    "0s   op sets ops, attempts_max 1
     0s   ada creates disk in ops
     0s   ada claims disk for 10s
     1s   ada awaits input on disk with token 1, asking which one
     2s   ada awaits input on disk with token 1, asking again
     3s   ada resumes disk with token 1
     4s   ada resumes disk with token 1
     5s   ada awaits input on disk with token 1, asking which one
     6s   ada renews disk with token 1
     16s  tick
     17s  bob claims disk for 10s" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         1s   now: disk awaiting_input; awaited_input: disk, token 1
         2s   now: disk awaiting_input
         3s   now: disk active; resumed: disk, token 1
         4s   now: disk active
         5s   now: disk awaiting_input; awaited_input: disk, token 1
         6s   renewed: disk until 16s, renew after 3333ms
         16s  expired: ada's disk, token 1
         17s  granted: bob holds disk, token 2, until 27s
     "#]];

    release_and_complete_are_allowed_while_awaiting_input:
    "0s   ada creates many in ops: a; b
     0s   ada claims all: a; b
     1s   ada awaits input on a with token 1
     &    ada awaits input on b with token 2
     2s   ada releases a
     2s   ada completes b with token 2" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   [granted: ada holds a, token 1, until 15m, granted: ada holds b, token 2, until 15m]
         1s   now: a awaiting_input | now: b awaiting_input; awaited_input: a, token 1; awaited_input: b, token 2
         2s   released: a, unassigned, queued
         2s   now: b complete; completed: ada's b, token 2
     "#]];

    hand_on_ends_the_lease_and_the_assignment_and_queues_in_another_phase:
    "0s   op sets ops, phases work+review, attempts_max 1
     0s   ada creates disk in ops
     0s   ada claims disk
     1s   ada hands on disk with token 1 to lunch
     2s   ada hands on disk with token 1 to review
     3s   ada renews disk with token 1
     4s   ada takes next of ops, phase work
     5s   bob takes next of ops, phase review" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 15m, phase work
         1s   refused: invalid: phase is not a phase of the queue
         2s   now: disk queued, at r4; handed_on: ada's disk, token 1 to review
         3s   refused: lease_lost
         4s   empty: nothing eligible, retry after 1s
         5s   granted: bob holds disk, token 2, until 905s, phase review, at r4
     "#]];

    hand_on_serves_the_line:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   bob claims disk, waiting
     2s   ada hands on disk with token 1 to review" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   waiting: place 0 of 1
         2s   now: disk active, at r4; handed_on: ada's disk, token 1 to review; granted from the line: bob holds disk, token 2, until 12s
     "#]];

    only_a_dispatcher_sets_instructions_and_a_holder_writes_its_own_parts:
    "roles bob worker
     0s   ada creates disk in ops, instructions be kind
     0s   bob claims disk
     1s   bob updates disk with token 1, instructions be rude
     1s   bob updates disk with token 1, title mine
     1s   bob updates disk with token 1, plan a, external_url b, error c, result d
     1s   bob records plan_updated on disk with token 1, saying plan" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: bob holds disk, token 1, until 15m
         1s   refused: forbidden, needs dispatcher
         1s   refused: forbidden, needs dispatcher
         1s   now: disk r3; updated: disk r3 plan+external_url+error+result
         1s   now: disk active, at r4; activity_recorded: disk PlanUpdated: plan
     "#]];

    the_parts_of_a_body_are_bounded_together:
    "0s   ada creates disk in ops, prompt x*65000
     0s   ada updates disk, reading r1, context x*600
     0s   ada updates disk, reading r1, context x*536
     0s   ada claims disk
     1s   ada completes disk with token 1, result y
     2s   ada updates disk with token 1, context, prompt x
     3s   ada completes disk with token 1, result y" => expect![[r#"
         0s   created: disk r1, queued
         0s   refused: invalid: body has more than 65536 bytes in total
         0s   now: disk r2; updated: disk r2 context
         0s   granted: ada holds disk, token 1, until 15m, at r2
         1s   refused: invalid: body has more than 65536 bytes in total
         2s   now: disk r4; updated: disk r4 prompt+context
         3s   now: disk complete, at r5; completed: ada's disk, token 1
     "#]];
}
