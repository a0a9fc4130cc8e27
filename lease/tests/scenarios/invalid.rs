//! Requests that are malformed whatever the state: docs/RULES.md sections 4 and 20. The edge finds them with the same
//! function.

use super::check::scenarios;
use expect_test::expect;

scenarios! {
    texts_are_bounded:
    "0s   ada creates disk in ops, title x*513
     0s   ada creates disk in ops, prompt x*65537
     0s   ada creates disk in ops, prompt x*40000, context x*40000
     0s   ada creates disk in ops, title x*512, prompt x*65536
     0s   ada claims disk, doing x*1025
     0s   ada claims disk, to the x*1025
     0s   ada cancels disk, because x*1025
     0s   op revokes disk, because x*1025
     0s   ada awaits input on disk with token 1, asking x*1025
     0s   ada records progress on disk with token 1, saying x*1025
     0s   ada completes disk with token 1, result x*65537
     0s   ada fails disk with token 1, error x*65537" => expect![[r#"
         0s   refused: invalid: title has 513 bytes, at most 512 are allowed
         0s   refused: invalid: body 65537 exceeds the limit of 65536
         0s   refused: invalid: body 80000 exceeds the limit of 65536
         0s   created: disk r1, queued
         0s   refused: invalid: action has 1025 bytes, at most 1024 are allowed
         0s   refused: invalid: field has 1025 bytes, at most 1024 are allowed
         0s   refused: invalid: reason has 1025 bytes, at most 1024 are allowed
         0s   refused: invalid: reason has 1025 bytes, at most 1024 are allowed
         0s   refused: invalid: question has 1025 bytes, at most 1024 are allowed
         0s   refused: invalid: note has 1025 bytes, at most 1024 are allowed
         0s   refused: invalid: result has 65537 bytes, at most 65536 are allowed
         0s   refused: invalid: error has 65537 bytes, at most 65536 are allowed
     "#]];

    labels_are_bounded_and_unique:
    "0s   ada creates disk in ops, labels l*33
     0s   ada creates disk in ops, labels a+a
     0s   ada creates disk in ops, needs l*33
     0s   ada takes next of ops, able l*33
     0s   ada registers, able l*33
     0s   ada creates disk in ops, labels l*32" => expect![[r#"
         0s   refused: invalid: labels 33 exceeds the limit of 32
         0s   refused: invalid: labels has a duplicate entry
         0s   refused: invalid: needs 33 exceeds the limit of 32
         0s   refused: invalid: capabilities 33 exceeds the limit of 32
         0s   refused: invalid: capabilities 33 exceeds the limit of 32
         0s   created: disk r1, queued
     "#]];

    priorities_are_zero_to_nine:
    "0s   ada creates disk in ops, priority 10
     0s   ada creates disk in ops, priority 9
     0s   ada updates disk, reading r1, priority 10
     0s   ada takes next of ops, priority from 10" => expect![[r#"
         0s   refused: invalid: priority must be 0 to 9
         0s   created: disk r1, queued
         0s   refused: invalid: priority must be 0 to 9
         0s   refused: invalid: priority_min must be 0 to 9
     "#]];

    durations_must_be_positive_and_at_most_ten_years:
    "0s   ada creates disk in ops
     0s   ada claims disk for 0s
     0s   ada claims disk for 4000d
     0s   ada claims disk, waiting 0s
     0s   ada claims disk
     0s   ada renews disk with token 1 for 0s
     0s   ada renews all for 0s
     0s   ada reserves disk with token 1 for 0s
     0s   ada extends disk with token 1 by 4000d
     0s   ada registers, alive for 0s
     0s   ada creates tape in ops, delayed 0s" => expect![[r#"
         0s   created: disk r1, queued
         0s   refused: invalid: lease_for must be more than zero
         0s   refused: invalid: lease_for must not exceed ten years; the unit is milliseconds
         0s   refused: invalid: wait_for must be more than zero
         0s   granted: ada holds disk, token 1, until 15m
         0s   refused: invalid: lease_for must be more than zero
         0s   refused: invalid: lease_for must be more than zero
         0s   refused: invalid: for must be more than zero
         0s   refused: invalid: for must not exceed ten years; the unit is milliseconds
         0s   refused: invalid: alive_for must be more than zero
         0s   refused: invalid: delay must be more than zero
     "#]];

    durations_in_a_policy_are_checked_like_all_others:
    "0s   op sets ops, lease_for 0s
     0s   op sets ops, lease_max 4000d
     0s   op sets ops, lease_min 0s
     0s   op sets ops, pickup 0s
     0s   op sets ops, retention 0s
     0s   op sets ops, reservation_max 0s
     0s   op sets ops, lock_delay 4000d
     0s   op sets ops, backoff 4000d 200 5000d
     0s   op sets ops, backoff 1s 200 4000d" => expect![[r#"
         0s   refused: invalid: lease_for must be more than zero
         0s   refused: invalid: lease_max must not exceed ten years; the unit is milliseconds
         0s   refused: invalid: lease_min must be more than zero
         0s   refused: invalid: pickup must be more than zero
         0s   refused: invalid: retention must be more than zero
         0s   refused: invalid: reservation_max must be more than zero
         0s   refused: invalid: lock_delay must not exceed ten years; the unit is milliseconds
         0s   refused: invalid: backoff.first must not exceed ten years; the unit is milliseconds
         0s   refused: invalid: backoff.max must not exceed ten years; the unit is milliseconds
     "#]];

    tokens_must_be_exact_in_json:
    "0s   ada creates disk in ops
     0s   ada claims disk
     0s   ada renews disk with token 0
     0s   ada renews disk with token 9007199254740992
     0s   ada releases disk with token 0
     0s   ada completes disk with token 0" => expect![[r#"
         0s   created: disk r1, queued
         0s   granted: ada holds disk, token 1, until 15m
         0s   refused: invalid: token is not a valid token
         0s   refused: invalid: token is not a valid token
         0s   refused: invalid: token is not a valid token
         0s   refused: invalid: token is not a valid token
     "#]];

    counts_are_bounded:
    "0s   ada takes next of ops, count 0
     0s   ada takes next of ops, count 101
     0s   ada creates many in ops: n1..n1001
     0s   ada claims disk, waiting, line at most 10001
     0s   op reorders disk to bob+bob" => expect![[r#"
         0s   refused: invalid: count must be 1 to 100
         0s   refused: invalid: count must be 1 to 100
         0s   refused: invalid: items 1001 exceeds the limit of 1000
         0s   refused: invalid: line_max must not exceed 10000
         0s   refused: invalid: actors has a duplicate entry
     "#]];

    dependencies_are_bounded_and_unique:
    "0s   ada creates many in ops: n1..n65
     0s   ada creates disk in ops, after n1+n1
     0s   ada creates disk in ops, after n1+n2+n3+n4+n5+n6+n7+n8+n9+n10+n11+n12+n13+n14+n15+n16+n17+n18+n19+n20+n21+n22+n23+n24+n25+n26+n27+n28+n29+n30+n31+n32+n33+n34+n35+n36+n37+n38+n39+n40+n41+n42+n43+n44+n45+n46+n47+n48+n49+n50+n51+n52+n53+n54+n55+n56+n57+n58+n59+n60+n61+n62+n63+n64+n65
     0s   ada creates disk in ops, after n1+n2+n3+n4+n5+n6+n7+n8+n9+n10+n11+n12+n13+n14+n15+n16+n17+n18+n19+n20+n21+n22+n23+n24+n25+n26+n27+n28+n29+n30+n31+n32+n33+n34+n35+n36+n37+n38+n39+n40+n41+n42+n43+n44+n45+n46+n47+n48+n49+n50+n51+n52+n53+n54+n55+n56+n57+n58+n59+n60+n61+n62+n63+n64" => expect![[r#"
         0s   created: n1 r1, queued, ... 63 more ..., created: n65 r65, queued
         0s   refused: invalid: depends_on has a duplicate entry
         0s   refused: invalid: depends_on 65 exceeds the limit of 64
         0s   created: disk r66, pending
     "#]];

    an_update_must_have_edits:
    "0s   ada creates disk in ops
     0s   ada updates disk, reading r1
     0s   ada starts disk with token 1" => expect![[r#"
         0s   created: disk r1, queued
         0s   refused: invalid: edits must not be empty
         0s   refused: invalid: token must not be set: the claim mints a new token
     "#]];

    ancestors_are_bounded:
    "0s   ada creates many in ops: n1; n2, parent n1; n3, parent n2; n4, parent n3; n5, parent n4; n6, parent n5; n7, parent n6; n8, parent n7; n9, parent n8; n10, parent n9; n11, parent n10; n12, parent n11
     0s   ada creates many in ops: n13, parent n12; n14, parent n13; n15, parent n14; n16, parent n15; n17, parent n16; n18, parent n17; n19, parent n18; n20, parent n19; n21, parent n20; n22, parent n21; n23, parent n22
     0s   ada creates many in ops: n24, parent n23; n25, parent n24; n26, parent n25; n27, parent n26; n28, parent n27; n29, parent n28; n30, parent n29; n31, parent n30; n32, parent n31; n33, parent n32
     0s   ada creates n34 in ops, parent n33" => expect![[r#"
         0s   created: n1 r1, queued, created: n2 r2, queued, created: n3 r3, queued, created: n4 r4, queued, created: n5 r5, queued, created: n6 r6, queued, created: n7 r7, queued, created: n8 r8, queued, created: n9 r9, queued, created: n10 r10, queued, created: n11 r11, queued, created: n12 r12, queued
         0s   created: n13 r13, queued, created: n14 r14, queued, created: n15 r15, queued, created: n16 r16, queued, created: n17 r17, queued, created: n18 r18, queued, created: n19 r19, queued, created: n20 r20, queued, created: n21 r21, queued, created: n22 r22, queued, created: n23 r23, queued
         0s   created: n24 r24, queued, created: n25 r25, queued, created: n26 r26, queued, created: n27 r27, queued, created: n28 r28, queued, created: n29 r29, queued, created: n30 r30, queued, created: n31 r31, queued, created: n32 r32, queued, refused: invalid: parent has too many ancestors
         0s   refused: invalid: parent does not exist
     "#]];

    alive_for_is_at_most_a_day:
    "0s   ada registers, alive for 1d
     0s   bob registers, alive for 25h" => expect![[r#"
         0s   registered for 1d; worker_registered: ada
         0s   refused: invalid: alive_for must not exceed one day
     "#]];
}
