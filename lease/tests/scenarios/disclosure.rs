//! What each viewer sees of the holders of items: docs/RULES.md section 19.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    open_shows_the_holder_and_its_expiry:
    "kind bot agent
     0s   op sets ops, disclosure open
     0s   ada creates disk in ops
     0s   bot/s1 claims disk for 60s, doing rewrite, to the title
     1s   bob claims disk
     1s   bob updates disk, reading r2, title x
     1s   bob assigns disk to cid" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: bot/s1 holds disk, token 1, until 60s
         1s   refused: already_claimed, retry after 59s, held by bot/s1 until 60s doing rewrite to the title
         1s   refused: already_claimed, retry after 59s, held by bot/s1 until 60s doing rewrite to the title
         1s   refused: already_claimed, retry after 59s, held by bot/s1 until 60s doing rewrite to the title
     "#]];

    fleet_shows_the_kind_of_the_holder:
    "kind bot agent
     kind cron system
     0s   ada creates many in ops: a; b; c
     0s   bot claims a for 60s
     0s   cron claims b for 60s
     0s   ada claims c for 60s
     1s   bob claims a
     1s   bob claims b
     1s   bob claims c" => expect![[r#"
         0s   created: a r1, queued, created: b r2, queued, created: c r3, queued
         0s   granted: bot holds a, token 1, until 60s
         0s   granted: cron holds b, token 2, until 60s
         0s   granted: ada holds c, token 3, until 60s
         1s   refused: already_claimed, retry after 59s, held by an agent
         1s   refused: already_claimed, retry after 59s, held by a system
         1s   refused: already_claimed, retry after 59s, held by a user
     "#]];

    cross_org_shows_only_when_to_retry:
    "0s   op sets ops, disclosure cross_org
     0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk
     1s   bob renews disk with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   refused: already_claimed, retry after 59s
         1s   refused: lease_lost
     "#]];

    lease_lost_names_the_new_holder_as_disclosure_allows:
    "0s   ada creates many in open: a
     0s   ada creates many in fleet: b
     0s   ada creates many in cross: c
     0s   op sets open, disclosure open
     0s   op sets cross, disclosure cross_org
     0s   ada claims all: a for 10s; b for 10s; c for 10s
     10s  bob claims all: a for 10s; b for 10s; c for 10s
     11s  ada renews a with token 1
     11s  ada renews b with token 2
     11s  ada renews c with token 3" => expect![[r#"
         0s   created: a r1, queued
         0s   created: b r2, queued
         0s   created: c r3, queued
         0s   policy of open: version 1; policy_changed: version 1
         0s   policy of cross: version 1; policy_changed: version 1
         0s   [granted: ada holds a, token 1, until 10s, granted: ada holds b, token 2, until 10s, granted: ada holds c, token 3, until 10s]
         10s  [granted: bob holds a, token 4, until 20s, granted: bob holds b, token 5, until 20s, granted: bob holds c, token 6, until 20s]; expired: ada's a, token 1, an attempt; expired: ada's b, token 2, an attempt; expired: ada's c, token 3, an attempt
         11s  refused: lease_lost, held by bob until 20s
         11s  refused: lease_lost, held by a user
         11s  refused: lease_lost
     "#]];

    operators_see_every_holder_and_actors_see_themselves:
    "roles opal operator + worker
     0s   op sets ops, disclosure cross_org
     0s   ada creates disk in ops
     0s   ada/s1 claims disk for 60s
     1s   opal claims disk
     2s   ada/s2 takes next of ops
     3s   ada/s2 claims disk for 60s, taking over
     4s   ada/s1 renews disk with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada/s1 holds disk, token 1, until 60s
         1s   refused: already_claimed, retry after 59s, held by ada/s1 until 60s
         2s   empty: nothing queued, retry after 1s
         3s   granted: ada/s2 holds disk, token 2, until 63s, first at 0s; taken_over: ada/s1's disk, token 1
         4s   refused: lease_lost, held by ada/s2 until 63s
     "#]];

    no_refusal_carries_a_token_and_a_line_names_nobody:
    "0s   op sets ops, disclosure open
     0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk, waiting
     2s   ada releases disk
     3s   cid completes disk with token 1
     3s   cid renews disk with token 1
     3s   cid completes disk with token 99" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   released: disk, unassigned, active; granted from the line: bob holds disk, token 2, until 12s
         3s   refused: stale_token
         3s   refused: lease_lost, held by bob until 12s
         3s   refused: stale_token
     "#]];

    events_name_others_only_where_disclosure_allows:
    "roles dee reader
     0s   ada creates disk in ops
     0s   ada claims disk for 60s
     1s   bob claims disk, waiting
     2s   ada cancels disk, because bob is slow, by force
     3s   ada watches
     3s   bob watches
     3s   dee watches
     3s   op watches" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   waiting: place 0 of 1
         2s   now: disk cancelled; cancelled: ada's disk, token 1, by ada: bob is slow; left_line: bob (terminal_item)
         3s   created: disk by ada; granted: ada holds disk, token 1, until 60s by ada; joined of disk; cancelled: ada's disk, token 1, by ada: bob is slow by ada; left_line of disk
         3s   created: disk by ?; granted of disk; joined: bob at place 0 by bob; cancelled of disk; left_line: bob (terminal_item) by ?
         3s   created: disk by ?; granted of disk; joined of disk; cancelled of disk; left_line of disk
         3s   created: disk by ada; granted: ada holds disk, token 1, until 60s by ada; joined: bob at place 0 by bob; cancelled: ada's disk, token 1, by ada: bob is slow by ada; left_line: bob (terminal_item) by ada
     "#]];

    /// The event names nobody, but its free text may.
    free_text_of_others_is_not_shown:
    "roles dee reader
     0s   ada creates disk in ops
     1s   ada cancels disk, because bob is slow
     2s   ada watches
     2s   dee watches" => expect![[r#"
         0s   created: disk r1, queued
         1s   now: disk cancelled; cancelled: disk, by ada: bob is slow
         2s   created: disk by ada; cancelled: disk, by ada: bob is slow by ada
         2s   created: disk by ?; cancelled of disk
     "#]];

    an_open_queue_shows_its_events_to_its_readers:
    "roles dee reader
     roles eve reader dev/
     0s   op sets ops, disclosure open
     0s   ada creates disk in ops
     0s   ada claims disk for 60s
     3s   dee watches
     3s   eve watches" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s
         3s   policy_changed: version 1 by op; created: disk by ada; granted: ada holds disk, until 60s by ada
         3s   nothing
     "#]];

    events_of_workers_are_for_operators_of_the_space_and_for_themselves:
    "roles fay operator ops + worker ops
     0s   ada/s1 registers
     0s   bob/s1 registers
     1s   ada watches
     1s   fay watches
     1s   op watches" => expect![[r#"
         0s   registered for 60s; worker_registered: ada/s1
         0s   registered for 60s; worker_registered: bob/s1
         1s   worker_registered: ada/s1 by ada
         1s   nothing
         1s   worker_registered: ada/s1 by ada; worker_registered: bob/s1 by bob
     "#]];

    /// The token of disk is 3. With a token below, equal to or above it cid gets the same answer.
    no_answer_tells_a_stranger_whether_a_token_is_older_or_newer:
    "0s   op sets ops, disclosure cross_org
     0s   ada creates many in ops: a; b; disk
     0s   ada claims all: a; b
     0s   ada claims disk for 60s
     1s   cid completes disk with token 2
     1s   cid completes disk with token 3
     1s   cid completes disk with token 4
     1s   cid updates disk with token 2, title x
     1s   cid updates disk with token 4, title x
     1s   cid renews disk with token 2
     1s   cid renews disk with token 3
     1s   cid extends disk with token 4 by 60s
     1s   cid reserves disk with token 4
     1s   cid releases disk with token 2
     1s   cid releases disk with token 3
     1s   cid releases disk with token 4
     2s   ada/s2 renews disk with token 2
     2s   ada/s2 renews disk with token 3
     3s   ada completes disk with token 3" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: a r2, queued, created: b r3, queued, created: disk r4, queued
         0s   [granted: ada holds a, token 1, until 15m, granted: ada holds b, token 2, until 15m]
         0s   granted: ada holds disk, token 3, until 60s
         1s   refused: stale_token
         1s   refused: stale_token
         1s   refused: stale_token
         1s   refused: stale_token
         1s   refused: stale_token
         1s   refused: lease_lost
         1s   refused: lease_lost
         1s   refused: lease_lost
         1s   refused: lease_lost
         1s   held nothing: disk, active
         1s   held nothing: disk, active
         1s   held nothing: disk, active
         2s   refused: lease_lost, held by ada until 60s
         2s   refused: not_holder
         3s   now: disk complete; completed: ada's disk, token 3
     "#]];

    an_event_shows_a_token_to_its_holder_and_to_operators:
    "roles dee reader
     0s   op sets cross, disclosure cross_org
     0s   op sets open, disclosure open
     0s   ada creates a in cross
     0s   ada creates b in open
     0s   ada claims all: a for 60s; b for 60s
     1s   ada awaits input on a with token 1
     1s   ada resumes a with token 1
     1s   ada awaits input on b with token 2
     2s   op revokes b, because late
     2s   ada completes a with token 1
     3s   dee watches
     3s   ada watches
     3s   op watches" => expect![[r#"
         0s   policy of cross: version 1; policy_changed: version 1
         0s   policy of open: version 1; policy_changed: version 1
         0s   created: a r3, queued
         0s   created: b r4, queued
         0s   [granted: ada holds a, token 1, until 60s, granted: ada holds b, token 2, until 60s]
         1s   now: a awaiting_input; awaited_input: a, token 1
         1s   now: a active; resumed: a, token 1
         1s   now: b awaiting_input; awaited_input: b, token 2
         2s   revoked: b, queued; revoked: ada's b, token 2, by op: late
         2s   now: a complete; completed: ada's a, token 1
         3s   policy_changed: version 1 by ?; policy_changed: version 1 by op; created: a by ?; created: b by ada; granted of a; granted: ada holds b, until 60s by ada; awaited_input: a by ?; resumed: a by ?; awaited_input: b by ada; revoked: ada's b, by op: late by op; completed of a
         3s   policy_changed: version 1 by ?; policy_changed: version 1 by op; created: a by ada; created: b by ada; granted: ada holds a, token 1, until 60s by ada; granted: ada holds b, token 2, until 60s by ada; awaited_input: a, token 1 by ada; resumed: a, token 1 by ada; awaited_input: b, token 2 by ada; revoked: ada's b, token 2, by op: late by op; completed: ada's a, token 1 by ada
         3s   policy_changed: version 1 by op; policy_changed: version 1 by op; created: a by ada; created: b by ada; granted: ada holds a, token 1, until 60s by ada; granted: ada holds b, token 2, until 60s by ada; awaited_input: a, token 1 by ada; resumed: a, token 1 by ada; awaited_input: b, token 2 by ada; revoked: ada's b, token 2, by op: late by op; completed: ada's a, token 1 by ada
     "#]];

    a_mirror_names_no_item_that_is_hidden:
    "roles zoe reader open
     roles dee reader
     0s   ada creates goal in open
     0s   ada creates secret in hidden, target goal
     1s   ada claims secret for 60s
     2s   zoe watches
     2s   dee watches" => expect![[r#"
         0s   created: goal r1, queued
         0s   created: secret r2, queued
         1s   granted: ada holds secret, token 1, until 61s; mirrored: goal follows secret (claimed) to in_progress
         2s   created: goal by ?; mirrored of goal
         2s   created: goal by ?; created: secret by ?; granted of secret; mirrored: goal follows secret (claimed) to in_progress by ?
     "#]];

    /// Ids are unique in a space, so it cannot be hidden that an id is taken. Everything else is hidden.
    an_id_that_is_taken_by_a_hidden_item_tells_nothing_of_it:
    "roles zoe dispatcher open
     roles bot worker + dispatcher
     kind bot agent of bob
     0s   ada creates secret in hidden
     0s   bob creates mine in open, local to bob
     0s   cid creates both in open
     1s   zoe creates secret in open
     1s   zoe creates both in open
     1s   zoe creates mine in open
     1s   bot creates mine in open
     2s   bob updates both, reading r3, local to bob
     3s   cid creates both in open" => expect![[r#"
         0s   created: secret r1, queued
         0s   created: mine r2, queued
         0s   created: both r3, queued
         1s   refused: already_exists
         1s   exists: both r3, queued
         1s   refused: already_exists
         1s   refused: already_exists
         2s   now: both r4; updated: both r4 mode
         3s   refused: already_exists
     "#]];

    nobody_takes_or_peeks_at_what_is_below_a_hidden_item:
    "roles zoe worker open
     0s   ada creates secret in hidden
     0s   ada creates part in open, parent secret
     1s   zoe takes next of open, children of secret
     1s   zoe takes next of open, under secret
     1s   zoe takes next of open, under nothing
     2s   ada takes next of open, under secret" => expect![[r#"
         0s   created: secret r1, queued
         0s   created: part r2, queued
         1s   empty: nothing eligible, retry after 1s
         1s   empty: nothing eligible, retry after 1s
         1s   empty: nothing eligible, retry after 1s
         2s   granted: ada holds part, token 1, until 902s
     "#]];
}
