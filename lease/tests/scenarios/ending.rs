//! Complete, fail, late completion, reopen, retry and retention: docs/RULES.md section 13.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    complete_closes_the_lease_and_retires_the_assignment_in_one_step:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   ada completes disk with token 1, result fine
     2s   ada completes disk with token 1
     3s   ada reopens disk
     4s   ada releases disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   now: disk complete, at r3; completed: ada's disk, token 1
         2s   refused: terminal_item
         3s   now: disk queued, at r3; reopened: disk
         4s   held nothing: disk, queued
     "#]];

    fail_is_an_attempt_and_backs_off_longer_each_time:
    "0s   op sets ops, backoff 5s 300 20s
     0s   ada creates disk in ops
     0s   ada claims disk
     0s   ada fails disk with token 1, error oops
     4s   bob claims disk
     5s   ada claims disk
     5s   ada fails disk with token 2
     20s  ada claims disk
     20s  ada fails disk with token 3
     40s  ada claims disk" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 15m
         0s   now: disk pending, at r4; failed: ada's disk, token 1
         4s   refused: not_ready, retry after 1s
         5s   granted: ada holds disk, token 2, until 905s, first at 0s, at r4; queued: disk
         5s   now: disk pending, at r4; failed: ada's disk, token 2
         20s  granted: ada holds disk, token 3, until 920s, first at 0s, at r4; queued: disk
         20s  now: disk pending, at r4; failed: ada's disk, token 3
         40s  granted: ada holds disk, token 4, until 940s, first at 0s, at r4; queued: disk
     "#]];

    a_backoff_of_zero_queues_at_once:
    "0s   op sets ops, backoff 0s 100 0s
     0s   ada creates disk in ops
     0s   ada claims disk
     0s   ada fails disk with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 15m
         0s   now: disk queued; failed: ada's disk, token 1
     "#]];

    the_last_attempt_blocks_the_item:
    "0s   op sets ops, attempts_max 2, backoff 1s 100 1s
     0s   ada creates disk in ops
     0s   ada claims disk for 10s
     10s  tick
     11s  bob claims disk for 10s
     12s  bob fails disk with token 2
     13s  bob claims disk" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  expired: ada's disk, token 1, an attempt
         11s  granted: bob holds disk, token 2, until 21s
         12s  now: disk blocked; failed: bob's disk, token 2; blocked: disk, no attempts left
         13s  refused: blocked
     "#]];

    attempts_may_be_unlimited:
    "0s   op sets ops, attempts_max 0, backoff 0s 100 0s
     0s   ada creates disk in ops
     0s   ada claims disk for 10s
     10s  bob claims disk for 10s
     20s  bob claims disk for 10s
     21s  bob fails disk with token 3
     22s  bob claims disk" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  granted: bob holds disk, token 2, until 20s; expired: ada's disk, token 1, an attempt
         20s  granted: bob holds disk, token 3, until 30s, first at 10s; expired: bob's disk, token 2, an attempt
         21s  now: disk queued; failed: bob's disk, token 3
         22s  granted: bob holds disk, token 4, until 922s, first at 10s
     "#]];

    releases_and_hand_ons_are_not_attempts:
    "0s   op sets ops, attempts_max 1
     0s   ada creates disk in ops
     0s   ada claims disk
     0s   ada releases disk
     1s   ada claims disk
     1s   ada hands on disk with token 2 to review
     2s   ada claims disk" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 15m
         0s   released: disk, unassigned, queued
         1s   granted: ada holds disk, token 2, until 901s, first at 0s
         1s   now: disk queued, at r6; handed_on: ada's disk, token 2 to review
         2s   granted: ada holds disk, token 3, until 902s, first at 0s, phase review, at r6
     "#]];

    a_final_failure_is_an_error_at_once:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   ada fails disk with token 1, finally, error hopeless
     2s   ada claims disk" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   now: disk error, at r3; failed: ada's disk, token 1, finally
         2s   refused: terminal_item
     "#]];

    a_failed_items_assignment_stays:
    "0s   op sets ops, backoff 1s 100 1s
     0s   ada creates many in ops: disk; tape, priority 9
     0s   ada claims disk
     0s   ada fails disk with token 1
     1s   ada takes next of ops" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued, created: tape r3, queued
         0s   granted: ada holds disk, token 1, until 15m
         0s   now: disk pending; failed: ada's disk, token 1
         1s   granted: ada holds disk, token 2, until 901s, first at 0s; queued: disk
     "#]];

    a_late_completion_is_taken_while_nothing_else_has_happened:
    "0s   ada creates disk in ops
     0s   ada/s1 claims disk for 10s
     11s  ada/s1 completes disk with token 1, result fine" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada/s1 holds disk, token 1, until 10s
         11s  now: disk complete, at r4; expired: ada/s1's disk, token 1, an attempt; completed: ada/s1's disk, token 1, late
     "#]];

    a_late_completion_is_taken_from_a_blocked_item:
    "0s   op sets ops, attempts_max 1
     0s   ada creates disk in ops
     0s   ada claims disk for 10s
     10s  tick
     11s  ada completes disk with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  expired: ada's disk, token 1, an attempt; blocked: disk, no attempts left
         11s  now: disk complete; completed: ada's disk, token 1, late
     "#]];

    a_late_failure_is_not_a_second_attempt:
    "0s   op sets ops, attempts_max 2, backoff 5s 100 5s
     0s   ada creates disk in ops
     0s   ada claims disk for 10s
     11s  ada fails disk with token 1
     16s  ada claims disk
     17s  ada fails disk with token 2" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         11s  now: disk pending; expired: ada's disk, token 1, an attempt; failed: ada's disk, token 1, late
         16s  granted: ada holds disk, token 2, until 916s, first at 0s; queued: disk
         17s  now: disk blocked; failed: ada's disk, token 2; blocked: disk, no attempts left
     "#]];

    a_late_failure_of_a_blocked_item_leaves_it_blocked:
    "0s   op sets ops, attempts_max 1
     0s   ada creates disk in ops
     0s   ada claims disk for 10s
     11s  ada fails disk with token 1, error oops
     12s  ada fails disk with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         11s  now: disk blocked, at r6; expired: ada's disk, token 1, an attempt; blocked: disk, no attempts left; failed: ada's disk, token 1, late
         12s  refused: lease_required
     "#]];

    a_late_final_failure_is_an_error:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10s
     11s  ada fails disk with token 1, finally" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10s
         11s  now: disk error; expired: ada's disk, token 1, an attempt; failed: ada's disk, token 1, finally, late
     "#]];

    a_late_completion_needs_the_same_actor_session_and_token:
    "0s   ada creates disk in ops
     0s   ada/s1 claims disk for 10s
     10s  tick
     11s  bob completes disk with token 1
     11s  ada/s2 completes disk with token 1
     11s  ada/s1 completes disk
     11s  ada/s1 completes disk with token 2
     11s  ada/s1 records progress on disk with token 1
     11s  ada/s1 hands on disk with token 1 to review
     12s  ada/s1 completes disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada/s1 holds disk, token 1, until 10s
         10s  expired: ada/s1's disk, token 1, an attempt
         11s  refused: lease_required
         11s  refused: lease_required
         11s  refused: lease_required
         11s  refused: lease_required
         11s  refused: lease_required
         11s  refused: lease_required
         12s  now: disk complete; completed: ada/s1's disk, token 1, late
     "#]];

    a_late_completion_is_checked_against_the_revision_it_read:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10s
     10s  tick
     11s  bob updates disk, reading r1, title new
     12s  ada completes disk with token 1, reading r1
     13s  ada completes disk with token 1, reading r4" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  expired: ada's disk, token 1, an attempt
         11s  now: disk r4; updated: disk r4 title
         12s  refused: stale_write, now r4, changed: title
         13s  now: disk complete, at r4; completed: ada's disk, token 1, late
     "#]];

    a_late_completion_is_refused_after_anything_else_happened:
    "0s   ada creates many in ops: granted; released; revoked; assigned; cancelled
     1s   ada claims all: granted for 10s; released for 10s; revoked for 10s; assigned for 10s; cancelled for 10s
     20s  tick
     21s  bob claims granted for 10s
     &    bob releases granted
     &    ada releases released
     &    op revokes revoked, because why
     &    dee assigns assigned to bob
     &    dee cancels cancelled, because moot
     22s  ada completes granted with token 1
     &    ada completes released with token 2
     &    ada completes revoked with token 3
     &    ada completes assigned with token 4
     &    ada completes cancelled with token 5" => expect![[r#"
         0s   created: granted r1, queued, created: released r2, queued, created: revoked r3, queued, created: assigned r4, queued, created: cancelled r5, queued
         1s   [granted: ada holds granted, token 1, until 11s, granted: ada holds released, token 2, until 11s, granted: ada holds revoked, token 3, until 11s, granted: ada holds assigned, token 4, until 11s, granted: ada holds cancelled, token 5, until 11s]
         20s  expired: ada's granted, token 1, an attempt; expired: ada's released, token 2, an attempt; expired: ada's revoked, token 3, an attempt; expired: ada's assigned, token 4, an attempt; expired: ada's cancelled, token 5, an attempt
         21s  granted: bob holds granted, token 6, until 31s | released: granted, unassigned, queued | held nothing: released, unassigned, stale | held by nobody: revoked, stale | assigned: assigned to bob | now: cancelled cancelled; unassigned: released, ada, by ada; revoked: revoked, by op: why; assigned: assigned, bob, by dee; cancelled: cancelled, by dee: moot
         22s  refused: stale_token | refused: lease_required | refused: lease_required | refused: lease_required | refused: terminal_item
     "#]];

    a_late_completion_is_refused_after_a_retry:
    "0s   op sets ops, attempts_max 1
     0s   ada creates disk in ops
     0s   ada claims disk for 10s
     10s  tick
     11s  op retries disk
     12s  ada completes disk with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         10s  expired: ada's disk, token 1, an attempt; blocked: disk, no attempts left
         11s  now: disk queued; retried: disk
         12s  refused: lease_required
     "#]];

    a_late_completion_after_hand_on_or_reopen_is_refused:
    "0s   ada creates many in ops: a; b
     0s   ada claims all: a for 10s; b for 10s
     1s   ada hands on a with token 1 to review
     &    ada completes b with token 2
     2s   dee reopens b
     20s  ada completes a with token 1
     20s  ada completes b with token 2" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   [granted: ada holds a, token 1, until 10s, granted: ada holds b, token 2, until 10s]
         1s   now: a queued, at r5 | now: b complete; handed_on: ada's a, token 1 to review; completed: ada's b, token 2
         2s   now: b queued; reopened: b
         20s  refused: lease_required
         20s  refused: lease_required
     "#]];

    river1302_nothing_overwrites_a_finished_item:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10s
     9s   ada completes disk with token 1
     10s  tick
     11s  ada fails disk with token 1
     11s  op retries disk
     11s  op revokes disk, because stuck
     11s  dee cancels disk, because moot
     11s  dee assigns disk to bob" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10s
         9s   now: disk complete; completed: ada's disk, token 1
         10s  nothing
         11s  refused: terminal_item
         11s  refused: wrong_state: complete
         11s  refused: terminal_item
         11s  refused: terminal_item
         11s  refused: terminal_item
     "#]];

    reopen_brings_every_terminal_item_back_with_no_attempts_used:
    "0s   op sets ops, attempts_max 1
     0s   ada creates many in ops: a; b; c; d
     0s   ada claims all: a; b
     0s   ada completes a with token 1
     &    ada fails b with token 2, finally
     &    ada cancels c, because moot
     1s   dee reopens a
     &    dee reopens b
     &    op reopens c
     &    dee reopens d
     2s   bob claims all: a for 10s; b for 10s; c for 10s" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued, created: c r4, queued, created: d r5, queued
         0s   [granted: ada holds a, token 1, until 15m, granted: ada holds b, token 2, until 15m]
         0s   now: a complete | now: b error | now: c cancelled; completed: ada's a, token 1; failed: ada's b, token 2, finally; cancelled: c, by ada: moot
         1s   now: a queued | now: b queued | now: c queued | refused: wrong_state: queued; reopened: a; reopened: b; reopened: c
         2s   [granted: bob holds a, token 3, until 12s, granted: bob holds b, token 4, until 12s, granted: bob holds c, token 5, until 12s]
     "#]];

    retry_brings_blocked_and_error_back:
    "0s   op sets ops, attempts_max 1
     0s   ada creates many in ops: a; b; c; d
     0s   ada claims all: a for 10s; b; c
     0s   ada fails b with token 2, finally
     &    ada completes c with token 3
     10s  op retries a
     &    op retries b
     &    op retries c
     &    op retries d
     11s  bob claims a for 10s
     21s  tick" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued, created: c r4, queued, created: d r5, queued
         0s   [granted: ada holds a, token 1, until 10s, granted: ada holds b, token 2, until 15m, granted: ada holds c, token 3, until 15m]
         0s   now: b error | now: c complete; failed: ada's b, token 2, finally; completed: ada's c, token 3
         10s  now: a queued | now: b queued | refused: wrong_state: complete | refused: wrong_state: queued; expired: ada's a, token 1, an attempt; blocked: a, no attempts left; retried: a; retried: b
         11s  granted: bob holds a, token 4, until 21s
         21s  expired: bob's a, token 4, an attempt; blocked: a, no attempts left
     "#]];

    terminal_items_are_kept_for_the_queues_retention_and_then_leave:
    "0s   op sets ops, retention 60s
     0s   ada creates disk in ops
     0s   ada claims disk
     1s   ada completes disk with token 1
     60s  ada claims disk
     61s  ada claims disk
     62s  dee reopens disk" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   now: disk complete; completed: ada's disk, token 1
         60s  refused: terminal_item
         61s  refused: not_found; purged: disk, complete
         62s  refused: not_found
     "#]];

    a_reopened_item_does_not_leave:
    "0s   op sets ops, retention 60s
     0s   ada creates disk in ops
     0s   ada cancels disk, because moot
     30s  ada reopens disk
     60s  tick
     61s  ada claims disk" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   now: disk cancelled; cancelled: disk, by ada: moot
         30s  now: disk queued; reopened: disk
         60s  nothing
         61s  granted: ada holds disk, token 1, until 961s
     "#]];
}
