//! Spaces, which no command crosses: docs/RULES.md section 3.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    ids_and_queues_are_per_space:
    "0s   ada creates disk in ops
     0s   ada@acme creates disk in ops, title other
     0s   op@acme pauses ops
     1s   ada claims disk
     1s   ada@acme claims disk
     1s   ada@acme renews disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   created: disk r1, queued
         0s   ops is paused; paused: ops
         1s   granted: ada holds disk, token 1, until 901s
         1s   refused: queue_paused
         1s   refused: lease_lost
     "#]];

    no_command_reaches_into_another_space:
    "0s   ada creates disk in ops
     0s   ada@acme claims disk
     0s   ada@acme creates goal in ops
     0s   ada@acme creates tape in ops, after disk
     0s   ada@acme creates tape in ops, parent disk
     0s   ada@acme creates tape in ops, target disk
     0s   ada@acme takes next of ops" => expect![[r#"
         0s   created: disk r1, queued
         0s   refused: not_found
         0s   created: goal r1, queued
         0s   refused: invalid: depends_on disk does not exist; create it first
         0s   refused: invalid: parent does not exist
         0s   refused: invalid: target does not exist
         0s   granted: ada holds goal, token 1, until 15m
     "#]];

    events_are_numbered_per_space:
    "0s   ada creates a in ops
     0s   ada@acme creates a in ops
     0s   ada creates b in ops
     0s   ada@acme creates b in ops" => expect![[r#"
         0s   created: a r1, queued
         0s   created: a r1, queued
         0s   created: b r2, queued
         0s   created: b r2, queued
     "#]];

    max_leases_are_counted_per_space:
    "0s   op sets ops, max_leases 1
     0s   op@acme sets ops, max_leases 1
     0s   ada creates disk in ops
     0s   ada@acme creates disk in ops
     1s   ada claims disk
     1s   ada@acme claims disk" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   created: disk r2, queued
         1s   granted: ada holds disk, token 1, until 901s
         1s   granted: ada holds disk, token 2, until 901s
     "#]];

    renew_all_stays_in_its_space:
    "0s   ada creates disk in ops
     0s   ada@acme creates disk in ops
     0s   ada claims disk for 60s
     0s   ada@acme claims disk for 60s
     10s  ada renews all
     60s  tick" => expect![[r#"
         0s   created: disk r1, queued
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         0s   granted: ada holds disk, token 2, until 60s
         10s  renewed all: 1, 60s left, renew after 20s
         60s  expired: ada's disk, token 2, an attempt
     "#]];

    a_space_may_take_only_verified_callers:
    "0s   op sets the space, identity cached
     verified ada self_reported
     verified bob cached
     0s   ada creates disk in ops
     0s   bob creates disk in ops
     0s   op sets the space, identity checked
     0s   bob claims disk
     0s   cid claims disk
     0s   ada@acme creates disk in ops" => expect![[r#"
         0s   policy of the space: version 1; space_policy_changed: version 1
         0s   refused: rejected_by_policy
         0s   created: disk r2, queued
         0s   policy of the space: version 2; space_policy_changed: version 2
         0s   refused: rejected_by_policy
         0s   granted: cid holds disk, token 1, until 15m
         0s   created: disk r1, queued
     "#]];

    only_an_operator_of_the_whole_space_sets_its_policy:
    "roles opal operator ops/
     0s   opal sets the space, items_max 1
     0s   ada sets the space, items_max 1
     0s   op sets the space, items_max 1" => expect![[r#"
         0s   refused: forbidden, needs operator
         0s   refused: forbidden, needs operator
         0s   policy of the space: version 1; space_policy_changed: version 1
     "#]];
}
