//! Decodes arbitrary bytes, as they may come from a disk or a peer: it must return a result, in bounded memory, and
//! never panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use raft_store::codec::records::{AppliedRecord, EntryRecord, IdentityRecord, PayloadRecord, SnapshotMetaRecord};
use raft_store::codec::records::{LogIdRecord, VoteRecord};
use raft_store::codec::{self, Kind};
use raft_store::types::{LogEntry, Payload, SnapshotMeta};

/// Wraps the fuzzer's bytes so that they pass the checksum: the code after it must handle any bytes, too.
struct Sealed<'a>(&'a [u8], u16);

impl Sealed<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"Tn\x01\x01".to_vec();
        bytes.extend_from_slice(&self.1.to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(self.0.len()).expect("a fuzzer's input is small").to_le_bytes());
        let crc = crc(&[&bytes, self.0]);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(self.0);
        bytes
    }
}

/// CRC-32C, bit by bit: implemented separately, so that a bug in the codec's checksum would show.
fn crc(parts: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for byte in parts.iter().flat_map(|part| part.iter()) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

fn read<T: Kind>(data: &[u8]) -> Option<T> {
    let _ = codec::decode::<T>(data);
    codec::decode(&Sealed(data, T::KIND).bytes()).ok()
}

fuzz_target!(|data: &[u8]| {
    read::<AppliedRecord>(data);
    read::<IdentityRecord>(data);
    read::<LogIdRecord>(data);
    read::<VoteRecord>(data);
    if let Some(meta) = read::<SnapshotMetaRecord>(data) {
        let _ = SnapshotMeta::try_from(meta);
    }
    if let Some(entry) = read::<EntryRecord>(data) {
        if let PayloadRecord::Lease(blob) = &entry.payload {
            let _ = lease::encoding::decode::<lease::Entry>(&blob.0);
        }
        if let Ok(LogEntry { payload: Payload::Normal(proposal), .. }) = LogEntry::try_from(entry) {
            let _ = proposal.open();
        }
    }
    let _ = lease::encoding::decode::<lease::Entry>(data);
    let _ = lease::record::Key::decode(data);
});
