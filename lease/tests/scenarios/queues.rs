//! The removal of unused queues: docs/RULES.md section 2.2.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    an_empty_queue_is_removed_a_day_after_its_last_use:
    "0s   ada creates disk in ops
     0s   op pauses dev
     5s   op unpauses dev
     6s   ada cancels disk
     86404s tick
     86404s queues
     86405s tick
     86405s queues
     604806s tick
     691205s tick
     691205s queues
     691206s tick
     691206s queues" => expect![[r#"
         0s   created: disk r1, queued
         0s   dev is paused; paused: dev
         5s   dev is open; unpaused: dev
         6s   now: disk cancelled; cancelled: disk, by ada:
         86404s nothing
         86404s 0: ops, 1: dev
         86405s nothing
         86405s 0: ops
         604806s purged: disk, cancelled
         691205s nothing
         691205s 0: ops
         691206s nothing
         691206s nothing
     "#]];

    a_queue_with_an_item_or_a_setting_stays:
    "0s   ada creates disk in live
     0s   ada creates tape in ended
     0s   op sets ruled, retention 1s
     0s   op pauses paused
     0s   op unpauses drained
     0s   op drains drained
     1s   ada cancels tape
     3d   tick
     3d   queues" => expect![[r#"
         0s   created: disk r1, queued
         0s   created: tape r2, queued
         0s   policy of ruled: version 1; policy_changed: version 1
         0s   paused is paused; paused: paused
         0s   drained is open
         0s   drained is draining; drain_started: drained; drained: drained
         1s   now: tape cancelled; cancelled: tape, by ada:
         3d   nothing
         3d   0: live, 1: ended, 2: ruled, 3: paused, 4: drained
     "#]];

    a_queue_that_is_used_again_within_the_day_stays:
    "0s   op unpauses ops
     86399s ada creates disk in ops
     2d   ada claims disk
     2d   ada completes disk with token 1
     9d   tick
     777599s tick
     863999s queues" => expect![[r#"
         0s   ops is open
         86399s created: disk r1, queued
         2d   granted: ada holds disk, token 1, until 2895m
         2d   now: disk complete; completed: ada's disk, token 1
         9d   purged: disk, complete
         777599s nothing
         863999s 0: ops
     "#]];

    a_queue_that_comes_back_is_a_new_one_and_takes_the_lowest_free_number:
    "0s   op unpauses a
     0s   op unpauses b
     0s   op sets c, lease_for 10s
     0s   op unpauses d
     0s   ada creates disk in d
     1d   op unpauses z
     1d   queues
     1d   ada takes next of b
     1d   ada creates tape in b
     &    bob takes next of b
     1d   op sets b, lease_for 10s, version 0
     1d   queues" => expect![[r#"
         0s   a is open
         0s   b is open
         0s   policy of c: version 1; policy_changed: version 1
         0s   d is open
         0s   created: disk r2, queued
         1d   z is open
         1d   0: z, 2: c, 3: d
         1d   empty: nothing queued, retry after 1s
         1d   created: tape r3, queued | granted: bob holds tape, token 1, until 1455m
         1d   policy of b: version 1; policy_changed: version 1
         1d   0: z, 1: b, 2: c, 3: d
     "#]];

    at_most_a_thousand_queues_are_removed_in_one_entry:
    "0s   op@s*1001 unpauses ops
     1d   tick
     1d   queues
     1d   tick
     1d   queues" => expect![[r#"
         0s   ops is open | ... 999 more ... | ops is open
         1d   nothing
         1d   1000: ops
         1d   nothing
         1d   nothing
     "#]];

    events_of_a_removed_queue_are_shown_as_before:
    "roles eve reader ops
     roles gus reader dev
     0s   ada creates disk in ops
     0s   bob claims disk
     1s   bob completes disk with token 1
     8d   tick
     8d   eve watches
     8d   gus watches
     9d   tick
     9d   queues
     9d   eve watches
     9d   gus watches
     9d   bob watches" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: bob holds disk, token 1, until 15m
         1s   now: disk complete; completed: bob's disk, token 1
         8d   purged: disk, complete
         8d   created: disk by ?; granted of disk; completed of disk; purged: disk, complete by ?
         8d   nothing
         9d   nothing
         9d   nothing
         9d   created: disk by ?; granted of disk; completed of disk; purged: disk, complete by ?
         9d   nothing
         9d   created: disk by ?; granted: bob holds disk, token 1, until 15m by bob; completed: bob's disk, token 1 by bob; purged: disk, complete by ?
     "#]];
}
