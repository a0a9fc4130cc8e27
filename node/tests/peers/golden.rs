//! The bytes between nodes must not change: a cluster is upgraded one node at a time.
//!
//! `golden.txt` holds one line per frame: its name, and its bytes in hex. A line is never changed or removed; a new
//! shape is a new kind with lines of its own.

use expect_test::expect_file;
use node::peers::wire::*;
use node::replica::role::Role;
use raft_store::codec::records::*;
use raft_store::codec::{CodecError, Kind, decode, encode};
use raft_store::types::{Group, Member};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Write as _};
use std::sync::Arc;

#[test]
fn frames_are_encoded_as_in_the_golden_file() {
    let mut lines = String::new();
    for (name, bytes) in frames() {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(lines, "{name} {hex}");
    }
    expect_file!["golden.txt"].assert_eq(&lines);
}

#[test]
fn truncated_extended_or_damaged_frames_are_rejected() {
    let check = |bytes: &[u8]| match bytes[4] {
        100 => decode::<Hello>(bytes).map(|_| ()),
        101 => decode::<Greeting>(bytes).map(|_| ()),
        102 => decode::<AppendFrame>(bytes).map(|_| ()),
        103 => decode::<AppendAnswer>(bytes).map(|_| ()),
        104 => decode::<CallFrame>(bytes).map(|_| ()),
        105 => decode::<ReplyFrame>(bytes).map(|_| ()),
        106 => decode::<SnapshotFrame>(bytes).map(|_| ()),
        107 => decode::<SnapshotAnswer>(bytes).map(|_| ()),
        other => panic!("kind {other}"),
    };
    for (name, bytes) in frames() {
        assert_eq!(check(&bytes), Ok(()), "{name}");
        for end in 5..bytes.len() {
            assert!(check(&bytes[..end]).is_err(), "{name} cut at {end}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(check(&longer), Err(CodecError::Trailing(1)), "{name}");
        for at in (0..bytes.len()).filter(|at| !(4..6).contains(at)) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(check(&damaged).is_err(), "{name} damaged at {at}");
        }
    }
}

/// One of each frame, and of each variant in it.
fn frames() -> Vec<(String, Vec<u8>)> {
    fn of<T: Kind + Debug + PartialEq>(value: T) -> (String, Vec<u8>) {
        let bytes = encode(&value).unwrap();
        assert_eq!(decode::<T>(&bytes).unwrap(), value, "read as it was written");
        let debug = format!("{value:?}");
        let words: Vec<&str> = debug.split([' ', '(', '{', ')', ',']).filter(|word| !word.is_empty()).collect();
        let is_name = |word: &&&str| word.chars().next().is_some_and(char::is_uppercase);
        let name: Vec<&str> = words.iter().filter(is_name).take(3).copied().collect();
        (name.join("."), bytes)
    }
    let vote = VoteRecord { term: 7, node: 3, committed: true };
    let at = |index| LogIdRecord { term: 7, node: 3, index };
    let blob = |text: &str| Blob(Arc::from(text.as_bytes()));
    let member = Member { peer_address: "b:1".to_owned(), api_address: "b:2".to_owned(), instance: 300 };
    let members = MembershipRecord {
        voters: vec![BTreeSet::from([1, 2])],
        members: BTreeMap::from([(1, Member::default()), (2, member.clone())]),
    };
    let why = || "because".to_owned();
    let call = |question| of(CallFrame { sequence: 258, question });
    let answered = |reply| of(ReplyFrame { sequence: 258, reply });
    let asked = |question| call(Question::Node(question));
    let told = |reply| answered(Reply::Node(reply));
    let append = |result| of(AppendAnswer { stream: 5, result });
    let ballot = VoteQuestion { vote, last: Some(at(9)), leadership_transfer: true };

    let mut frames = Vec::new();
    for purpose in Purpose::ALL {
        let (_, bytes) = of(Hello {
            protocol: PROTOCOL,
            group: Group(0),
            cluster: Some(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
            node: 1,
            instance: 0x1122_3344_5566_7788,
            rules_version: 1,
            expects: Some(2),
            purpose,
        });
        frames.push((format!("Hello.{purpose}"), bytes));
    }
    frames.extend([
        of(Greeting::Welcome(Welcome { cluster: 1 << 100, node: 2, instance: 300, rules_version: 1 })),
        of(Greeting::Refused { why: why() }),
        of(AppendFrame { stream: 5, vote, prev: None, entries: vec![], commit: Some(at(4)) }),
        of(AppendFrame {
            stream: 5,
            vote,
            prev: Some(at(8)),
            entries: vec![
                EntryRecord { id: at(9), payload: PayloadRecord::Blank },
                EntryRecord { id: at(10), payload: PayloadRecord::Lease(blob("entry")) },
                EntryRecord { id: at(11), payload: PayloadRecord::Membership(members.clone()) },
            ],
            commit: Some(at(4)),
        }),
        append(AppendResult::Appended { up_to: Some(at(9)) }),
        append(AppendResult::Conflict { at: at(9) }),
        append(AppendResult::HigherVote { vote }),
        append(AppendResult::Failed { why: why() }),
        call(Question::Vote(ballot.clone())),
        call(Question::PreVote(ballot)),
        call(Question::TransferLeader { from: vote, to: 2, last: Some(at(9)) }),
        asked(NodeQuestion::Forward { requests: blob("requests") }),
        asked(NodeQuestion::ReadIndex),
        asked(NodeQuestion::HashMarks),
        asked(NodeQuestion::Join { node: 2, member: member.clone(), is_new: true }),
        asked(NodeQuestion::Status),
        asked(NodeQuestion::Report),
        asked(NodeQuestion::JoinBy(JoinRequest {
            node: 2,
            member: member.clone(),
            is_new: true,
            wants_vote: true,
            rules_version: 1,
            cluster: Some(5),
            secret: Some("secret".to_owned()),
            certificate: Some(blob("certificate")),
            is_admitted: true,
        })),
        asked(NodeQuestion::Members),
        told(NodeReply::Members(StoredMembershipRecord { log_id: Some(at(9)), membership: members.clone() })),
        answered(Reply::Vote(VoteReply { vote, granted: true, last: Some(at(9)) })),
        answered(Reply::TransferLeader(TransferReply::Accepted)),
        answered(Reply::TransferLeader(TransferReply::VoteChanged { expected: vote, actual: vote })),
        answered(Reply::TransferLeader(TransferReply::LogNotFlushed { expected: Some(at(9)), actual: None })),
        answered(Reply::Failed { why: why() }),
        answered(Reply::Refused { why: why() }),
        told(NodeReply::Forwarded { outcomes: blob("outcomes") }),
        told(NodeReply::NotLeader { leader: Some(3) }),
        told(NodeReply::Unknown { why: why() }),
        told(NodeReply::Refused { why: why() }),
        told(NodeReply::ReadIndexAt { index: 9 }),
        told(NodeReply::HashMarks(vec![HashMark { index: 1024, hash: lease::StateHash(77) }])),
        told(NodeReply::Joined { cluster: 5, salt: lease::Salt([1, 2]), members: members.clone() }),
    ]);
    for role in [Role::Learner, Role::Follower, Role::Candidate, Role::Leader, Role::Stopped] {
        let members = members.clone();
        let status = StatusReply { role, term: 7, leader: Some(3), applied: Some(at(9)), rules_version: 1, members };
        let (_, bytes) = told(NodeReply::Status(status));
        frames.push((format!("ReplyFrame.Node.Status.{role:?}"), bytes));
    }
    let changes = [
        ("Add", Change::Add { node: 2, member: member.clone() }),
        ("Promote", Change::Promote { node: 2 }),
        ("Remove", Change::Remove { node: 2 }),
        ("Transfer", Change::Transfer { to: Some(2) }),
        ("RaiseRules", Change::RaiseRules { request: blob("request") }),
    ];
    for (name, change) in changes {
        let (_, bytes) = asked(NodeQuestion::Change(change));
        frames.push((format!("CallFrame.Node.Change.{name}"), bytes));
    }
    frames.extend([
        told(NodeReply::Changed { leader: 3 }),
        told(NodeReply::Report(ReportReply {
            role: Role::Follower,
            term: 7,
            last: Some(10),
            applied: Some(9),
            marks: vec![HashMark { index: 1024, hash: lease::StateHash(77) }],
            version: "0.1.0".to_owned(),
            known_rules: 1,
            is_draining: true,
            failure: Some(why()),
        })),
        asked(NodeQuestion::Disk),
        told(NodeReply::Disk(DiskReply { free: 1 << 30, floor: 1 << 20, is_low: true })),
        told(NodeReply::LowOnDisk { why: why() }),
    ]);
    let meta = SnapshotMetaRecord {
        last: Some(at(9)),
        membership: StoredMembershipRecord { log_id: Some(at(1)), membership: members },
    };
    frames.extend([
        of(SnapshotFrame::Begin { vote, meta, files: vec![SnapshotFile { name: "CURRENT".to_owned(), bytes: 16 }] }),
        of(SnapshotFrame::Chunk { file: 1, offset: 1 << 20, bytes: blob("chunk") }),
        of(SnapshotFrame::FileEnd { file: 1, crc32c: 0xDEAD_BEEF }),
        of(SnapshotFrame::End),
        of(SnapshotAnswer::Offsets { offsets: vec![0, 1 << 20] }),
        of(SnapshotAnswer::Written),
        of(SnapshotAnswer::Sealed),
        of(SnapshotAnswer::Again),
        of(SnapshotAnswer::Installed { vote }),
        of(SnapshotAnswer::Failed { why: why() }),
    ]);
    frames
}
