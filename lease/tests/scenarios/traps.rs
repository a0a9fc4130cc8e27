//! Bugs that other systems had, and the corners where they had them, as far as this crate decides them.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    /// A leader that hung on its disk must not end every lease when it comes back: only leases that are due lapse.
    etcd15247_a_long_silence_ends_only_the_leases_that_are_due:
    "0s   ada creates many in ops: a; b
     0s   ada claims all: a for 30s; b for 10m
     5m   tick
     5m   ada renews b with token 2" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   [granted: ada holds a, token 1, until 30s, granted: ada holds b, token 2, until 10m]
         5m   expired: ada's a, token 1, an attempt
         5m   renewed: b until 15m, renew after 200s
     "#]];

    /// The entry of a deposed leader carries an older time and ends nothing.
    etcd12528_an_entry_stamped_by_an_old_leader_ends_nothing:
    "100s ada creates disk in ops
     100s ada claims disk for 30s
     20s  tick
     20s  bob claims disk
     129s ada renews disk with token 1" => expect![[r#"
         100s created: disk r1, queued
         100s granted: ada holds disk, token 1, until 130s
         20s  nothing
         20s  refused: already_claimed, retry after 30s, held by a user
         129s renewed: disk until 159s, renew after 10s
     "#]];

    /// Expiry is in the log, so a new leader's first entry does not change it. (Every step here is reloaded.)
    etcd9395_leases_do_not_restart_at_full_length:
    "0s   ada creates disk in ops
     0s   ada claims disk for 30s
     10s  tick
     20s  tick
     29s  tick
     30s  tick" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 30s
         10s  nothing
         20s  nothing
         29s  nothing
         30s  expired: ada's disk, token 1, an attempt
     "#]];

    etcd9360_mass_expiry_is_spread_over_entries:
    "0s   ada creates many in ops: n1..n1000
     0s   ada creates many in ops: m1..m500
     0s   12*ada takes next of ops for 10s, count 100
     10s  tick
     10s  tick
     10s  tick" => expect![[r#"
         0s   created: n1 r1, queued, ... 998 more ..., created: n1000 r1000, queued
         0s   created: m1 r1001, queued, ... 498 more ..., created: m500 r1500, queued
         0s   granted: ada holds n1, token 1, until 10s, ... 98 more ..., granted: ada holds n100, token 100, until 10s | ... 10 more ... | granted: ada holds m101, token 1101, until 10s, ... 98 more ..., granted: ada holds m200, token 1200, until 10s
         10s  1000 x expired (n1 to n1000)
         10s  200 x expired (m1 to m200)
         10s  nothing
     "#]];

    dates_that_come_and_retentions_that_end_at_once_are_spread_over_entries:
    "0s   mob*1001 creates % in ops, not before 12:00
     1s   wall 12:00 tick
     1s   wall 12:00 tick
     2s   mob*1001 cancels %
     8d   tick
     8d   tick" => expect![[r#"
         0s   created: mob1 r1, pending | ... 999 more ... | created: mob1001 r1001, pending
         1s   1000 x queued (mob1 to mob1000)
         1s   queued: mob1001
         2s   now: mob1 cancelled | ... 999 more ... | now: mob1001 cancelled; 1001 x cancelled (mob1 to mob1001)
         8d   1000 x purged (mob1 to mob1000)
         8d   purged: mob1001, cancelled
     "#]];

    a_due_lease_is_not_renewed_however_much_lapsed_before_it:
    "0s   ada creates many in ops: n1..n1000
     0s   ada creates many in ops: m1..m500
     0s   11*ada takes next of ops for 10s, count 100
     10s  ada renews m100 with token 1100
     &    bob claims m99 for 10s" => expect![[r#"
         0s   created: n1 r1, queued, ... 998 more ..., created: n1000 r1000, queued
         0s   created: m1 r1001, queued, ... 498 more ..., created: m500 r1500, queued
         0s   granted: ada holds n1, token 1, until 10s, ... 98 more ..., granted: ada holds n100, token 100, until 10s | ... 9 more ... | granted: ada holds m1, token 1001, until 10s, ... 98 more ..., granted: ada holds m100, token 1100, until 10s
         10s  refused: lease_lost | granted: bob holds m99, token 1101, until 20s; 1002 x expired (n1 to m99)
     "#]];

    a_place_that_has_ended_is_not_kept_however_much_lapsed_before_it:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     0s   bob claims disk, waiting 10s
     0s   cid claims disk, waiting
     0s   ada creates many in ops: n1..n1000
     0s   10*ada takes next of ops for 9s, count 100
     10s  ada renews disk with token 1
     &    bob withdraws from disk
     &    cid withdraws from disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         0s   waiting: place 0 of 1
         0s   waiting: place 1 of 2
         0s   created: n1 r5, queued, ... 998 more ..., created: n1000 r1004, queued
         0s   granted: ada holds n1, token 2, until 9s, ... 98 more ..., granted: ada holds n100, token 101, until 9s | ... 8 more ... | granted: ada holds n901, token 902, until 9s, ... 98 more ..., granted: ada holds n1000, token 1001, until 9s
         10s  renewed: disk until 70s, renew after 20s, 1 in line | was in no line: disk | withdrawn: disk; 1000 x expired (n1 to n1000); left_line: bob (wait_timeout); left_line: cid
     "#]];

    a_due_lease_is_not_renewed_by_renew_all_either:
    "0s   ada creates many in ops: n1..n1000
     0s   ada creates many in ops: m1..m500
     0s   11*ada takes next of ops for 10s, count 100
     10s  ada renews all, expecting m100=1100" => expect![[r#"
         0s   created: n1 r1, queued, ... 998 more ..., created: n1000 r1000, queued
         0s   created: m1 r1001, queued, ... 498 more ..., created: m500 r1500, queued
         0s   granted: ada holds n1, token 1, until 10s, ... 98 more ..., granted: ada holds n100, token 100, until 10s | ... 9 more ... | granted: ada holds m1, token 1001, until 10s, ... 98 more ..., granted: ada holds m100, token 1100, until 10s
         10s  renewed all: 0, lost: m100; 1100 x expired (n1 to m99)
     "#]];

    /// A lost reply to a renewal must not cost the lease.
    dynamolock280_a_renewal_is_repeated_without_loss:
    "0s   ada creates disk in ops
     0s   ada claims disk for 30s
     10s  ada renews disk with token 1 as r1
     12s  ada renews disk with token 1 as r1 again
     14s  ada renews disk with token 1 as r2" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 30s
         10s  renewed: disk until 40s, renew after 10s
         12s  renewed: disk until 42s, renew after 10s
         14s  renewed: disk until 44s, renew after 10s
     "#]];

    taskorch151_claiming_b_after_a_keeps_both:
    "0s   ada creates many in ops: a; b
     0s   ada claims a for 60s
     1s   ada claims b for 60s
     2s   ada renews all, expecting a=1+b=2" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   granted: ada holds a, token 1, until 60s
         1s   granted: ada holds b, token 2, until 61s
         2s   renewed all: 2, 60s left, renew after 20s
     "#]];

    taskorch151_the_request_memory_belongs_to_the_verified_actor:
    "0s   ada creates many in ops: a; b
     0s   ada claims a as same
     0s   bob claims b as same
     1s   bob claims a as same" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   granted: ada holds a, token 1, until 15m
         0s   granted: bob holds b, token 2, until 15m
         1s   refused: request_id_reused
     "#]];

    taskorch197_a_release_of_a_stolen_claim_says_that_nothing_was_released:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10s
     10s  bob claims disk for 60s
     11s  ada releases disk with token 1
     11s  ada releases disk
     12s  bob renews disk with token 2" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  granted: bob holds disk, token 2, until 70s; expired: ada's disk, token 1, an attempt
         11s  held nothing: disk, active
         11s  refused: not_holder
         12s  renewed: disk until 72s, renew after 20s
     "#]];

    beads4657_each_item_goes_to_one_of_eight_racers:
    "0s   ada creates many in ops: a; b; c
     1s   r1 takes next of ops
     &    r2 takes next of ops
     &    r3 takes next of ops
     &    r4 takes next of ops
     &    r5 takes next of ops
     &    r6 takes next of ops
     &    r7 takes next of ops
     &    r8 takes next of ops" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued
         1s   granted: r1 holds a, token 1, until 901s | granted: r2 holds b, token 2, until 901s | granted: r3 holds c, token 3, until 901s | empty: nothing queued, retry after 1s | empty: nothing queued, retry after 1s | empty: nothing queued, retry after 1s | empty: nothing queued, retry after 1s | empty: nothing queued, retry after 1s
     "#]];

    a_stale_token_answer_reveals_no_token_that_works:
    "0s   op sets ops, disclosure open
     0s   ada creates disk in ops
     0s   ada claims disk for 10s
     10s  bob claims disk for 60s
     11s  ada completes disk with token 1
     11s  ada completes disk with token 2
     11s  cid renews disk with token 2
     11s  cid releases disk with token 2" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  granted: bob holds disk, token 2, until 70s; expired: ada's disk, token 1, an attempt
         11s  refused: stale_token
         11s  refused: stale_token
         11s  refused: lease_lost, held by bob until 70s
         11s  held nothing: disk, active
     "#]];

    an_old_token_is_stale_also_when_nobody_holds_the_item_now:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10s
     10s  bob claims disk for 10s
     11s  bob releases disk
     12s  ada completes disk with token 1
     12s  ada updates disk with token 1, reading r1, title x
     12s  ada renews disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  granted: bob holds disk, token 2, until 20s; expired: ada's disk, token 1, an attempt
         11s  released: disk, unassigned, queued
         12s  refused: stale_token
         12s  refused: stale_token
         12s  refused: lease_lost
     "#]];

    a_laptop_that_slept_through_its_lease_learns_it_from_its_next_call:
    "0s   ada creates disk in ops
     0s   ada claims disk for 30s
     30s  bob claims disk for 60s
     1h   ada renews disk with token 1
     1h   ada completes disk with token 1
     1h   ada renews all, expecting disk=1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 30s
         30s  granted: bob holds disk, token 2, until 90s; expired: ada's disk, token 1, an attempt
         1h   refused: lease_lost; expired: bob's disk, token 2, an attempt
         1h   refused: stale_token
         1h   renewed all: 0, lost: disk
     "#]];

    renew_all_does_not_keep_a_crashed_twins_leases_alive:
    "0s   ada creates many in ops: a; b
     0s   ada/s1 claims a for 30s
     0s   ada/s2 claims b for 30s
     20s  ada/s2 renews all
     20s  ada renews all
     30s  tick" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   granted: ada/s1 holds a, token 1, until 30s
         0s   granted: ada/s2 holds b, token 2, until 30s
         20s  renewed all: 1, 30s left, renew after 10s
         20s  renewed all: 0
         30s  expired: ada/s1's a, token 1, an attempt
     "#]];

    a_lock_delay_that_ends_ends_no_backoff:
    "0s   op sets ops, lock_delay 30s, backoff 60s 100 60s
     0s   ada creates many in ops: a; b
     0s   ada claims a for 10s
     0s   ada claims b for 10s
     10s  tick
     12s  ada fails a with token 1
     12s  op revokes b, because gone, giving it to cid
     40s  tick
     41s  bob claims a
     41s  bob claims b
     72s  tick" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada holds a, token 1, until 10s
         0s   granted: ada holds b, token 2, until 10s
         10s  expired: ada's a, token 1, an attempt; expired: ada's b, token 2, an attempt
         12s  now: a pending; failed: ada's a, token 1, late
         12s  held by nobody: b, stale; revoked: b, by op: gone; assigned: b, cid, by op
         40s  nothing
         41s  refused: not_ready, retry after 31s
         41s  granted: bob holds b, token 3, until 941s
         72s  queued: a
     "#]];

    a_line_whose_head_cannot_be_granted_is_not_forgotten:
    "0s   op sets ops, concurrency 1, lock_delay 15s
     0s   ada creates many in ops: a; b
     0s   ada claims a for 10s
     1s   bob claims a for 60s, waiting
     5s   op pauses ops
     10s  tick
     20s  bob claims a for 60s, waiting
     25s  tick
     26s  op unpauses ops" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada holds a, token 1, until 10s
         1s   waiting: place 0 of 1
         5s   ops is paused; paused: ops
         10s  expired: ada's a, token 1, an attempt
         20s  still waiting: place 0 of 1
         25s  nothing
         26s  ops is open; unpaused: ops; granted from the line: bob holds a, token 2, until 36s, was ada's
     "#]];

    a_waiter_that_dies_at_the_instant_of_its_grant_is_not_granted:
    "0s   ada creates disk in ops
     0s   ada claims disk for 31s
     1s   bob claims disk, waiting
     31s  tick" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 31s
         1s   waiting: place 0 of 1
         31s  expired: ada's disk, token 1, an attempt; left_line: bob (wait_timeout)
     "#]];

    a_duplicate_delivered_a_minute_later_has_no_effect:
    "0s   ada creates disk in ops
     0s   ada claims disk for 30s as r1
     1s   ada releases disk as r2
     2s   bob claims disk for 5m
     60s  ada claims disk for 30s as r1 again
     61s  ada releases disk as r2 again
     62s  bob renews disk with token 2" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 30s
         1s   released: disk, unassigned, queued
         2s   granted: bob holds disk, token 2, until 302s
         60s  again granted: ada holds disk, token 1, until 30s, 0s left
         61s  again released: disk, unassigned, queued
         62s  renewed: disk until 362s, renew after 100s
     "#]];

    the_wall_clock_moves_no_lease:
    "0s   wall 12:00 ada creates disk in ops
     0s   wall 12:00 ada claims disk for 30s
     10s  wall 23:00 tick
     20s  wall 02:00 ada renews disk with token 1
     50s  wall 02:00 tick" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 30s
         10s  nothing
         20s  renewed: disk until 50s, renew after 10s
         50s  expired: ada's disk, token 1, an attempt
     "#]];

    a_repeated_extend_answers_the_time_that_is_left_now:
    "0s   ada creates disk in ops
     0s   ada claims disk for 30s
     1s   ada extends disk with token 1 by 60s as r1
     11s  ada extends disk with token 1 by 60s as r1 again
     12s  ada releases disk
     13s  ada extends disk with token 1 by 60s as r1 again" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 30s
         1s   extended: disk until 61s; extended: ada's disk, token 1 until 61s
         11s  again extended: disk, 50s left
         12s  released: disk, unassigned, queued
         13s  again extended: disk, 0s left
     "#]];

    renew_all_may_release_the_oldest_lease_when_it_picks_up_an_offer:
    "0s   op sets ops, max_leases 1, at_max_leases release_oldest
     0s   ada creates many in ops: a; b
     0s   ada claims b for 10m
     0s   bob claims a for 10m
     1s   ada claims a for 10m, waiting
     2s   bob releases a
     3s   ada renews all, expecting a=3+b=1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada holds b, token 1, until 10m
         0s   granted: bob holds a, token 2, until 10m
         1s   waiting: place 0 of 1
         2s   released: a, unassigned, active; granted from the line: ada holds a, token 3, until 12s
         3s   renewed all: 1, 10m left, renew after 200s, lost: b; picked_up: ada's a, token 3; released: ada's b, token 1
     "#]];

    a_takeover_of_an_offer_releases_the_lease_that_a_pickup_would_have_released:
    "0s   op sets ops, max_leases 1, at_max_leases release_oldest
     0s   ada creates many in ops: a; b
     0s   ada/s1 claims b for 10m
     0s   bob claims a for 10m
     1s   ada/s1 claims a for 10m, waiting
     2s   bob releases a
     3s   ada/s2 claims a for 10m, taking over
     4s   ada/s1 renews b with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued
         0s   granted: ada/s1 holds b, token 1, until 10m
         0s   granted: bob holds a, token 2, until 10m
         1s   waiting: place 0 of 1
         2s   released: a, unassigned, active; granted from the line: ada/s1 holds a, token 3, until 12s
         3s   granted: ada/s2 holds a, token 4, until 603s, released b; taken_over: ada/s1's a, token 3; released: ada/s1's b, token 1
         4s   refused: lease_lost
     "#]];

    next_removes_the_callers_own_place_in_the_line:
    "0s   ada creates disk in ops
     0s   bob claims disk
     1s   ada/s1 claims disk, waiting
     1s   ada/s2 claims disk, waiting
     2s   bob releases disk
     3s   ada/s1 reserves disk with token 2 for 60s
     4s   ada/s2 takes next of ops
     5s   ada/s2 releases disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: bob holds disk, token 1, until 15m
         1s   waiting: place 0 of 1
         1s   waiting: place 1 of 2
         2s   released: disk, unassigned, active; granted from the line: ada/s1 holds disk, token 2, until 12s
         3s   reserved: disk for 60s, until 63s, reserved; picked_up: ada/s1's disk, token 2; reserved: ada/s1's disk, token 2 until 63s
         4s   granted: ada/s2 holds disk, token 3, until 904s, first at 2s
         5s   released: disk, unassigned, queued
     "#]];

    a_takeover_does_not_shorten_the_grace_of_a_cancel:
    "0s   ada creates disk in ops
     0s   ada/s1 claims disk for 10m
     1s   dee cancels disk, because moot
     2s   ada/s1 renews disk with token 1
     22s  ada/s2 claims disk for 10m, taking over
     51s  tick
     52s  tick" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada/s1 holds disk, token 1, until 10m
         1s   now: disk active, ends by 10m; cancel_requested: disk, by dee: moot
         2s   renewed: disk until 32s, renew after 10s, cancel requested
         22s  granted: ada/s2 holds disk, token 2, until 52s, first at 0s, cancel requested; taken_over: ada/s1's disk, token 1
         51s  nothing
         52s  cancelled: ada/s2's disk, token 2, by time: moot
     "#]];
}
