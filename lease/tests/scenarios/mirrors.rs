//! Mirrors, where a step of an item sets the phase of its target: docs/RULES.md section 14.4.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    the_default_mirrors:
    "0s   ada creates many in ops: goal; disk, target goal
     0s   ada claims disk for 60s
     1s   ada awaits input on disk with token 1
     2s   ada resumes disk with token 1
     3s   ada completes disk with token 1
     4s   ada claims goal" => expect![[r#"
         0s   created: goal r1, queued, created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s; mirrored: goal follows disk (claimed) to in_progress
         1s   now: disk awaiting_input; awaited_input: disk, token 1; mirrored: goal follows disk (awaiting_input) to blocked
         2s   now: disk active; resumed: disk, token 1
         3s   now: disk complete; completed: ada's disk, token 1; mirrored: goal follows disk (completed) to review
         4s   granted: ada holds goal, token 2, until 904s, phase review, at r9
     "#]];

    exhausted_attempts_mirror_blocked:
    "0s   op sets ops, attempts_max 1
     0s   ada creates many in ops: goal; one, target goal; two, target goal
     0s   ada claims one for 10s
     1s   ada updates goal, reading r6, phase idle
     10s  tick
     11s  ada claims two for 10s
     12s  ada fails two with token 2" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: goal r2, queued, created: one r3, queued, created: two r4, queued
         0s   granted: ada holds one, token 1, until 10s; mirrored: goal follows one (claimed) to in_progress
         1s   now: goal r7; updated: goal r7 phase
         10s  expired: ada's one, token 1, an attempt; blocked: one, no attempts left; mirrored: goal follows one (attempts_exhausted) to blocked
         11s  granted: ada holds two, token 2, until 21s; mirrored: goal follows two (claimed) to in_progress
         12s  now: two blocked; failed: ada's two, token 2; blocked: two, no attempts left; mirrored: goal follows two (attempts_exhausted) to blocked
     "#]];

    a_mirror_that_changes_nothing_emits_no_event:
    "0s   ada creates many in ops: goal, phase in_progress; disk, target goal
     0s   ada claims disk for 60s" => expect![[r#"
         0s   created: goal r1, queued, created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s
     "#]];

    a_renewal_mirrors_nothing:
    "0s   ada creates many in ops: goal; disk, target goal
     0s   ada claims disk for 60s
     1s   ada updates goal, reading r4, phase idle
     2s   ada claims disk for 60s
     3s   ada renews disk with token 1" => expect![[r#"
         0s   created: goal r1, queued, created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s; mirrored: goal follows disk (claimed) to in_progress
         1s   now: goal r5; updated: goal r5 phase
         2s   renewed: ada holds disk, token 1, until 62s
         3s   renewed: disk until 63s, renew after 20s
     "#]];

    a_mirror_goes_one_hop_and_is_not_itself_a_transition:
    "0s   ada creates many in ops: top; goal, target top; disk, target goal
     0s   ada claims disk for 60s
     1s   ada completes disk with token 1" => expect![[r#"
         0s   created: top r1, queued, created: goal r2, queued, created: disk r3, queued
         0s   granted: ada holds disk, token 1, until 60s; mirrored: goal follows disk (claimed) to in_progress
         1s   now: disk complete; completed: ada's disk, token 1; mirrored: goal follows disk (completed) to review
     "#]];

    a_held_a_terminal_and_a_missing_target_are_skipped_with_an_event:
    "0s   op sets ops, retention 10s
     0s   ada creates many in ops: goal; disk, target goal
     0s   bob claims goal for 60s
     1s   ada claims disk for 60s
     2s   bob completes goal with token 1
     3s   ada awaits input on disk with token 2
     12s  tick
     13s  ada completes disk with token 2" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: goal r2, queued, created: disk r3, queued
         0s   granted: bob holds goal, token 1, until 60s
         1s   granted: ada holds disk, token 2, until 61s; mirror_skipped: disk (claimed), target is held
         2s   now: goal complete; completed: bob's goal, token 1
         3s   now: disk awaiting_input; awaited_input: disk, token 2; mirror_skipped: disk (awaiting_input), target is terminal
         12s  purged: goal, complete
         13s  now: disk complete; completed: ada's disk, token 2; mirror_skipped: disk (completed), target is missing
     "#]];

    a_phase_that_the_targets_queue_does_not_have_is_skipped:
    "0s   op sets dev, phases todo+review
     0s   ada creates goal in dev
     0s   ada creates disk in ops, target goal
     0s   ada claims disk for 60s
     1s   ada completes disk with token 1" => expect![[r#"
         0s   policy of dev: version 1; policy_changed: version 1
         0s   created: goal r2, queued
         0s   created: disk r3, queued
         0s   granted: ada holds disk, token 1, until 60s; mirror_skipped: disk (claimed), target is no such phase
         1s   now: disk complete; completed: ada's disk, token 1; mirrored: goal follows disk (completed) to review
     "#]];

    the_policy_says_which_transitions_are_mirrored:
    "0s   op sets ops, mirrors completed=done
     0s   ada creates many in ops: goal; disk, target goal
     0s   ada claims disk for 60s
     1s   ada completes disk with token 1" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: goal r2, queued, created: disk r3, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   now: disk complete; completed: ada's disk, token 1; mirrored: goal follows disk (completed) to done
     "#]];

    a_worker_may_narrow_the_mirrors:
    "0s   ada creates many in ops: goal; disk, target goal
     0s   ada claims disk for 60s, mirroring completed
     1s   ada awaits input on disk with token 1
     2s   ada completes disk with token 1" => expect![[r#"
         0s   created: goal r1, queued, created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s
         1s   now: disk awaiting_input; awaited_input: disk, token 1
         2s   now: disk complete; completed: ada's disk, token 1; mirrored: goal follows disk (completed) to review
     "#]];

    a_worker_may_not_widen_the_mirrors:
    "0s   op sets ops, mirrors completed=done
     0s   ada creates many in ops: goal; disk, target goal
     0s   ada takes next of ops, newest, mirroring claimed+completed" => expect![[r#"
         0s   policy of ops: version 1; policy_changed: version 1
         0s   created: goal r2, queued, created: disk r3, queued
         0s   granted: ada holds disk, token 1, until 15m
     "#]];

    /// Mirrors that the claim left out stay out for a late completion.
    a_late_completion_does_not_widen_the_mirrors:
    "0s   ada creates many in ops: goal; disk, target goal
     0s   ada claims disk for 10s, mirroring nothing
     11s  ada completes disk with token 1" => expect![[r#"
         0s   created: goal r1, queued, created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 10s
         11s  now: disk complete; expired: ada's disk, token 1, an attempt; completed: ada's disk, token 1, late
     "#]];

    a_release_mirrors_nothing:
    "0s   ada creates many in ops: goal; disk, target goal
     0s   ada claims disk for 60s
     1s   ada releases disk" => expect![[r#"
         0s   created: goal r1, queued, created: disk r2, queued
         0s   granted: ada holds disk, token 1, until 60s; mirrored: goal follows disk (claimed) to in_progress
         1s   released: disk, unassigned, queued
     "#]];
}
