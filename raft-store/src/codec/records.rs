//! Our own record types for what Raft stores and sends, and their conversions from and to Raft's types.

use super::CodecError;
use crate::types::{LeaderId, LogEntry, LogId, Member, Membership, NodeId, Payload, Proposal, SnapshotMeta};
use crate::types::{StoredMembership, Vote};
use lease::StateHash;
use lease::numbers::{EventNumber, Token, Wall};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Bytes that serialise as one piece, not one by one.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob(pub Arc<[u8]>);

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Blob;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Blob, E> {
                Ok(Blob(bytes.into()))
            }

            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Blob, E> {
                Ok(Blob(bytes.into()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// The position of an entry in the log, and the term and leader that put it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogIdRecord {
    pub term: u64,
    pub node: NodeId,
    pub index: u64,
}

impl From<LogId> for LogIdRecord {
    fn from(id: LogId) -> Self {
        Self { term: id.leader_id.term, node: id.leader_id.node_id, index: id.index }
    }
}

impl From<LogIdRecord> for LogId {
    fn from(id: LogIdRecord) -> Self {
        Self { leader_id: LeaderId { term: id.term, node_id: id.node }, index: id.index }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoteRecord {
    pub term: u64,
    pub node: NodeId,
    pub committed: bool,
}

impl From<Vote> for VoteRecord {
    fn from(vote: Vote) -> Self {
        Self { term: vote.leader_id.term, node: vote.leader_id.node_id, committed: vote.committed }
    }
}

impl From<VoteRecord> for Vote {
    fn from(vote: VoteRecord) -> Self {
        Self { leader_id: LeaderId { term: vote.term, node_id: vote.node }, committed: vote.committed }
    }
}

/// More than one set of voters: a membership change is in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembershipRecord {
    pub voters: Vec<BTreeSet<NodeId>>,
    pub members: BTreeMap<NodeId, Member>,
}

impl From<&Membership> for MembershipRecord {
    fn from(membership: &Membership) -> Self {
        Self {
            voters: membership.get_joint_config().clone(),
            members: membership.nodes().map(|(id, member)| (*id, member.clone())).collect(),
        }
    }
}

impl TryFrom<MembershipRecord> for Membership {
    type Error = CodecError;

    fn try_from(record: MembershipRecord) -> Result<Self, CodecError> {
        if record.voters.is_empty() && record.members.is_empty() {
            return Ok(Self::default());
        }
        Self::new(record.voters, record.members).map_err(|error| CodecError::Malformed(error.to_string()))
    }
}

/// A membership, with the log id of the entry that set it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredMembershipRecord {
    pub log_id: Option<LogIdRecord>,
    pub membership: MembershipRecord,
}

impl From<&StoredMembership> for StoredMembershipRecord {
    fn from(stored: &StoredMembership) -> Self {
        Self { log_id: stored.log_id().map(Into::into), membership: stored.membership().into() }
    }
}

impl TryFrom<StoredMembershipRecord> for StoredMembership {
    type Error = CodecError;

    fn try_from(record: StoredMembershipRecord) -> Result<Self, CodecError> {
        Ok(Self::new(record.log_id.map(Into::into), record.membership.try_into()?))
    }
}

/// One entry of the log, on disk and between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryRecord {
    pub id: LogIdRecord,
    pub payload: PayloadRecord,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PayloadRecord {
    /// The first entry of a new leader.
    Blank,
    Lease(Blob),
    Membership(MembershipRecord),
}

impl From<&LogEntry> for EntryRecord {
    fn from(entry: &LogEntry) -> Self {
        let payload = match &entry.payload {
            Payload::Blank => PayloadRecord::Blank,
            Payload::Normal(proposal) => PayloadRecord::Lease(Blob(proposal.as_bytes().clone())),
            Payload::Membership(membership) => PayloadRecord::Membership(membership.into()),
        };
        Self { id: entry.log_id.into(), payload }
    }
}

impl TryFrom<EntryRecord> for LogEntry {
    type Error = CodecError;

    fn try_from(record: EntryRecord) -> Result<Self, CodecError> {
        let payload = match record.payload {
            PayloadRecord::Blank => Payload::Blank,
            PayloadRecord::Lease(blob) => Payload::Normal(Proposal::from_bytes(blob.0)),
            PayloadRecord::Membership(membership) => Payload::Membership(membership.try_into()?),
        };
        Ok(Self { log_id: record.id.into(), payload })
    }
}

/// How far the log is applied to a state, written together with the changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedRecord {
    pub last: Option<LogIdRecord>,
    pub membership: StoredMembershipRecord,
    pub hash: StateHash,
    /// The state hash at indexes that nodes compare, oldest first: all of the last ones, and fewer of the older ones.
    pub marks: Vec<HashMark>,
}

impl AppliedRecord {
    /// The content of a snapshot of this state.
    #[must_use]
    pub fn snapshot_meta(&self) -> SnapshotMetaRecord {
        SnapshotMetaRecord { last: self.last, membership: self.membership.clone() }
    }
}

/// The state hash right after the entry of this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashMark {
    pub index: u64,
    pub hash: StateHash,
}

/// The content of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotMetaRecord {
    pub last: Option<LogIdRecord>,
    pub membership: StoredMembershipRecord,
}

impl From<&SnapshotMeta> for SnapshotMetaRecord {
    fn from(meta: &SnapshotMeta) -> Self {
        Self { last: meta.last_log_id.map(Into::into), membership: (&meta.last_membership).into() }
    }
}

impl TryFrom<SnapshotMetaRecord> for SnapshotMeta {
    type Error = CodecError;

    fn try_from(record: SnapshotMetaRecord) -> Result<Self, CodecError> {
        Ok(Self { last_log_id: record.last.map(Into::into), last_membership: record.membership.try_into()? })
    }
}

/// The owner of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityRecord {
    pub cluster: u128,
    pub salt: lease::Salt,
    pub node: NodeId,
    pub instance: u64,
}

/// The content of a backup; the first record of its stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupHeaderRecord {
    /// The format of the records after this one.
    pub format: u16,
    /// The cluster and the node that the backup was taken from.
    pub cluster: u128,
    pub node: NodeId,
    /// Request keys depend on the salt, so a cluster made from the backup keeps it.
    pub salt: lease::Salt,
    pub snapshot: SnapshotMetaRecord,
    pub hash: StateHash,
    pub rules_version: u32,
    /// When the backup was taken, by that node's wall clock.
    pub wall: Wall,
    /// Names and lengths, in the order of their bytes in the stream.
    pub files: Vec<(String, u64)>,
}

/// A piece of one of a backup's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupChunkRecord {
    /// The file's index in the header's list.
    pub file: u32,
    pub offset: u64,
    pub bytes: Blob,
}

/// The end of a backup. A backup without it was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupTrailerRecord {
    /// The checksum of everything before it.
    pub bytes: u64,
    pub crc: u32,
}

/// This state was restored from a backup, and its epoch has not begun yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredRecord {
    pub token_floor: Option<Token>,
    /// An operator has checked that the wall clock is right, even if it is not later than the backup's newest time.
    pub accept_clock: bool,
}

/// The same record as written by builds that could not accept a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredFloorRecord {
    pub token_floor: Option<Token>,
}

impl From<RestoredFloorRecord> for RestoredRecord {
    fn from(record: RestoredFloorRecord) -> Self {
        Self { token_floor: record.token_floor, accept_clock: false }
    }
}

/// Events of a space up to this number are deleted on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsGoneRecord {
    pub upto: EventNumber,
}

// Kinds 1 to 99 are stored on disk, kinds from 100 on are sent between nodes. Never reuse a number.
crate::kinds! {
    EntryRecord = 1,
    VoteRecord = 2,
    LogIdRecord = 3,
    AppliedRecord = 4,
    IdentityRecord = 5,
    SnapshotMetaRecord = 6,
    BackupHeaderRecord = 7,
    BackupChunkRecord = 8,
    BackupTrailerRecord = 9,
    RestoredFloorRecord = 10,
    EventsGoneRecord = 11,
    RestoredRecord = 12,
}
