//! Claiming one item, in the order of the checks: docs/RULES.md section 6.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    a_free_item_is_granted_and_a_line_is_served_at_the_lapse:
    "0s   ada creates disk in ops, priority 7
     0s   ada claims disk for 30s
     5s   bob claims disk for 30s, waiting
     30s  tick
     31s  ada renews disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 30s
         5s   waiting: place 0 of 1
         30s  expired: ada's disk, token 1, an attempt; granted from the line: bob holds disk, token 2, until 40s, was ada's
         31s  refused: lease_lost, held by a user
     "#]];

    an_unknown_item_is_not_found:
    "0s   ada claims disk
     0s   ada creates disk in ops
     0s   ada claims tape" => expect![[r#"
         0s   refused: not_found
         0s   created: disk r1, queued
         0s   refused: not_found
     "#]];

    every_claim_on_a_terminal_item_is_refused:
    "0s   ada creates disk in ops
     0s   ada claims disk
     0s   ada completes disk with token 1
     1s   ada claims disk
     1s   bob claims disk, waiting
     1s   bob claims disk, taking over" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         0s   now: disk complete; completed: ada's disk, token 1
         1s   refused: terminal_item
         1s   refused: terminal_item
         1s   refused: terminal_item
     "#]];

    a_claim_by_its_holder_is_a_renewal_and_never_a_second_lease:
    "0s   ada creates disk in ops
     0s   ada claims disk for 30s
     10s  ada claims disk for 30s
     20s  ada claims disk for 5s
     21s  ada/s1 claims disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 30s
         10s  renewed: ada holds disk, token 1, until 40s
         20s  renewed: ada holds disk, token 1, until 40s
         21s  refused: held_by_your_other_session
     "#]];

    a_holder_renews_by_claim_while_its_queue_is_paused_or_drained:
    "0s   ada creates disk in ops
     0s   ada claims disk for 30s
     1s   op pauses ops
     2s   ada claims disk for 30s
     3s   op drains ops
     4s   ada claims disk for 30s" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 30s
         1s   ops is paused; paused: ops
         2s   renewed: ada holds disk, token 1, until 32s
         3s   ops is draining; drain_started: ops
         4s   renewed: ada holds disk, token 1, until 34s
     "#]];

    a_pending_item_says_what_it_waits_for:
    "0s   ada creates a in ops
     0s   ada creates disk in ops, after a, not before 12:00, delayed 10s
     4s   bob claims disk
     4s   bob claims disk, waiting
     10s  bob claims disk" => expect![[r#"
         0s   created: a r1, queued
         0s   created: disk r2, pending
         4s   refused: not_ready, dependencies: 1, not before 12:00, retry after 6s
         4s   refused: not_ready, dependencies: 1, not before 12:00, retry after 6s
         10s  refused: not_ready, dependencies: 1, not before 12:00
     "#]];

    a_blocked_item_also_refuses_waiting_claims:
    "0s   op sets ops, attempts_max 1
     0s   ada creates disk in ops
     0s   ada claims disk for 30s
     30s  tick
     31s  ada claims disk
     31s  bob claims disk, waiting" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 30s
         30s  expired: ada's disk, token 1, an attempt; blocked: disk, no attempts left
         31s  refused: blocked
         31s  refused: blocked
     "#]];

    a_reserved_item_is_refused_to_others_and_granted_to_its_assignee_with_a_new_token:
    "0s   ada creates disk in ops
     0s   ada/s1 claims disk
     1s   ada/s1 reserves disk with token 1 for 60s
     2s   bob claims disk
     2s   bob claims disk, waiting
     3s   ada/s2 claims disk for 30s" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada/s1 holds disk, token 1, until 15m
         1s   reserved: disk for 60s, until 61s, reserved; reserved: ada/s1's disk, token 1 until 61s
         2s   refused: reserved, retry after 59s
         2s   refused: reserved, retry after 59s
         3s   granted: ada/s2 holds disk, token 2, until 33s, first at 0s
     "#]];

    a_local_item_of_another_owner_is_not_found:
    "kind bot agent of ada
     0s   ada creates disk in ops, local to ada
     0s   bob claims disk
     0s   bot claims disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   refused: not_found
         0s   granted: bot holds disk, token 1, until 15m
     "#]];

    /// An operator sees the item but may not claim it.
    a_local_item_is_not_found_even_by_an_operator_who_claims:
    "roles opal operator + worker
     0s   ada creates disk in ops, local to ada
     0s   opal claims disk
     0s   opal cancels disk, because gone" => expect![[r#"
         0s   created: disk r1, queued
         0s   refused: not_found
         0s   now: disk cancelled; cancelled: disk, by opal: gone
     "#]];

    pending_comes_before_paused:
    "0s   op pauses ops
     0s   ada creates disk in ops, delayed 10s
     0s   ada claims disk" => expect![[r#"
         0s   ops is paused; paused: ops
         0s   created: disk r2, pending
         0s   refused: not_ready, retry after 10s
     "#]];

    a_draining_queue_refuses_waiting_claims_too:
    "0s   ada creates disk in ops
     0s   op drains ops
     1s   ada claims disk
     1s   ada claims disk, waiting" => expect![[r#"
         0s   created: disk r1, queued
         0s   ops is draining; drain_started: ops; drained: ops
         1s   refused: queue_paused
         1s   refused: queue_paused
     "#]];

    a_paused_queue_refuses_a_claim_or_adds_it_to_the_line:
    "0s   ada creates disk in ops
     0s   op pauses ops
     1s   ada claims disk
     1s   bob claims disk for 30s, waiting
     2s   op unpauses ops" => expect![[r#"
         0s   created: disk r1, queued
         0s   ops is paused; paused: ops
         1s   refused: queue_paused
         1s   waiting: place 0 of 1
         2s   ops is open; unpaused: ops; granted from the line: bob holds disk, token 1, until 12s
     "#]];

    paused_comes_before_held_by_another:
    "0s   ada creates disk in ops
     0s   ada claims disk
     0s   op pauses ops
     1s   bob claims disk
     1s   ada/s2 claims disk, taking over" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         0s   ops is paused; paused: ops
         1s   refused: queue_paused
         1s   refused: queue_paused
     "#]];

    two_launches_of_one_identity_do_not_both_win:
    "0s   ada creates disk in ops
     0s   ada/s1 claims disk for 30s
     1s   ada/s2 claims disk for 30s
     1s   ada/s2 claims disk for 30s, waiting
     1s   ada claims disk for 30s" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada/s1 holds disk, token 1, until 30s
         1s   refused: held_by_your_other_session
         1s   refused: held_by_your_other_session
         1s   refused: held_by_your_other_session
     "#]];

    a_takeover_ends_the_other_session_and_grants_a_new_token:
    "0s   ada creates disk in ops
     0s   ada/s1 claims disk for 30s
     5s   ada/s2 claims disk for 30s, taking over
     6s   ada/s1 renews disk with token 1
     6s   ada/s1 completes disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada/s1 holds disk, token 1, until 30s
         5s   granted: ada/s2 holds disk, token 2, until 35s, first at 0s; taken_over: ada/s1's disk, token 1
         6s   refused: lease_lost, held by ada/s2 until 35s
         6s   refused: stale_token
     "#]];

    a_takeover_does_not_touch_another_actors_lease:
    "0s   ada creates disk in ops
     0s   ada claims disk for 30s
     5s   bob claims disk, taking over" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 30s
         5s   refused: already_claimed, retry after 25s, held by a user
     "#]];

    a_takeover_skips_the_line_and_leaves_it_unchanged:
    "0s   ada creates disk in ops
     0s   ada/s1 claims disk for 30s
     1s   bob claims disk for 30s, waiting
     5s   ada/s2 claims disk for 20s, taking over
     25s  tick" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada/s1 holds disk, token 1, until 30s
         1s   waiting: place 0 of 1
         5s   granted: ada/s2 holds disk, token 2, until 25s, first at 0s, 1 in line; taken_over: ada/s1's disk, token 1
         25s  expired: ada/s2's disk, token 2, an attempt; granted from the line: bob holds disk, token 3, until 35s, was ada's
     "#]];

    a_held_item_is_already_claimed_with_the_time_until_it_may_be_free:
    "kind bot agent
     0s   ada creates disk in ops
     0s   bot claims disk for 30s
     10s  bob claims disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: bot holds disk, token 1, until 30s
         10s  refused: already_claimed, retry after 20s, held by an agent
     "#]];

    nobody_overtakes_a_line:
    "0s   op sets ops, concurrency 1
     0s   ada creates many in ops: disk; tape
     0s   ada claims tape for 60s
     1s   bob claims disk for 30s, waiting
     2s   cid claims disk
     2s   cid claims disk for 30s, waiting
     5s   ada releases tape with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued, created: tape r3, queued
         0s   granted: ada holds tape, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   refused: already_claimed, retry after 1s
         2s   waiting: place 1 of 2
         5s   released: tape, unassigned, queued; granted from the line: bob holds disk, token 2, until 15s
     "#]];

    lock_delay_keeps_others_out_after_a_lapse_but_not_the_previous_holder:
    "0s   op sets ops, lock_delay 20s
     0s   ada creates many in ops: disk; tape
     0s   ada claims disk for 30s
     0s   ada claims tape for 30s
     30s  tick
     31s  bob claims disk
     32s  ada/s2 claims disk for 60s
     33s  bob claims tape for 60s, waiting
     49s  bob claims tape for 60s, waiting
     50s  tick" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued, created: tape r3, queued
         0s   granted: ada holds disk, token 1, until 30s
         0s   granted: ada holds tape, token 2, until 30s
         30s  expired: ada's disk, token 1, an attempt; expired: ada's tape, token 2, an attempt
         31s  refused: already_claimed, retry after 19s
         32s  granted: ada/s2 holds disk, token 3, until 92s, first at 0s
         33s  waiting: place 0 of 1
         49s  still waiting: place 0 of 1
         50s  granted from the line: bob holds tape, token 4, until 60s, was ada's
     "#]];

    lock_delay_does_not_follow_a_clean_end:
    "0s   op sets ops, lock_delay 20s
     0s   ada creates disk in ops
     0s   ada claims disk for 30s
     5s   ada releases disk with token 1
     6s   bob claims disk for 30s" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 30s
         5s   released: disk, unassigned, queued
         6s   granted: bob holds disk, token 2, until 36s
     "#]];

    a_full_queue_refuses_a_claim_or_adds_it_to_the_line:
    "0s   op sets ops, concurrency 1
     0s   ada creates many in ops: disk; tape
     0s   ada claims disk for 30s
     1s   bob claims tape
     1s   bob claims tape for 30s, waiting
     30s  tick" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued, created: tape r3, queued
         0s   granted: ada holds disk, token 1, until 30s
         1s   refused: queue_full, retry after 1s
         1s   waiting: place 0 of 1
         30s  expired: ada's disk, token 1, an attempt; granted from the line: bob holds tape, token 2, until 40s
     "#]];

    an_actor_at_max_leases_is_refused_in_this_queue_only:
    "0s   op sets ops, max_leases 1
     0s   ada creates many in ops: disk; tape
     0s   ada creates film in dev
     0s   ada/s1 claims disk
     1s   ada/s2 claims tape
     1s   ada claims tape, waiting
     1s   ada claims film
     1s   bob claims tape" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued, created: tape r3, queued
         0s   created: film r4, queued
         0s   granted: ada/s1 holds disk, token 1, until 15m
         1s   refused: too_many_leases, max 1
         1s   refused: too_many_leases, max 1
         1s   granted: ada holds film, token 2, until 901s
         1s   granted: bob holds tape, token 3, until 901s
     "#]];

    full_comes_before_too_many_leases:
    "0s   op sets ops, max_leases 1, concurrency 1
     0s   ada creates many in ops: disk; tape
     0s   ada claims disk
     1s   ada claims tape" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued, created: tape r3, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   refused: queue_full, retry after 1s
     "#]];

    release_oldest_releases_the_oldest_lease_of_the_same_session:
    "0s   op sets ops, max_leases 2, at_max_leases release_oldest
     0s   ada creates many in ops: a; b; c; d
     0s   ada/s1 claims a
     1s   ada/s2 claims b
     2s   ada/s2 claims c
     3s   ada/s2 releases b
     3s   ada/s2 claims b
     4s   ada/s2 claims d" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued, created: c r4, queued, created: d r5, queued
         0s   granted: ada/s1 holds a, token 1, until 15m
         1s   granted: ada/s2 holds b, token 2, until 901s
         2s   granted: ada/s2 holds c, token 3, until 902s, released b; released: ada/s2's b, token 2
         3s   held nothing: b, queued
         3s   granted: ada/s2 holds b, token 4, until 903s, first at 1s, released c; released: ada/s2's c, token 3
         4s   granted: ada/s2 holds d, token 5, until 904s, released b; released: ada/s2's b, token 4
     "#]];

    release_oldest_does_not_touch_other_sessions:
    "0s   op sets ops, max_leases 1, at_max_leases release_oldest
     0s   ada creates many in ops: a; b
     0s   ada/s1 claims a
     1s   ada/s2 claims b
     2s   ada/s1 claims b" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada/s1 holds a, token 1, until 15m
         1s   refused: too_many_leases, max 1
         2s   granted: ada/s1 holds b, token 2, until 902s, released a; released: ada/s1's a, token 1
     "#]];

    release_oldest_releases_nothing_when_the_claim_is_refused:
    "0s   op sets ops, max_leases 1, at_max_leases release_oldest
     0s   ada creates many in ops: a; b
     0s   ada claims a
     0s   bob claims b
     1s   ada claims b
     2s   ada renews a with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada holds a, token 1, until 15m
         0s   granted: bob holds b, token 2, until 15m
         1s   refused: already_claimed, retry after 899s, held by a user
         2s   renewed: a until 902s, renew after 5m
     "#]];

    anyone_may_claim_after_a_lapse_and_the_event_names_the_assignee:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10s
     10s  tick
     11s  bob claims disk for 10s
     11s  op watches" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  expired: ada's disk, token 1, an attempt
         11s  granted: bob holds disk, token 2, until 21s
         11s  created: disk by ada; granted: ada holds disk, token 1, until 10s by ada; expired: ada's disk, token 1, an attempt by ?; granted: bob holds disk, token 2, until 21s, was ada's by bob
     "#]];

    the_first_claim_time_is_kept_for_the_same_actor_and_reset_by_another:
    "0s   ada creates disk in ops
     0s   ada/s1 claims disk for 10s
     10s  tick
     12s  ada/s2 claims disk for 10s
     13s  ada/s2 releases disk
     14s  ada claims disk for 10s
     15s  ada releases disk
     16s  bob claims disk for 10s
     17s  bob releases disk
     18s  ada claims disk for 10s" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada/s1 holds disk, token 1, until 10s
         10s  expired: ada/s1's disk, token 1, an attempt
         12s  granted: ada/s2 holds disk, token 2, until 22s, first at 0s
         13s  released: disk, unassigned, queued
         14s  granted: ada holds disk, token 3, until 24s, first at 0s
         15s  released: disk, unassigned, queued
         16s  granted: bob holds disk, token 4, until 26s
         17s  released: disk, unassigned, queued
         18s  granted: ada holds disk, token 5, until 28s
     "#]];

    a_lease_is_cut_to_the_ceiling_and_says_so:
    "0s   op sets ops, lease_for 20s, lease_max 60s, lease_min 5s
     0s   ada creates many in ops: a; b; c
     0s   ada claims a for 61s
     0s   ada claims b
     0s   ada claims c for 1s
     1s   ada claims a for 2h" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued, created: c r4, queued
         0s   granted: ada holds a, token 1, until 60s, cut
         0s   granted: ada holds b, token 2, until 20s
         0s   granted: ada holds c, token 3, until 5s
         1s   renewed: ada holds a, token 1, until 61s, cut
     "#]];

    the_outcome_carries_the_item_as_it_is_now:
    "0s   ada creates disk in ops, phase draft
     0s   ada updates disk, reading r1, title new
     1s   bob claims disk for 30s" => expect![[r#"
         0s   created: disk r1, queued
         0s   now: disk r2; updated: disk r2 title
         1s   granted: bob holds disk, token 1, until 31s, phase draft, at r2
     "#]];

    a_claim_by_id_works_under_a_held_ancestor:
    "0s   ada creates many in ops: top; leaf, parent top
     0s   ada claims top
     1s   bob takes next of ops
     1s   bob claims leaf" => expect![[r#"
         0s   created: top r1, queued, created: leaf r2, queued
         0s   granted: ada holds top, token 1, until 15m
         1s   empty: nothing eligible, retry after 1s
         1s   granted: bob holds leaf, token 2, until 901s
     "#]];

    setting_an_item_to_in_progress_is_a_claim_and_the_answer_says_so:
    "0s   ada creates disk in ops
     0s   ada starts disk, reading r1, plan first
     1s   bob starts disk, title mine
     2s   op pauses ops
     2s   ada starts disk, title again" => expect![[r#"
         0s   created: disk r1, queued
         0s   now: disk r3, granted: ada holds disk, token 1, until 15m, at r3; updated: disk r3 plan
         1s   refused: already_claimed, retry after 899s, held by a user
         2s   ops is paused; paused: ops
         2s   refused: already_claimed, retry after 898s, held by ada until 15m
     "#]];

    starting_checks_the_revision_before_anything_happens:
    "0s   ada creates disk in ops
     0s   ada updates disk, reading r1, title new
     1s   bob starts disk, reading r1, plan first
     1s   bob starts disk, reading r2, plan first" => expect![[r#"
         0s   created: disk r1, queued
         0s   now: disk r2; updated: disk r2 title
         1s   refused: stale_write, now r2, changed: title
         1s   now: disk r4, granted: bob holds disk, token 1, until 901s, at r4; updated: disk r4 plan
     "#]];

    deadlines_count_from_the_latest_time_not_from_the_time_of_the_entry:
    "10s  ada creates disk in ops
     5s   ada claims disk for 30s
     39s  ada renews disk with token 1 for 30s" => expect![[r#"
         10s  created: disk r1, queued
         5s   granted: ada holds disk, token 1, until 40s
         39s  renewed: disk until 69s, renew after 10s
     "#]];

    tokens_rise_over_items_and_spaces:
    "0s   ada creates many in ops: a; b
     0s   ada@acme creates a in ops
     0s   ada claims b
     0s   ada@acme claims a
     0s   ada claims a
     1s   ada releases b
     1s   bob claims b" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   created: a r1, queued
         0s   granted: ada holds b, token 1, until 15m
         0s   granted: ada holds a, token 2, until 15m
         0s   granted: ada holds a, token 3, until 15m
         1s   released: b, unassigned, queued
         1s   granted: bob holds b, token 4, until 901s
     "#]];
}
