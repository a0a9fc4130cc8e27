//! The registry of workers: docs/RULES.md section 15.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    a_worker_is_quiet_then_gone_then_forgotten:
    "0s   ada/s1 registers, able gpu, alive for 60s
     60s  tick
     659s tick
     660s tick
     24h  tick
     86461s tick
     87060s tick" => expect![[r#"
         0s   registered for 60s; worker_registered: ada/s1
         60s  nothing
         659s nothing
         660s worker_gone: ada/s1
         24h  nothing
         86461s nothing
         87060s worker_removed: ada/s1
     "#]];

    renew_all_is_its_heartbeat:
    "0s   ada/s1 registers, alive for 60s
     500s ada/s1 renews all
     660s tick
     1159s tick
     1160s tick
     1161s ada/s1 renews all
     1820s tick
     1821s tick" => expect![[r#"
         0s   registered for 60s; worker_registered: ada/s1
         500s renewed all: 0
         660s nothing
         1159s nothing
         1160s worker_gone: ada/s1
         1161s renewed all: 0
         1820s nothing
         1821s worker_gone: ada/s1
     "#]];

    other_commands_are_no_heartbeat:
    "0s   ada/s1 registers, alive for 60s
     0s   ada creates disk in ops
     300s ada/s1 claims disk
     660s tick" => expect![[r#"
         0s   registered for 60s; worker_registered: ada/s1
         0s   created: disk r2, queued
         300s granted: ada/s1 holds disk, token 1, until 20m
         660s worker_gone: ada/s1
     "#]];

    registering_again_replaces_the_earlier_registration:
    "0s   ada creates many in ops: a, needs gpu; b, needs ssd
     0s   ada/s1 registers, able gpu
     1s   ada/s1 registers, able ssd
     2s   ada/s1 takes next of ops, count 2" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   registered for 60s; worker_registered: ada/s1
         1s   registered for 60s; worker_registered: ada/s1
         2s   granted: ada/s1 holds b, token 1, until 902s
     "#]];

    a_draining_worker_gets_no_new_item_and_its_heartbeat_says_so:
    "0s   ada creates many in ops: a; b
     0s   ada/s1 registers
     0s   ada/s1 claims a
     1s   op drains worker ada/s1
     2s   op drains worker ada/s1
     3s   ada/s1 renews all
     4s   ada/s1 claims b
     4s   ada/s1 claims b, waiting
     4s   ada/s1 takes next of ops
     5s   ada/s1 claims a
     6s   ada/s1 registers
     7s   ada/s2 takes next of ops
     8s   ada/s1 completes a with token 1" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   registered for 60s; worker_registered: ada/s1
         0s   granted: ada/s1 holds a, token 1, until 15m
         1s   worker drains; worker_drained: ada/s1
         2s   worker drains
         3s   renewed all: 1, 15m left, renew after 5m, drain
         4s   refused: worker_draining
         4s   refused: worker_draining
         4s   empty: worker draining, retry after 1s
         5s   renewed: ada/s1 holds a, token 1, until 905s
         6s   registered for 60s, draining; worker_registered: ada/s1
         7s   granted: ada/s2 holds b, token 2, until 907s
         8s   now: a complete; completed: ada/s1's a, token 1
     "#]];

    a_worker_drains_and_removes_itself_but_no_other:
    "0s   ada/s1 registers
     1s   ada/s1 drains worker ada/s1
     2s   bob drains worker ada/s1
     2s   ada/s2 removes worker ada/s1
     3s   ada/s1 removes worker ada/s1
     4s   ada/s1 removes worker ada/s1
     5s   op removes worker ada/s1
     6s   op drains worker ada/s1" => expect![[r#"
         0s   registered for 60s; worker_registered: ada/s1
         1s   worker drains; worker_drained: ada/s1
         2s   refused: forbidden, needs operator
         2s   refused: forbidden, needs operator
         3s   worker removed; worker_removed: ada/s1
         4s   no such worker
         5s   no such worker
         6s   no such worker
     "#]];

    an_operator_of_some_queues_drains_and_removes_no_worker_but_itself:
    "roles fay operator ops + worker ops
     roles gus operator =ops
     0s   ada/s1 registers
     0s   fay registers
     1s   fay drains worker ada/s1
     1s   fay removes worker ada/s1
     1s   gus removes worker ada/s1
     1s   gus removes worker nobody
     2s   fay removes worker fay
     3s   op removes worker ada/s1" => expect![[r#"
         0s   registered for 60s; worker_registered: ada/s1
         0s   registered for 60s; worker_registered: fay
         1s   refused: forbidden, needs operator
         1s   refused: forbidden, needs operator
         1s   refused: forbidden, needs operator
         1s   refused: forbidden, needs operator
         2s   worker removed; worker_removed: fay
         3s   worker removed; worker_removed: ada/s1
     "#]];

    a_removed_worker_keeps_its_leases:
    "0s   ada creates disk in ops
     0s   ada/s1 registers
     0s   ada/s1 claims disk for 60s
     1s   op removes worker ada/s1
     2s   ada/s1 renews disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   registered for 60s; worker_registered: ada/s1
         0s   granted: ada/s1 holds disk, token 1, until 60s
         1s   worker removed; worker_removed: ada/s1
         2s   renewed: disk until 62s, renew after 20s
     "#]];

    capabilities_given_with_next_replace_the_registered_ones:
    "0s   ada creates disk in ops, needs gpu
     0s   ada/s1 registers, able gpu
     1s   ada/s1 takes next of ops, able ssd
     2s   ada/s1 takes next of ops" => expect![[r#"
         0s   created: disk r1, queued
         0s   registered for 60s; worker_registered: ada/s1
         1s   empty: nothing eligible, retry after 1s
         2s   granted: ada/s1 holds disk, token 1, until 902s
     "#]];

    only_workers_register:
    "roles dee dispatcher
     0s   dee registers" => expect![[r#"
         0s   refused: forbidden, needs worker
     "#]];
}
