//! Renew, extend, release, reserve, revoke and assign: docs/RULES.md sections 9 and 11.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    a_renewal_moves_expiry_later_and_never_earlier:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     10s  ada renews disk with token 1 for 30s
     20s  ada renews disk with token 1
     30s  ada renews disk with token 1 for 2m" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         10s  renewed: disk until 60s, renew after 16666ms
         20s  renewed: disk until 80s, renew after 20s
         30s  renewed: disk until 150s, renew after 40s
     "#]];

    a_renewal_is_limited_by_lease_max_but_may_be_repeated_forever:
    "0s   op sets ops, lease_for 10s, lease_max 60s
     0s   ada creates disk in ops
     0s   ada claims disk
     5s   ada renews disk with token 1 for 1h
     64s  ada renews disk with token 1 for 1h
     120s ada renews disk with token 1 for 1h" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         5s   renewed: disk until 65s, renew after 20s
         64s  renewed: disk until 124s, renew after 20s
         120s renewed: disk until 3m, renew after 20s
     "#]];

    a_renewal_never_revives:
    "0s   ada creates disk in ops
     0s   ada claims disk for 30s
     30s  ada renews disk with token 1
     31s  ada renews all, expecting disk=1
     32s  ada extends disk with token 1 by 30s" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 30s
         30s  refused: lease_lost; expired: ada's disk, token 1, an attempt
         31s  renewed all: 0, lost: disk
         32s  refused: lease_lost
     "#]];

    a_renewal_answers_line_length_cancel_and_drain:
    "0s   ada creates disk in ops
     0s   ada/s1 registers
     0s   ada/s1 claims disk for 60s
     1s   bob claims disk, waiting
     2s   op drains worker ada/s1
     3s   ada/s1 renews disk with token 1
     4s   dee cancels disk, because moot
     5s   ada/s1 renews disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   registered for 60s; worker_registered: ada/s1
         0s   granted: ada/s1 holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   worker drains; worker_drained: ada/s1
         3s   renewed: disk until 63s, renew after 20s, 1 in line, drain
         4s   now: disk active, ends by 63s; cancel_requested: disk, by dee: moot
         5s   renewed: disk until 35s, renew after 10s, 1 in line, cancel requested, drain
     "#]];

    a_lower_token_is_lease_lost_for_every_caller:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10s
     10s  bob claims disk for 60s
     11s  ada renews disk with token 1
     11s  bob renews disk with token 1
     11s  cid extends disk with token 1 by 60s
     11s  cid reserves disk with token 1 for 60s
     11s  cid releases disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  granted: bob holds disk, token 2, until 70s; expired: ada's disk, token 1, an attempt
         11s  refused: lease_lost, held by a user
         11s  refused: lease_lost, held by bob until 70s
         11s  refused: lease_lost, held by a user
         11s  refused: lease_lost, held by a user
         11s  held nothing: disk, active
     "#]];

    the_right_token_is_not_holder_from_another_session_and_lease_lost_from_another_actor:
    "0s   ada creates disk in ops
     0s   ada/s1 claims disk for 60s
     1s   bob renews disk with token 1
     1s   ada/s2 renews disk with token 1
     1s   ada extends disk with token 1 by 60s
     1s   bob reserves disk with token 1
     1s   bob releases disk with token 1
     1s   ada/s2 releases disk
     1s   bob renews disk with token 9" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada/s1 holds disk, token 1, until 60s
         1s   refused: lease_lost, held by a user
         1s   refused: not_holder
         1s   refused: not_holder
         1s   refused: lease_lost, held by a user
         1s   held nothing: disk, active
         1s   refused: not_holder
         1s   refused: lease_lost, held by a user
     "#]];

    a_finished_item_has_no_lease_to_renew:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     0s   ada completes disk with token 1
     1s   ada renews disk with token 1
     1s   ada releases disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         0s   now: disk complete; completed: ada's disk, token 1
         1s   refused: lease_lost
         1s   held nothing: disk, complete
     "#]];

    renew_all_renews_the_sessions_leases_and_no_others:
    "0s   ada creates many in ops: a; b; c; d
     0s   ada/s1 claims a for 30s
     0s   ada/s1 claims b for 60s
     0s   ada claims c for 30s
     10s  ada/s1 renews all, expecting a=1+b=2+c=3+d=4
     20s  ada renews all for 2m
     30s  ada/s3 renews all
     39s  tick
     40s  tick" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued, created: d r4, queued
         0s   granted: ada/s1 holds a, token 1, until 30s
         0s   granted: ada/s1 holds b, token 2, until 60s
         0s   granted: ada holds c, token 3, until 30s
         10s  renewed all: 2, 30s left, renew after 10s, lost: c+d
         20s  renewed all: 1, 2m left, renew after 40s
         30s  renewed all: 0
         39s  nothing
         40s  expired: ada/s1's a, token 1, an attempt
     "#]];

    renew_all_leaves_reservations_untouched:
    "0s   ada creates disk in ops
     0s   ada claims disk for 30s
     0s   ada reserves disk with token 1 for 20s
     10s  ada renews all, expecting disk=1
     20s  tick" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 30s
         0s   reserved: disk for 20s, until 20s, reserved; reserved: ada's disk, token 1 until 20s
         10s  renewed all: 0, lost: disk
         20s  reservation_ended: ada's disk
     "#]];

    renew_all_renews_nothing_without_the_right_to_hold:
    "roles bob worker
     0s   ada creates disk in ops
     0s   bob claims disk for 60s
     roles bob reader
     10s  bob renews disk with token 1
     10s  bob renews all
     60s  tick" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: bob holds disk, token 1, until 60s
         10s  refused: forbidden, needs worker
         10s  refused: forbidden, needs worker
         60s  expired: bob's disk, token 1, an attempt
     "#]];

    renew_all_in_an_unknown_space_holds_nothing:
    "0s   ada@acme renews all, expecting disk=1" => expect![[r#"
        0s   renewed all: 0, lost: disk
    "#]];

    extend_never_shortens:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   ada extends disk with token 1 by 10s
     2s   ada extends disk with token 1 by 10m" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   extended: disk until 60s
         2s   extended: disk until 602s; extended: ada's disk, token 1 until 602s
     "#]];

    extend_is_capped_at_the_ceiling_and_says_so:
    "0s   op sets ops, lease_for 10s, lease_max 60s
     0s   ada creates disk in ops
     0s   ada claims disk
     5s   ada extends disk with token 1 by 2m" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         5s   extended: disk until 65s, capped to 60s; extended: ada's disk, token 1 until 65s
     "#]];

    extend_by_zero_is_invalid:
    "0s   ada creates disk in ops
     0s   ada claims disk
     0s   ada extends disk with token 1 by 0s" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         0s   refused: invalid: for must be more than zero
     "#]];

    release_ends_the_lease_and_the_assignment:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   ada releases disk with token 1
     2s   ada renews disk with token 1
     3s   bob claims disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   released: disk, unassigned, queued
         2s   refused: lease_lost
         3s   granted: bob holds disk, token 2, until 903s
     "#]];

    release_may_keep_the_assignment:
    "0s   ada creates many in ops: disk; tape, priority 9
     0s   ada claims disk for 60s
     1s   ada releases disk, keeping it
     2s   ada takes next of ops" => expect![[r#"
         0s   created: disk r1, queued, created: tape r2, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   released: disk, queued
         2s   granted: ada holds disk, token 2, until 902s, first at 0s
     "#]];

    release_is_idempotent_and_removes_a_leftover_assignment:
    "0s   ada creates disk in ops
     0s   ada releases disk
     0s   ada claims disk for 10s
     10s  tick
     11s  ada releases disk, keeping it
     12s  ada releases disk
     13s  ada releases disk
     14s  ada releases ghost" => expect![[r#"
         0s   created: disk r1, queued
         0s   held nothing: disk, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  expired: ada's disk, token 1, an attempt
         11s  held nothing: disk, stale
         12s  held nothing: disk, unassigned, stale; unassigned: disk, ada, by ada
         13s  held nothing: disk, stale
         14s  refused: not_found
     "#]];

    release_without_a_token_touches_only_the_callers_own_session:
    "0s   ada creates disk in ops
     0s   ada/s1 claims disk
     1s   ada releases disk
     2s   bob releases disk
     3s   ada/s1 releases disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada/s1 holds disk, token 1, until 15m
         1s   refused: not_holder
         2s   refused: not_holder
         3s   released: disk, unassigned, queued
     "#]];

    a_reservation_needs_no_heartbeat_and_returns_to_the_pool_in_time:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10s
     1s   ada reserves disk with token 1 for 60s
     20s  tick
     61s  tick
     62s  bob claims disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10s
         1s   reserved: disk for 60s, until 61s, reserved; reserved: ada's disk, token 1 until 61s
         20s  nothing
         61s  reservation_ended: ada's disk
         62s  granted: bob holds disk, token 2, until 962s
     "#]];

    a_reservation_is_cut_to_the_queues_longest:
    "0s   op sets ops, reservation_max 60s
     0s   ada creates many in ops: a; b
     0s   ada claims all: a; b
     1s   ada reserves a with token 1 for 1h
     1s   ada reserves b with token 2" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   [granted: ada holds a, token 1, until 15m, granted: ada holds b, token 2, until 15m]
         1s   reserved: a for 60s, until 61s, reserved; reserved: ada's a, token 1 until 61s
         1s   reserved: b for 60s, until 61s, reserved; reserved: ada's b, token 2 until 61s
     "#]];

    an_old_token_is_lost_after_a_reservation_was_claimed_again:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   ada reserves disk with token 1 for 60s
     2s   ada renews disk with token 1
     3s   ada claims disk for 60s
     4s   ada renews disk with token 1
     4s   ada renews disk with token 2" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   reserved: disk for 60s, until 61s, reserved; reserved: ada's disk, token 1 until 61s
         2s   refused: lease_lost
         3s   granted: ada holds disk, token 2, until 63s, first at 0s
         4s   refused: lease_lost, held by ada until 63s
         4s   renewed: disk until 64s, renew after 20s
     "#]];

    a_line_waits_for_the_end_of_a_reservation:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk for 60s, waiting
     2s   ada reserves disk with token 1 for 20s
     22s  tick" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   reserved: disk for 20s, until 22s, reserved; reserved: ada's disk, token 1 until 22s
         22s  reservation_ended: ada's disk; granted from the line: bob holds disk, token 2, until 32s, was ada's
     "#]];

    a_reservation_ends_with_its_assignment:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   ada reserves disk with token 1 for 60s
     2s   ada releases disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   reserved: disk for 60s, until 61s, reserved; reserved: ada's disk, token 1 until 61s
         2s   held nothing: disk, unassigned, queued; unassigned: disk, ada, by ada; reservation_ended: ada's disk
     "#]];

    revoke_ends_the_lease_and_keeps_the_assignment:
    "0s   ada creates many in ops: disk; tape, priority 9
     0s   ada claims disk for 60s
     1s   op revokes disk, because stuck
     2s   ada renews disk with token 1
     3s   ada takes next of ops" => expect![[r#"
         0s   created: disk r1, queued, created: tape r2, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   revoked: disk, queued; revoked: ada's disk, token 1, by op: stuck
         2s   refused: lease_lost
         3s   granted: ada holds disk, token 2, until 903s, first at 0s
     "#]];

    revoke_may_move_the_assignment:
    "0s   ada creates many in ops: disk; tape, priority 9
     0s   ada claims disk for 60s
     1s   op revokes disk, because stuck, giving it to bob
     2s   bob takes next of ops" => expect![[r#"
         0s   created: disk r1, queued, created: tape r2, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   revoked: disk, queued; revoked: ada's disk, token 1, by op: stuck; assigned: disk, bob, by op
         2s   granted: bob holds disk, token 2, until 902s
     "#]];

    revoke_is_no_attempt:
    "0s   op sets ops, attempts_max 1
     0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   op revokes disk, because stuck
     2s   bob claims disk" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   revoked: disk, queued; revoked: ada's disk, token 1, by op: stuck
         2s   granted: bob holds disk, token 2, until 902s
     "#]];

    revoke_is_an_unclean_end_that_lock_delay_follows:
    "0s   op sets ops, lock_delay 20s
     0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   op revokes disk, because stuck
     2s   bob claims disk" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   revoked: disk, queued; revoked: ada's disk, token 1, by op: stuck
         2s   refused: already_claimed, retry after 19s
     "#]];

    revoke_serves_the_line:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk for 60s, waiting as r1
     2s   op revokes disk, because stuck
     3s   bob claims disk for 60s, waiting as r1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   revoked: disk, active; revoked: ada's disk, token 1, by op: stuck; granted from the line: bob holds disk, token 2, until 12s, was ada's
         3s   granted: bob holds disk, token 2, until 63s; picked_up: bob's disk, token 2
     "#]];

    revoke_ends_a_reservation_and_answers_that_a_free_item_was_not_held:
    "0s   ada creates disk in ops
     0s   op revokes disk, because why not
     0s   ada claims disk for 60s
     1s   ada reserves disk with token 1 for 60s
     2s   op revokes disk, because stuck" => expect![[r#"
         0s   created: disk r1, queued
         0s   held by nobody: disk, queued; revoked: disk, by op: why not
         0s   granted: ada holds disk, token 1, until 60s
         1s   reserved: disk for 60s, until 61s, reserved; reserved: ada's disk, token 1 until 61s
         2s   revoked: disk, queued; revoked: disk, by op: stuck; reservation_ended: ada's disk
     "#]];

    assign_gives_ownership_without_a_lease:
    "0s   ada creates disk in ops
     0s   ada assigns disk to bob
     1s   ada assigns disk to bob
     2s   ada unassigns disk from cid
     3s   ada unassigns disk from bob" => expect![[r#"
         0s   created: disk r1, queued
         0s   assigned: disk to bob; assigned: disk, bob, by ada
         1s   assigned: disk to bob
         2s   was not assigned: disk
         3s   unassigned: disk; unassigned: disk, bob, by ada
     "#]];

    assign_is_refused_while_another_actors_lease_is_live:
    "0s   ada creates disk in ops
     0s   bob claims disk for 60s
     1s   ada assigns disk to cid
     1s   ada assigns disk to bob
     1s   ada unassigns disk from cid" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: bob holds disk, token 1, until 60s
         1s   refused: already_claimed, retry after 59s, held by a user
         1s   assigned: disk to bob
         1s   refused: already_claimed, retry after 59s, held by a user
     "#]];

    assign_is_refused_while_reserved_for_another:
    "0s   ada creates disk in ops
     0s   bob claims disk for 60s
     1s   bob reserves disk with token 1 for 60s
     2s   ada assigns disk to cid
     2s   ada assigns disk to bob
     3s   ada unassigns disk from bob" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: bob holds disk, token 1, until 60s
         1s   reserved: disk for 60s, until 61s, reserved; reserved: bob's disk, token 1 until 61s
         2s   refused: reserved, retry after 59s
         2s   assigned: disk to bob
         3s   unassigned: disk; unassigned: disk, bob, by ada; reservation_ended: bob's disk
     "#]];

    the_assignment_outlives_the_lapse:
    "0s   ada creates many in ops: disk; tape, priority 9
     0s   ada claims disk for 10s
     10s  tick
     11s  ada takes next of ops" => expect![[r#"
         0s   created: disk r1, queued, created: tape r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  expired: ada's disk, token 1, an attempt
         11s  granted: ada holds disk, token 2, until 911s, first at 0s
     "#]];
}
