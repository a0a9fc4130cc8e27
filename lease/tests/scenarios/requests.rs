//! One request id has one effect and one answer: docs/RULES.md section 16.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    a_repeat_has_no_second_effect_and_answers_what_happened_then:
    "0s   ada creates disk in ops as r1
     1s   ada creates disk in ops as r1 again
     2s   ada claims disk for 60s as r2
     3s   ada claims disk for 60s as r2 again
     4s   ada releases disk as r3
     5s   bob claims disk for 60s
     6s   ada releases disk as r3 again
     7s   ada claims disk for 60s as r2 again" => expect![[r#"
         0s   created: disk r1, queued
         1s   again created: disk r1, queued
         2s   granted: ada holds disk, token 1, until 62s
         3s   again granted: ada holds disk, token 1, until 62s, 59s left
         4s   released: disk, unassigned, queued
         5s   granted: bob holds disk, token 2, until 65s
         6s   again released: disk, unassigned, queued
         7s   again granted: ada holds disk, token 1, until 62s, 0s left
     "#]];

    a_repeat_answers_the_time_that_is_left_now:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s as r1
     10s  ada claims disk for 60s as r1 again
     20s  ada renews disk with token 1
     30s  ada claims disk for 60s as r1 again
     80s  ada claims disk for 60s as r1 again" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         10s  again granted: ada holds disk, token 1, until 60s, 50s left
         20s  renewed: disk until 80s, renew after 20s
         30s  again granted: ada holds disk, token 1, until 80s, 50s left
         80s  again granted: ada holds disk, token 1, until 60s, 0s left; expired: ada's disk, token 1, an attempt
     "#]];

    a_repeated_start_answers_the_lease_and_what_is_left:
    "0s   ada creates disk in ops
     0s   ada starts disk, plan first as r1
     10s  ada starts disk, plan first as r1 again
     11s  ada releases disk
     12s  ada starts disk, plan first as r1 again" => expect![[r#"
         0s   created: disk r1, queued
         0s   now: disk r3, granted: ada holds disk, token 1, until 15m, at r3; updated: disk r3 plan
         10s  now: disk r3, again granted: ada holds disk, token 1, until 15m, 890s left, at r3
         11s  released: disk, unassigned, queued
         12s  now: disk r3, again granted: ada holds disk, token 1, until 15m, 0s left
     "#]];

    a_repeated_next_answers_the_same_items:
    "0s   ada creates many in ops: a; b; c; d
     0s   ada takes next of ops, count 2 as r1
     1s   ada completes a with token 1
     2s   ada takes next of ops, count 2 as r1 again" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued, created: d r4, queued
         0s   granted: ada holds a, token 1, until 15m, granted: ada holds b, token 2, until 15m
         1s   now: a complete; completed: ada's a, token 1
         2s   again granted: ada holds a, token 1, until 15m, 0s left, again granted: ada holds b, token 2, until 15m, 898s left
     "#]];

    a_repeated_batch_answers_every_entry_as_before:
    "0s   ada creates many in ops: a; b
     0s   bob claims b
     0s   ada claims all: a for 60s; b as r1
     1s   bob releases b
     2s   ada claims all: a for 60s; b as r1 again" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   granted: bob holds b, token 1, until 15m
         0s   [granted: ada holds a, token 2, until 60s, refused: already_claimed, retry after 15m, held by a user]
         1s   released: b, unassigned, queued
         2s   [again granted: ada holds a, token 2, until 60s, 58s left, refused: already_claimed, retry after 15m, held by a user]
     "#]];

    refusals_are_remembered_and_a_new_try_takes_a_new_id:
    "0s   ada creates disk in ops
     0s   bob claims disk
     0s   ada claims disk as r1
     1s   bob releases disk
     2s   ada claims disk as r1 again
     3s   ada claims disk as r2" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: bob holds disk, token 1, until 15m
         0s   refused: already_claimed, retry after 15m, held by a user
         1s   released: disk, unassigned, queued
         2s   refused: already_claimed, retry after 15m, held by a user
         3s   granted: ada holds disk, token 2, until 903s
     "#]];

    a_refusal_for_unknown_items_is_remembered_too:
    "0s   ada claims disk as r1
     1s   ada creates disk in ops
     2s   ada claims disk as r1 again" => expect![[r#"
         0s   refused: not_found
         1s   created: disk r1, queued
         2s   refused: not_found
     "#]];

    an_empty_next_is_not_remembered:
    "0s   ada takes next of ops as r1
     1s   ada creates disk in ops
     2s   ada takes next of ops as r1 again" => expect![[r#"
         0s   empty: nothing queued, retry after 1s
         1s   created: disk r1, queued
         2s   granted: ada holds disk, token 1, until 902s
     "#]];

    renewals_are_not_remembered:
    "0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   ada renews disk with token 1 as r1
     2s   ada renews disk with token 1 as r1 again
     3s   ada renews all as r1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   renewed: disk until 61s, renew after 20s
         2s   renewed: disk until 62s, renew after 20s
         3s   renewed all: 1, 60s left, renew after 20s
     "#]];

    repeating_a_waiting_claims_id_is_a_poll:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   bob claims disk for 60s, waiting as r1
     2s   bob claims disk for 60s, waiting as r1 again
     3s   ada releases disk
     4s   bob claims disk for 60s, waiting as r1 again
     5s   bob claims disk for 60s, waiting as r1 again" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   waiting: place 0 of 1
         2s   still waiting: place 0 of 1
         3s   released: disk, unassigned, active; granted from the line: bob holds disk, token 2, until 13s
         4s   granted: bob holds disk, token 2, until 64s; picked_up: bob's disk, token 2
         5s   again granted: bob holds disk, token 2, until 64s, 59s left
     "#]];

    /// The waiting claim is answered with the grant, whichever command picked it up.
    a_waiting_claims_id_answers_its_grant_after_a_renewal_picked_it_up:
    "0s   ada creates disk in ops
     0s   ada claims disk
     1s   bob claims disk for 60s, waiting as r1
     3s   ada releases disk
     4s   bob renews disk with token 2
     5s   bob claims disk for 60s, waiting as r1 again" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         1s   waiting: place 0 of 1
         3s   released: disk, unassigned, active; granted from the line: bob holds disk, token 2, until 13s
         4s   renewed: disk until 64s, renew after 20s; picked_up: bob's disk, token 2
         5s   again granted: bob holds disk, token 2, until 64s, 59s left
     "#]];

    another_body_under_the_same_id_is_refused:
    "0s   ada creates many in ops: a; b
     0s   ada claims a as r1
     1s   ada claims b as r1
     2s   ada claims a for 10s as r1
     3s   ada renews a with token 1 as r1" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         0s   granted: ada holds a, token 1, until 15m
         1s   refused: request_id_reused
         2s   refused: request_id_reused
         3s   refused: request_id_reused
     "#]];

    ids_are_scoped_to_space_actor_and_session:
    "0s   ada creates many in ops: a; b; c
     0s   ada@acme creates a in ops
     0s   ada claims a as r1
     1s   ada/s1 claims b as r1
     1s   bob claims c as r1
     1s   ada@acme claims a as r1" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued
         0s   created: a r1, queued
         0s   granted: ada holds a, token 1, until 15m
         1s   granted: ada/s1 holds b, token 2, until 901s
         1s   granted: bob holds c, token 3, until 901s
         1s   granted: ada holds a, token 4, until 901s
     "#]];

    ids_are_kept_for_two_minutes_of_cluster_time:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10m as r1
     119s ada claims disk for 10m as r1 again
     120s ada claims disk for 10m as r1 again" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10m
         119s again granted: ada holds disk, token 1, until 10m, 481s left
         120s renewed: ada holds disk, token 1, until 12m
     "#]];

    invalid_requests_are_not_remembered:
    "0s   ada creates disk in ops, after tape as r1
     1s   ada creates tape in ops
     2s   ada creates disk in ops, after tape as r1 again" => expect![[r#"
         0s   refused: invalid: depends_on tape does not exist; create it first
         1s   created: tape r1, queued
         2s   created: disk r2, pending
     "#]];

    an_id_that_the_cap_pushed_out_is_refused_and_never_run_again:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10m as r1
     1s   ada claims disk for 10m as r1 again
     2s   mob*130@nowhere fills 31 batches
     3s   ada claims disk for 10m as r1 again
     4s   ada claims disk for 10m as r2 again
     5s   ada claims disk for 10m as r3
     6s   ada renews disk with token 1 as r4 again
     122s ada claims disk for 10m as r5 again" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10m
         1s   again granted: ada holds disk, token 1, until 10m, 599s left
         2s   [] [refused: not_found, ... 998 more ..., refused: not_found] | ... 4028 more ... | [] [refused: not_found, ... 998 more ..., refused: not_found]
         3s   refused: request_forgotten
         4s   refused: request_forgotten
         5s   renewed: ada holds disk, token 1, until 605s
         6s   renewed: disk until 606s, renew after 200s
         122s renewed: ada holds disk, token 1, until 722s
     "#]];

    an_actor_that_fills_the_memory_is_rate_limited_and_pushes_out_nobody:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10m as r1
     1s   hog@nowhere fills 3000 batches
     2s   hog@nowhere fills 1 batch
     2s   hog creates tape in ops
     2s   hog creates tape in ops as h1 again
     &    hog renews all
     3s   ada claims disk for 10m as r1 again
     3s   bob creates fan in ops as b1
     4s   bob creates fan in ops as b1 again
     5s   hog creates tape in ops as h1
     121s tick
     121s tick
     122s hog creates tape in ops as h1" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10m
         1s   [] [refused: not_found, ... 998 more ..., refused: not_found] | ... 2998 more ... | refused: rate_limited, retry after 1s
         2s   refused: rate_limited, retry after 1s
         2s   created: tape r3, queued
         2s   exists: tape r3, queued | renewed all: 0
         3s   again granted: ada holds disk, token 1, until 10m, 597s left
         3s   created: fan r4, queued
         4s   again created: fan r4, queued
         5s   exists: tape r3, queued
         121s nothing
         121s nothing
         122s exists: tape r3, queued
     "#]];

    /// A sender that slept sends its request again and must not get a second item.
    a_repeat_of_an_id_that_is_forgotten_by_age_is_refused_and_never_run_again:
    "0s   ada creates many in ops: a; b
     1s   bob takes next of ops as r1
     101s bob takes next of ops as r1 again after 99s
     119s bob takes next of ops as r1 again after 10m
     121s bob takes next of ops as r1 again after 120s
     122s bob takes next of ops as never-sent again after 100s
     123s bob takes next of ops as not-so-late again after 99s" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued
         1s   granted: bob holds a, token 1, until 901s
         101s again granted: bob holds a, token 1, until 901s, 800s left
         119s again granted: bob holds a, token 1, until 901s, 782s left
         121s refused: request_forgotten
         122s refused: request_forgotten
         123s granted: bob holds b, token 2, until 1023s
     "#]];

    a_late_repeat_of_a_renewal_runs:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10m
     5m   ada renews disk with token 1 as r1 again after 4m
     6m   ada renews all as r2 again after 5m" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10m
         5m   renewed: disk until 15m, renew after 200s
         6m   renewed all: 1, 10m left, renew after 200s
     "#]];

    /// Each poll renews the memory, so a claim that waits longer than two minutes is still known.
    a_late_repeat_of_a_claim_that_still_waits_is_a_poll:
    "0s   ada creates disk in ops
     0s   ada claims disk for 10m
     0s   bob claims disk, waiting as r1
     29s  bob claims disk, waiting as r1
     58s  bob claims disk, waiting as r1
     87s  bob claims disk, waiting as r1
     110s bob claims disk, waiting as r1 again after 110s
     5m   bob claims disk, waiting as r1 again after 5m" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 10m
         0s   waiting: place 0 of 1
         29s  still waiting: place 0 of 1
         58s  still waiting: place 0 of 1
         87s  still waiting: place 0 of 1
         110s still waiting: place 0 of 1
         5m   refused: request_forgotten; left_line: bob (wait_timeout)
     "#]];

    two_commands_with_one_id_in_one_entry_have_one_effect:
    "0s   ada creates disk in ops
     1s   ada claims disk for 60s as r1
     &    ada claims disk for 60s as r1 again
     &    ada claims disk for 60s as r2" => expect![[r#"
         0s   created: disk r1, queued
         1s   granted: ada holds disk, token 1, until 61s | again granted: ada holds disk, token 1, until 61s, 60s left | renewed: ada holds disk, token 1, until 61s
     "#]];
}
