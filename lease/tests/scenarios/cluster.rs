//! Epochs, activation and the version of the rules: docs/RULES.md section 17.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    a_restored_backup_begins_an_epoch_ends_all_leases_and_grants_nothing_until_activated:
    "0s   ada creates many in ops: disk; tape
     0s   ada@acme creates disk in ops
     0s   ada claims disk for 60s
     0s   ada@acme claims disk for 60s
     1s   bob claims disk for 60s, waiting as r1
     2s   root begins an epoch
     3s   ada renews disk with token 1
     3s   bob claims tape
     3s   bob claims disk for 60s, waiting as r1
     4s   root activates
     5s   root activates
     6s   ada renews disk with token 1
     7s   bob renews disk with token 5345223114753" => expect![[r#"
         0s   created: disk r1, queued, created: tape r2, queued
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         0s   granted: ada holds disk, token 2, until 60s
         1s   waiting: place 0 of 1
         2s   epoch 5097602, tokens above 5345223114752; epoch_begun: 5097602 in default, event 5097602.5; epoch_begun: 5097602 in acme, event 5097602.3; voided: ada's disk, token 1; voided: ada's disk, token 2
         3s   refused: not_activated
         3s   refused: not_activated
         3s   refused: not_activated
         4s   active; activated: default; activated: acme; granted from the line: bob holds disk, token 5345223114753, until 14s, was ada's
         5s   active
         6s   refused: lease_lost, held by a user
         7s   renewed: disk until 67s, renew after 20s; picked_up: bob's disk, token 5345223114753
     "#]];

    tokens_and_event_numbers_rise_over_the_epoch:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   root begins an epoch
     2s   root activates
     3s   ada updates disk, reading r1, title new
     4s   ada claims disk for 60s
     5s   ada completes disk with token 1
     6s   ada updates disk with token 5345222066177, reading r5097601.6, title newer" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   epoch 5097601, tokens above 5345222066176; epoch_begun: 5097601 in default, event 5097601.3; voided: ada's disk, token 1
         2s   active; activated: default
         3s   now: disk r5097601.6; updated: disk r5097601.6 title
         4s   granted: ada holds disk, token 5345222066177, until 64s, first at 0s, at r5097601.6
         5s   refused: stale_token
         6s   now: disk r5097601.8; updated: disk r5097601.8 title
     "#]];

    an_epoch_begins_only_when_the_wall_clock_is_later_than_the_backup:
    "0s   wall 12:00 ada creates disk in ops
     1s   wall 12:00 root begins an epoch
     2s   wall 11:00 root begins an epoch
     3s   wall 12:01 root begins an epoch" => expect![[r#"
         0s   created: disk r1, queued
         1s   refused: restore_refused: the wall clock is not later than the newest time in the backup
         2s   refused: restore_refused: the wall clock is not later than the newest time in the backup
         3s   epoch 5140860, tokens above 5390582415360; epoch_begun: 5140860 in default, event 5140860.2
     "#]];

    /// A leader's clock was ten years ahead until somebody set it.
    one_entry_with_a_wrong_date_does_not_keep_later_backups_from_being_restored:
    "0s   wall 12:00 ada creates disk in ops
     1s   wall 2036-03-01T12:00 ada creates tape in ops
     2s   wall 12:01 ada creates saw in ops
     3s   wall 12:02 root begins an epoch" => expect![[r#"
         0s   created: disk r1, queued
         1s   created: tape r2, queued
         2s   created: saw r3, queued
         3s   epoch 5140920, tokens above 5390645329920; epoch_begun: 5140920 in default, event 5140920.4
     "#]];

    /// The newest time in the backup is what its last leader wrote; no later entry corrected it.
    a_backup_whose_newest_time_is_wrong_is_restored_when_an_operator_accepts_the_clock:
    "0s   wall 12:00 ada creates disk in ops
     0s   wall 2036-03-01T12:00 ada claims disk
     1s   wall 12:01 root begins an epoch
     1s   wall 2036-03-01T12:00 ada creates tape in ops
     2s   wall 12:02 root begins an epoch, accepting the clock
     3s   wall 12:03 root activates
     4s   wall 12:04 ada claims disk
     5s   wall 12:05 root begins an epoch" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   refused: restore_refused: the wall clock is not later than the newest time in the backup
         1s   created: tape r3, queued
         2s   epoch 5140920, tokens above 5390645329920; epoch_begun: 5140920 in default, event 5140920.4; voided: ada's disk, token 1
         3s   active; activated: default
         4s   granted: ada holds disk, token 5390645329921, until 904s, first at 0s
         5s   epoch 5141100, tokens above 5390834073600; epoch_begun: 5141100 in default, event 5141100.8; voided: ada's disk, token 5390645329921
     "#]];

    /// The clocks of the leaders of one cluster differ a little; that does not replace the newest time.
    clocks_of_leaders_may_differ_by_less_than_an_hour:
    "0s   wall 12:00 ada creates disk in ops
     1s   wall 11:01 ada creates tape in ops
     2s   wall 11:59 root begins an epoch
     3s   wall 10:59 ada creates saw in ops
     4s   wall 11:00 root begins an epoch" => expect![[r#"
         0s   created: disk r1, queued
         1s   created: tape r2, queued
         2s   refused: restore_refused: the wall clock is not later than the newest time in the backup
         3s   created: saw r3, queued
         4s   epoch 5137200, tokens above 5386744627200; epoch_begun: 5137200 in default, event 5137200.4
     "#]];

    /// An epoch began while the clock was ten years ahead, so its tokens are ahead too.
    an_epoch_and_tokens_rise_above_the_backups_also_when_the_clock_is_accepted:
    "0s   wall 2036-03-01T12:00 ada creates disk in ops
     1s   wall 2036-03-01T12:01 root begins an epoch
     2s   wall 2036-03-01T12:02 root activates
     3s   wall 2036-03-01T12:03 ada claims disk
     4s   wall 12:04 root begins an epoch
     5s   wall 12:05 root begins an epoch
     6s   wall 12:06 root begins an epoch, accepting the clock
     7s   wall 12:07 root begins an epoch, accepting the clock, tokens above 336341300674561
     8s   wall 12:08 root begins an epoch, accepting the clock, tokens above 336341300674562
     9s   wall 12:09 root activates
     10s  wall 12:10 ada claims disk" => expect![[r#"
         0s   created: disk r1, queued
         1s   epoch 320760060, tokens above 336341300674560; epoch_begun: 320760060 in default, event 320760060.2
         2s   active; activated: default
         3s   granted: ada holds disk, token 336341300674561, until 903s
         4s   refused: restore_refused: the wall clock is not later than the newest time in the backup
         5s   refused: restore_refused: an epoch of this second or a later one has begun already
         6s   refused: restore_refused: the token counter would not rise; pass a higher token floor
         7s   refused: restore_refused: the token counter would not rise; pass a higher token floor
         8s   epoch 320760061, tokens above 336341300674562; epoch_begun: 320760061 in default, event 320760061.5; voided: ada's disk, token 336341300674561
         9s   active; activated: default
         10s  granted: ada holds disk, token 336341300674563, until 910s, first at 3s
     "#]];

    the_same_second_begins_no_second_epoch:
    "1s   root begins an epoch
     1500ms root begins an epoch
     2s   root begins an epoch" => expect![[r#"
         1s   epoch 5097601, tokens above 5345222066176
         1500ms refused: restore_refused: an epoch of this second or a later one has begun already
         2s   epoch 5097602, tokens above 5345223114752
     "#]];

    the_same_backup_restored_twice_never_repeats_a_token:
    "0s   ada creates disk in ops
     1s   root begins an epoch
     1s   root activates
     2s   ada claims disk
     100s root begins an epoch
     100s root activates
     101s ada claims disk" => expect![[r#"
         0s   created: disk r1, queued
         1s   epoch 5097601, tokens above 5345222066176; epoch_begun: 5097601 in default, event 5097601.2
         1s   active; activated: default
         2s   granted: ada holds disk, token 5345222066177, until 902s
         100s epoch 5097700, tokens above 5345325875200; epoch_begun: 5097700 in default, event 5097700.5; voided: ada's disk, token 5345222066177
         100s active; activated: default
         101s granted: ada holds disk, token 5345325875201, until 1001s, first at 2s
     "#]];

    a_token_floor_may_only_raise_the_counter:
    "0s   ada creates disk in ops
     1s   root begins an epoch, tokens above 7
     2s   root begins an epoch, tokens above 9000000000000
     3s   root begins an epoch
     4s   root begins an epoch, tokens above 9000000000001
     5s   root begins an epoch, tokens above 9000000000000000" => expect![[r#"
         0s   created: disk r1, queued
         1s   epoch 5097601, tokens above 5345222066176; epoch_begun: 5097601 in default, event 5097601.2
         2s   epoch 5097602, tokens above 9000000000000; epoch_begun: 5097602 in default, event 5097602.3
         3s   refused: restore_refused: the token counter would not rise; pass a higher token floor
         4s   epoch 5097604, tokens above 9000000000001; epoch_begun: 5097604 in default, event 5097604.4
         5s   refused: restore_refused: the token floor leaves too few tokens
     "#]];

    the_tokens_of_an_epoch_must_lie_above_the_backups_counter:
    "0s   wall 2026-01-01T00:00 ada creates disk in ops
     1s   wall 2026-01-01T00:00 root begins an epoch
     1s   wall 2026-01-01T00:00:01 root begins an epoch, tokens above 3000000
     2s   wall 2026-01-01T00:00:02 root begins an epoch
     3s   wall 2026-01-01T00:00:03 root begins an epoch" => expect![[r#"
         0s   created: disk r1, queued
         1s   refused: restore_refused: the wall clock is not later than the newest time in the backup
         1s   epoch 1, tokens above 3000000; epoch_begun: 1 in default, event 1.2
         2s   refused: restore_refused: the token counter would not rise; pass a higher token floor
         3s   epoch 3, tokens above 3145728; epoch_begun: 3 in default, event 3.3
     "#]];

    an_epoch_voids_grants_that_were_not_picked_up_and_winds_up_cancels:
    "0s   ada creates many in ops: a; b; c
     0s   ada claims all: a; b; c
     1s   bob claims a for 60s, waiting as r1
     2s   ada releases a
     3s   dee cancels b, because moot
     3s   ada reserves c with token 3 for 60s
     4s   root begins an epoch
     5s   root activates
     6s   bob claims a for 60s, waiting as r1
     7s   ada claims c" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued
         0s   [granted: ada holds a, token 1, until 15m, granted: ada holds b, token 2, until 15m, granted: ada holds c, token 3, until 15m]
         1s   waiting: place 0 of 1
         2s   released: a, unassigned, active; granted from the line: bob holds a, token 4, until 12s
         3s   now: b active, ends by 15m; cancel_requested: b, by dee: moot
         3s   reserved: c for 60s, until 63s, reserved; reserved: ada's c, token 3 until 63s
         4s   epoch 5097604, tokens above 5345225211904; epoch_begun: 5097604 in default, event 5097604.12; voided: bob's a, token 4; voided: ada's b, token 2; cancelled: b, by time: moot
         5s   active; activated: default
         6s   refused: lease_lost
         7s   granted: ada holds c, token 5345225211905, until 907s, first at 0s
     "#]];

    a_lease_voided_by_a_restore_is_not_an_attempt_and_starts_no_lock_delay:
    "0s   op sets ops, attempts_max 1, lock_delay 60s
     0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   root begins an epoch
     2s   root activates
     3s   bob claims disk" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   epoch 5097601, tokens above 5345222066176; epoch_begun: 5097601 in default, event 5097601.4; voided: ada's disk, token 1
         2s   active; activated: default
         3s   granted: bob holds disk, token 5345222066177, until 903s
     "#]];

    leases_that_were_due_before_the_restore_lapse_and_the_rest_are_voided:
    "0s   ada creates many in ops: a; b
     0s   ada claims all: a for 10s; b for 60s
     20s  root begins an epoch" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   [granted: ada holds a, token 1, until 10s, granted: ada holds b, token 2, until 60s]
         20s  epoch 5097620, tokens above 5345241989120; expired: ada's a, token 1, an attempt; epoch_begun: 5097620 in default, event 5097620.6; voided: ada's b, token 2
     "#]];

    ending_all_leases_is_spread_over_entries_and_activation_waits_for_it:
    "0s   ada creates many in ops: n1..n1000
     0s   ada creates many in ops: m1..m20
     1s   ada takes next of ops, count 100
     &    ada takes next of ops, count 100
     &    ada takes next of ops, count 100
     &    ada takes next of ops, count 100
     &    ada takes next of ops, count 100
     &    ada takes next of ops, count 100
     &    ada takes next of ops, count 100
     &    ada takes next of ops, count 100
     &    ada takes next of ops, count 100
     &    ada takes next of ops, count 100
     &    ada takes next of ops, count 100
     2s   root begins an epoch
     &    root activates
     &    ada claims m1
     3s   ada claims m1
     4s   root activates" => expect![[r#"
         0s   created: n1 r1, queued, ... 998 more ..., created: n1000 r1000, queued
         0s   created: m1 r1001, queued, ... 18 more ..., created: m20 r1020, queued
         1s   granted: ada holds n1, token 1, until 901s, ... 98 more ..., granted: ada holds n100, token 100, until 901s | ... 9 more ... | granted: ada holds m1, token 1001, until 901s, ... 18 more ..., granted: ada holds m20, token 1020, until 901s
         2s   epoch 5097602, tokens above 5345223114752 | refused: not_ready, retry after 1s | refused: not_activated; epoch_begun: 5097602 in default, event 5097602.2041; 1000 x voided (n1 to n1000)
         3s   refused: not_activated; 20 x voided (m1 to m20)
         4s   active; activated: default
     "#]];

    a_repeat_of_a_remembered_request_is_answered_before_activation:
    "0s   ada creates disk in ops as r1
     1s   root begins an epoch
     2s   ada creates disk in ops as r1 again
     4s   root activates
     5s   ada creates disk in ops as r1 again" => expect![[r#"
         0s   created: disk r1, queued
         1s   epoch 5097601, tokens above 5345222066176; epoch_begun: 5097601 in default, event 5097601.2
         2s   again created: disk r1, queued
         4s   active; activated: default
         5s   again created: disk r1, queued
     "#]];

    a_refusal_before_activation_is_not_remembered:
    "1s   root begins an epoch
     3s   ada creates tape in ops as r2
     4s   root activates
     5s   ada creates tape in ops as r2 again" => expect![[r#"
         1s   epoch 5097601, tokens above 5345222066176
         3s   refused: not_activated
         4s   active
         5s   created: tape r5097601.1, queued
     "#]];

    only_an_admin_runs_the_cluster:
    "0s   op begins an epoch
     0s   op activates
     0s   op raises rules to 1
     0s   ada begins an epoch
     0s   op begins an epoch, accepting the clock" => expect![[r#"
         0s   refused: forbidden, needs admin
         0s   refused: forbidden, needs admin
         0s   refused: forbidden, needs admin
         0s   refused: forbidden, needs admin
         0s   refused: forbidden, needs admin
     "#]];

    rules_are_raised_to_what_this_build_knows:
    "0s   root raises rules to 1
     0s   root raises rules to 99
     0s   root raises rules to 0" => expect![[r#"
         0s   rules 1
         0s   refused: invalid: version the rules are at version 1, and this build supports versions up to 1
         0s   refused: invalid: version the rules are at version 1, and this build supports versions up to 1
     "#]];
}
