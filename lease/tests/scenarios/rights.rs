//! Roles and the queues that they cover: docs/RULES.md section 18.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    items_and_queues_that_the_caller_may_not_see_are_not_found:
    "roles eve none
     roles zoe worker dev/ + dispatcher dev/
     0s   ada creates disk in ops/a
     0s   ada claims disk for 60s
     1s   eve claims disk
     1s   zoe claims disk
     1s   zoe renews disk with token 1
     1s   zoe releases disk
     1s   zoe completes disk with token 1
     1s   zoe updates disk, reading r1, title x
     1s   zoe cancels disk, because x
     1s   zoe reopens disk
     1s   zoe creates tape in ops/a
     1s   zoe takes next of ops/a
     1s   zoe pauses ops/a" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   refused: not_found
         1s   refused: not_found
         1s   refused: not_found
         1s   refused: not_found
         1s   refused: not_found
         1s   refused: not_found
         1s   refused: not_found
         1s   refused: not_found
         1s   refused: not_found
         1s   refused: not_found
         1s   refused: not_found
     "#]];

    a_reader_only_reads:
    "roles dee reader
     0s   ada creates disk in ops
     0s   dee claims disk
     0s   dee takes next of ops
     0s   dee creates tape in ops
     0s   dee updates disk, reading r1, title x
     0s   dee cancels disk, because x
     0s   dee releases disk
     0s   dee withdraws from disk
     0s   dee renews disk with token 1
     0s   dee completes disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   refused: forbidden, needs worker
         0s   refused: forbidden, needs worker
         0s   refused: forbidden, needs dispatcher
         0s   refused: forbidden, needs worker
         0s   refused: forbidden, needs dispatcher
         0s   refused: forbidden, needs worker
         0s   refused: forbidden, needs worker
         0s   refused: forbidden, needs worker
         0s   refused: forbidden, needs worker
     "#]];

    a_worker_claims_holds_and_writes_but_does_not_dispatch:
    "roles bob worker
     0s   ada creates disk in ops
     0s   bob creates tape in ops
     0s   bob cancels disk, because x
     0s   bob assigns disk to bob
     0s   bob unassigns disk from bob
     0s   bob reopens disk
     0s   bob claims disk for 60s
     0s   bob updates disk with token 1, result x
     0s   bob completes disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   refused: forbidden, needs dispatcher
         0s   refused: forbidden, needs dispatcher
         0s   refused: forbidden, needs dispatcher
         0s   refused: forbidden, needs dispatcher
         0s   refused: forbidden, needs dispatcher
         0s   granted: bob holds disk, token 1, until 60s
         0s   now: disk r3; updated: disk r3 result
         0s   now: disk complete, at r3; completed: bob's disk, token 1
     "#]];

    a_dispatcher_creates_updates_cancels_and_assigns_but_does_not_claim:
    "roles dee dispatcher
     0s   dee creates disk in ops
     0s   dee updates disk, reading r1, instructions x
     0s   dee assigns disk to bob
     0s   dee claims disk
     0s   dee takes next of ops
     0s   dee revokes disk, because x
     0s   dee retries disk
     0s   dee reorders disk to bob
     0s   dee cancels disk, because x" => expect![[r#"
         0s   created: disk r1, queued
         0s   now: disk r2; updated: disk r2 instructions
         0s   assigned: disk to bob; assigned: disk, bob, by dee
         0s   refused: forbidden, needs worker
         0s   refused: forbidden, needs worker
         0s   refused: forbidden, needs operator
         0s   refused: forbidden, needs operator
         0s   refused: forbidden, needs operator
         0s   now: disk cancelled; cancelled: disk, by dee: x
     "#]];

    an_operator_revokes_reorders_retries_pauses_drains_and_sets_policy:
    "0s   op sets ops, attempts_max 1
     0s   ada creates disk in ops
     0s   op claims disk
     0s   op creates tape in ops
     0s   ada pauses ops
     0s   ada unpauses ops
     0s   ada drains ops
     0s   ada sets ops, concurrency 1
     0s   ada revokes disk, because x
     0s   ada retries disk
     0s   ada reorders disk to bob
     0s   root pauses ops" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   refused: forbidden, needs worker
         0s   refused: forbidden, needs dispatcher
         0s   refused: forbidden, needs operator
         0s   refused: forbidden, needs operator
         0s   refused: forbidden, needs operator
         0s   refused: forbidden, needs operator
         0s   refused: forbidden, needs operator
         0s   refused: forbidden, needs operator
         0s   refused: forbidden, needs operator
         0s   refused: forbidden, needs operator
     "#]];

    rights_cover_the_queues_with_their_prefix:
    "roles bob worker ops/ + reader dev/
     0s   ada creates a in ops/disks
     0s   ada creates b in dev/disks
     0s   ada creates c in hr/disks
     1s   bob claims all: a; b; c
     1s   bob takes next of dev/disks
     1s   bob takes next of hr/disks" => expect![[r#"
         0s   created: a r1, queued
         0s   created: b r2, queued
         0s   created: c r3, queued
         1s   [granted: bob holds a, token 1, until 901s, refused: forbidden, needs worker, refused: not_found]
         1s   refused: forbidden, needs worker
         1s   refused: not_found
     "#]];

    a_right_for_one_queue_does_not_cover_longer_names:
    "roles bob worker =ops
     0s   ada creates a in ops
     0s   ada creates b in ops-secret
     1s   bob takes next of ops-secret
     1s   bob claims b
     1s   bob takes next of ops" => expect![[r#"
         0s   created: a r1, queued
         0s   created: b r2, queued
         1s   refused: not_found
         1s   refused: not_found
         1s   granted: bob holds a, token 1, until 901s
     "#]];

    a_finished_item_is_forbidden_before_it_is_terminal:
    "roles dee reader
     roles eve none
     0s   ada creates disk in ops
     0s   ada cancels disk, because x
     1s   dee claims disk
     1s   eve claims disk
     1s   dee cancels disk, because x" => expect![[r#"
         0s   created: disk r1, queued
         0s   now: disk cancelled; cancelled: disk, by ada: x
         1s   refused: forbidden, needs worker
         1s   refused: not_found
         1s   refused: forbidden, needs dispatcher
     "#]];

    deny_is_the_default:
    "roles eve none
     0s   eve creates disk in ops
     0s   eve takes next of ops
     0s   eve registers
     0s   eve activates
     0s   eve renews all" => expect![[r#"
         0s   refused: not_found
         0s   refused: not_found
         0s   refused: forbidden, needs worker
         0s   refused: forbidden, needs admin
         0s   refused: forbidden, needs worker
     "#]];

    links_may_name_only_items_that_the_caller_may_see:
    "roles dee dispatcher ops
     0s   ada creates hidden in secret
     0s   dee creates a in ops, parent hidden
     0s   dee creates a in ops, after hidden
     0s   dee creates a in ops, target hidden
     0s   ada creates a in ops, target hidden" => expect![[r#"
         0s   created: hidden r1, queued
         0s   refused: invalid: parent does not exist
         0s   refused: invalid: depends_on hidden does not exist; create it first
         0s   refused: invalid: target does not exist
         0s   created: a r2, queued
     "#]];

    renew_all_and_draining_oneself_need_a_worker_role_in_the_space:
    "roles eve reader
     roles dee worker dev/
     0s   eve renews all
     0s   eve drains worker eve
     0s   eve removes worker eve
     0s   dee renews all
     0s   dee drains worker dee
     0s   dee removes worker dee
     0s   dee drains worker eve" => expect![[r#"
         0s   refused: forbidden, needs worker
         0s   refused: forbidden, needs worker
         0s   refused: forbidden, needs worker
         0s   renewed all: 0
         0s   no such worker
         0s   no such worker
         0s   refused: forbidden, needs operator
     "#]];

    fields_of_the_dispatcher_are_forbidden_to_workers_whatever_the_token:
    "roles bob worker
     0s   ada creates disk in ops
     0s   bob updates disk, reading r9, title x
     0s   bob claims disk
     0s   bob updates disk with token 9, title x
     0s   bob updates disk with token 1, title x
     0s   bob updates disk with token 1, plan x" => expect![[r#"
         0s   created: disk r1, queued
         0s   refused: forbidden, needs dispatcher
         0s   granted: bob holds disk, token 1, until 15m
         0s   refused: forbidden, needs dispatcher
         0s   refused: forbidden, needs dispatcher
         0s   now: disk r3; updated: disk r3 plan
     "#]];

    a_caller_that_lost_a_right_still_gets_its_remembered_answers:
    "roles bob worker + dispatcher
     0s   bob creates disk in ops as r1
     0s   bob claims disk for 60s as r2
     roles bob none
     1s   bob creates disk in ops as r1 again
     1s   bob claims disk for 60s as r2 again
     1s   bob creates tape in ops as r1 again
     1s   bob creates tape in ops as r3 again
     roles bob dispatcher
     2s   bob creates tape in ops as r3 again" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: bob holds disk, token 1, until 60s
         1s   again created: disk r1, queued
         1s   again granted: bob holds disk, token 1, until 60s, 59s left
         1s   refused: request_id_reused
         1s   refused: not_found
         2s   refused: not_found
     "#]];
}
