//! Records on disk stay readable forever, and damaged bytes are never accepted.

use expect_test::{Expect, expect};
use lease::numbers::{Epoch, EventNumber, Token, Wall};
use lease::{Salt, StateHash};
use raft_store::codec::records::*;
use raft_store::codec::{self, CodecError, HEADER_BYTES, Header, Kind, PAYLOAD_BYTES_MAX};
use raft_store::types::{LogEntry, Member, Membership, SnapshotMeta, StoredMembership};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use test_support::fleet::Dice;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The value is encoded as exactly these bytes, and decoded from them as the same value.
fn stays<T: Kind + Debug + PartialEq>(value: &T, bytes: Expect) {
    let written = codec::encode(value).unwrap();
    bytes.assert_eq(&hex(&written));
    assert_eq!(codec::decode::<T>(&written).as_ref(), Ok(value));
}

fn log_id() -> LogIdRecord {
    LogIdRecord { term: 3, node: 2, index: 300 }
}

fn membership() -> MembershipRecord {
    let member = Member { peer_address: "a:1".into(), api_address: "a:2".into(), instance: 7 };
    MembershipRecord {
        voters: vec![BTreeSet::from([1]), BTreeSet::from([1, 2])],
        members: BTreeMap::from([(1, member.clone()), (2, Member { instance: 8, ..member })]),
    }
}

fn stored() -> StoredMembershipRecord {
    StoredMembershipRecord { log_id: Some(log_id()), membership: membership() }
}

fn applied() -> AppliedRecord {
    let hash = StateHash(0x1234);
    AppliedRecord { last: Some(log_id()), membership: stored(), hash, marks: vec![HashMark { index: 1_024, hash }] }
}

fn entry(payload: PayloadRecord) -> EntryRecord {
    EntryRecord { id: log_id(), payload }
}

#[test]
fn encodings_of_records_on_disk_do_not_change() {
    stays(&entry(PayloadRecord::Blank), expect!["546e01010100060000004bece6540302fb2c0100"]);
    stays(
        &entry(PayloadRecord::Lease(Blob(b"entry"[..].into()))),
        expect!["546e010101000c0000002c4d01170302fb2c010105656e747279"],
    );
    stays(
        &entry(PayloadRecord::Membership(membership())),
        expect!["546e010101002100000074dfad8a0302fb2c0102020101020102020103613a3103613a32070203613a3103613a3208"],
    );
    stays(&VoteRecord { term: 3, node: 2, committed: true }, expect!["546e010102000300000047835939030201"]);
    stays(&log_id(), expect!["546e01010300050000007cb976b50302fb2c01"]);
    stays(
        &applied(),
        expect![
            "546e01010400310000005c58eddf010302fb2c01010302fb2c01020101020102020103613a3103613a32070203613a3103613a3208fb341201fb0004fb3412"
        ],
    );
    stays(
        &IdentityRecord { cluster: 5, salt: Salt([6, 7]), node: 8, instance: 9 },
        expect!["546e01010500050000003873d0e30506070809"],
    );
    stays(
        &applied().snapshot_meta(),
        expect![
            "546e010106002700000025abb9b7010302fb2c01010302fb2c01020101020102020103613a3103613a32070203613a3103613a3208"
        ],
    );
}

#[test]
fn encodings_of_backup_records_do_not_change() {
    stays(
        &BackupHeaderRecord {
            format: 1,
            cluster: 5,
            node: 2,
            salt: Salt([6, 7]),
            snapshot: applied().snapshot_meta(),
            hash: applied().hash,
            rules_version: 1,
            wall: Wall(1_800_000_000_000),
            files: vec![("CURRENT".into(), 16), ("000012.sst".into(), 70_000)],
        },
        expect![
            "546e01010700530000005b2a22cf0105020607010302fb2c01010302fb2c01020101020102020103613a3103613a32070203613a3103613a3208fb341201fd00505c18a3010000020743555252454e54100a3030303031322e737374fc70110100"
        ],
    );
    stays(
        &BackupChunkRecord { file: 1, offset: 300, bytes: Blob(b"bytes"[..].into()) },
        expect!["546e010108000a000000efdb128301fb2c01056279746573"],
    );
    stays(
        &BackupTrailerRecord { bytes: 300, crc: 0x1234_5678 },
        expect!["546e010109000800000029061075fb2c01fc78563412"],
    );
    let floor = RestoredFloorRecord { token_floor: Some(Token(9)) };
    stays(&floor, expect!["546e01010a00020000001dda3fd50109"]);
    let restored = RestoredRecord { token_floor: Some(Token(9)), accept_clock: true };
    stays(&restored, expect!["546e01010c0003000000ae50e854010901"]);
    assert_eq!(RestoredRecord::from(floor), RestoredRecord { accept_clock: false, ..restored });
    stays(
        &EventsGoneRecord { upto: EventNumber { epoch: Epoch(2), seq: 300 } },
        expect!["546e01010b00040000003fcb0d6002fb2c01"],
    );
}

#[test]
fn raft_types_survive_a_round_trip_through_their_records() {
    for payload in
        [PayloadRecord::Blank, PayloadRecord::Lease(Blob(b"entry"[..].into())), PayloadRecord::Membership(membership())]
    {
        let entry = LogEntry::try_from(entry(payload.clone())).unwrap();
        assert_eq!(EntryRecord::from(&entry).payload, payload);
    }
    let back = StoredMembership::try_from(stored()).unwrap();
    assert_eq!(StoredMembershipRecord::from(&back), stored());
    let meta = SnapshotMeta::try_from(applied().snapshot_meta()).unwrap();
    assert_eq!(SnapshotMetaRecord::from(&meta), applied().snapshot_meta());
    assert_eq!(Membership::try_from(MembershipRecord::default()).unwrap(), Membership::default());
    let nobody = MembershipRecord { voters: vec![BTreeSet::from([9])], ..membership() };
    assert!(Membership::try_from(nobody).is_err(), "a voter that is no member");
}

#[test]
fn each_invalid_input_has_its_own_error() {
    let bytes = codec::encode(&log_id()).unwrap();
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        codec::decode::<LogIdRecord>(&bytes).unwrap_err()
    };
    assert_eq!(with(0, b'X'), CodecError::NotOurs);
    assert_eq!(with(2, 2), CodecError::Version(2));
    assert_eq!(with(3, 9), CodecError::Codec(9));
    assert_eq!(with(4, 1), CodecError::Kind { wanted: 3, found: 1 });
    assert_eq!(with(HEADER_BYTES, 99), CodecError::Checksum);
    assert_eq!(codec::decode::<LogIdRecord>(&bytes[..5]), Err(CodecError::Short { wanted: 14, found: 5 }));
    let long = [&bytes[..], b"x"].concat();
    assert_eq!(codec::decode::<LogIdRecord>(&long), Err(CodecError::Trailing(1)));
    let mut huge = bytes.clone();
    huge[6..10].copy_from_slice(&u32::MAX.to_le_bytes());
    let too_long = CodecError::TooLong { bytes: u32::MAX as usize, max: PAYLOAD_BYTES_MAX };
    assert_eq!(codec::decode::<LogIdRecord>(&huge), Err(too_long));
    assert!(matches!(Header::read(&bytes, 2), Err(CodecError::TooLong { max: 2, .. })));
}

/// The decoder returns a result for any bytes, and never accepts damaged ones.
#[test]
fn damaged_bytes_are_never_decoded_as_a_record() {
    let whole = [
        codec::encode(&applied()).unwrap(),
        codec::encode(&entry(PayloadRecord::Membership(membership()))).unwrap(),
        codec::encode(&entry(PayloadRecord::Lease(Blob(vec![7; 300].into())))).unwrap(),
    ];
    let mut dice = Dice(11);
    for round in 0..60_000_u64 {
        let original = &whole[usize::try_from(round % 3).unwrap()];
        let mut bytes = original.clone();
        for _ in 0..=dice.roll(3) {
            let at = usize::try_from(dice.roll(bytes.len() as u64)).unwrap();
            match dice.roll(4) {
                0 => bytes[at] ^= 1 << dice.roll(8),
                1 => bytes.truncate(at.max(1)),
                2 => bytes.insert(at, u8::try_from(dice.roll(256)).unwrap()),
                _ => bytes[at] = u8::try_from(dice.roll(256)).unwrap(),
            }
        }
        if bytes == *original {
            continue;
        }
        assert!(codec::decode::<AppliedRecord>(&bytes).is_err(), "round {round}");
        assert!(codec::decode::<EntryRecord>(&bytes).is_err(), "round {round}");
    }
}

/// A hostile sender's checksum is right: the content is still checked.
#[test]
fn a_payload_that_lies_about_its_lengths_is_refused_without_being_allocated() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Liar(Vec<u8>);
    impl Kind for Liar {
        const KIND: u16 = EntryRecord::KIND;
    }
    let mut dice = Dice(12);
    for _ in 0..20_000 {
        let payload: Vec<u8> =
            (0..dice.roll(60)).map(|_| [0, 1, 3, 251, 252, 253, 255][usize::try_from(dice.roll(7)).unwrap()]).collect();
        let bytes = codec::encode(&Liar(payload)).unwrap();
        // Any bytes: it returns, in bounded memory.
        let _ = codec::decode::<EntryRecord>(&bytes).map(LogEntry::try_from);
    }
}
