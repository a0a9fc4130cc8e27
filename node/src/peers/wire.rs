//! The frames between nodes.
//!
//! Every type here is encoded by position, in an envelope with its own number: fields and variants keep their order for
//! ever, a new variant comes last, and a changed frame gets a new number. No type of openraft is used here: its types
//! may change with each version, these bytes may not.

use crate::replica::role::Role;
use raft_store::codec::PAYLOAD_BYTES_MAX;
use raft_store::codec::records::{
    Blob, EntryRecord, HashMark, LogIdRecord, MembershipRecord, SnapshotMetaRecord, StoredMembershipRecord, VoteRecord,
};
use raft_store::types::{Group, Member, NodeId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of the frames and their order on a connection. Nodes with different versions refuse each other.
pub const PROTOCOL: u32 = 1;

/// Maximum size of one chunk of a snapshot's file.
pub const CHUNK_BYTES_MAX: usize = 1024 * 1024;

/// Maximum size of the hello and its answer.
pub const GREETING_BYTES_MAX: usize = 4 * 1024;

/// What a connection is for: stated in its hello, and never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Purpose {
    /// [`AppendFrame`]s and their [`AppendAnswer`]s: entries of the log.
    Raft,
    /// The same frames, without entries.
    Heartbeat,
    /// [`SnapshotFrame`]s and their [`SnapshotAnswer`]s.
    Snapshot,
    /// [`CallFrame`]s and their [`ReplyFrame`]s, many at a time and in any order.
    Calls,
}

impl Purpose {
    pub const ALL: [Self; 4] = [Self::Raft, Self::Heartbeat, Self::Snapshot, Self::Calls];

    /// The maximum size of a frame on this connection, in both directions.
    #[must_use]
    pub const fn frame_bytes_max(self) -> usize {
        match self {
            Self::Raft => PAYLOAD_BYTES_MAX,
            Self::Heartbeat => 64 * 1024,
            // Enough for a chunk and for the list of a snapshot's files.
            Self::Snapshot => 4 * CHUNK_BYTES_MAX,
            Self::Calls => 16 * 1024 * 1024,
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raft => "raft",
            Self::Heartbeat => "heartbeat",
            Self::Snapshot => "snapshot",
            Self::Calls => "calls",
        })
    }
}

/// The first frame of a connection, from the side that opened it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub protocol: u32,
    pub group: Group,
    /// None: the node wants to join, and may only ask that.
    pub cluster: Option<u128>,
    pub node: NodeId,
    pub instance: u64,
    pub rules_version: u32,
    /// The expected node. None: any node at this address.
    pub expects: Option<NodeId>,
    pub purpose: Purpose,
}

/// The first frame in return. After a refusal the connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Greeting {
    Welcome(Welcome),
    Refused { why: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub cluster: u128,
    pub node: NodeId,
    pub instance: u64,
    pub rules_version: u32,
}

/// Entries to append, or none: a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppendFrame {
    /// The number of the stream on this connection. A stream ends with its first answer that is not `Appended`: later
    /// frames of it get no answer.
    pub stream: u64,
    pub vote: VoteRecord,
    /// The entry right before these.
    pub prev: Option<LogIdRecord>,
    pub entries: Vec<EntryRecord>,
    /// The last entry that the leader knows to be committed.
    pub commit: Option<LogIdRecord>,
}

/// The answers to [`AppendFrame`]s, one for each, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppendAnswer {
    pub stream: u64,
    pub result: AppendResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AppendResult {
    /// The log is durable up to here.
    Appended {
        up_to: Option<LogIdRecord>,
    },
    /// The entry that should precede the new ones does not exist here.
    Conflict {
        at: LogIdRecord,
    },
    HigherVote {
        vote: VoteRecord,
    },
    /// This node's Raft has stopped.
    Failed {
        why: String,
    },
}

/// A question with the number that its reply will have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFrame {
    pub sequence: u64,
    pub question: Question,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyFrame {
    pub sequence: u64,
    pub reply: Reply,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    Vote(VoteQuestion),
    /// Asks how the node would vote; changes nothing.
    PreVote(VoteQuestion),
    TransferLeader {
        from: VoteRecord,
        to: NodeId,
        last: Option<LogIdRecord>,
    },
    Node(NodeQuestion),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The answer to a vote and a pre-vote.
    Vote(VoteReply),
    TransferLeader(TransferReply),
    Node(NodeReply),
    /// This node's Raft has stopped.
    Failed {
        why: String,
    },
    /// Not done: this peer may not ask this question.
    Refused {
        why: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoteQuestion {
    pub vote: VoteRecord,
    pub last: Option<LogIdRecord>,
    /// The leader itself asked for this election.
    pub leadership_transfer: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoteReply {
    pub vote: VoteRecord,
    pub granted: bool,
    pub last: Option<LogIdRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferReply {
    Accepted,
    VoteChanged { expected: VoteRecord, actual: VoteRecord },
    LogNotFlushed { expected: Option<LogIdRecord>, actual: Option<LogIdRecord> },
}

/// Questions between nodes besides Raft's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeQuestion {
    /// Commands that reached a follower, for the leader to propose: an encoded `Vec<lease::Request>`.
    Forward {
        requests: Blob,
    },
    /// Asks for the index that a node must apply before it may answer a read.
    ReadIndex,
    /// Asks for the state hashes that nodes compare.
    HashMarks,
    /// Asks to become a member or to get a vote, or reports a new address. `is_new`: its directory was never used; a
    /// node with a used directory that is not a member has been removed.
    Join {
        node: NodeId,
        member: Member,
        is_new: bool,
    },
    Status,
    /// A change of the cluster that a follower passes on to the leader.
    Change(Change),
    /// Asks for a member's report for the cluster's status: more than `Status` contains.
    Report,
    /// Asks to become a member or to get a vote, or reports a new address, with credentials. Replaces `Join`.
    JoinBy(JoinRequest),
    /// Asks for the members, and the log id of the entry that set them.
    Members,
    /// Asks for the free space of the node's file system.
    Disk,
}

/// A join request: the node's own fields, and those that the node adds that passes it on to the leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    pub node: NodeId,
    pub member: Member,
    /// Its directory was never used; a node with a used directory that is not a member has been removed.
    pub is_new: bool,
    /// It is not to stay a learner.
    pub wants_vote: bool,
    pub rules_version: u32,
    /// The cluster to which its directory belongs.
    pub cluster: Option<u128>,
    pub secret: Option<String>,
    /// The certificate that it presented to the node that passes this on. Trusted only from a member, like the next
    /// field.
    pub certificate: Option<Blob>,
    /// That node's configuration admits it.
    pub is_admitted: bool,
}

/// Changes of the cluster by an operator. Each may be repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    Add {
        node: NodeId,
        member: Member,
    },
    Promote {
        node: NodeId,
    },
    Remove {
        node: NodeId,
    },
    /// None: the most up-to-date voter.
    Transfer {
        to: Option<NodeId>,
    },
    /// An encoded `lease::Request` that raises the rules version, to be proposed if every member knows the rules.
    RaiseRules {
        request: Blob,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeReply {
    /// An encoded `Vec<lease::Outcome>`, one for each request.
    Forwarded {
        outcomes: Blob,
    },
    /// Nothing was proposed.
    NotLeader {
        leader: Option<NodeId>,
    },
    /// It is unknown whether it happened.
    Unknown {
        why: String,
    },
    /// It has not happened.
    Refused {
        why: String,
    },
    ReadIndexAt {
        index: u64,
    },
    HashMarks(Vec<HashMark>),
    Joined {
        cluster: u128,
        salt: lease::Salt,
        members: MembershipRecord,
    },
    Status(StatusReply),
    /// The change is made, or was made before; `leader` leads now.
    Changed {
        leader: NodeId,
    },
    Report(ReportReply),
    Members(StoredMembershipRecord),
    Disk(DiskReply),
    /// It has not happened: disk space is low, and not all commands keep or end a lease.
    LowOnDisk {
        why: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskReply {
    /// Free bytes.
    pub free: u64,
    /// The node is low with fewer free bytes than this.
    pub floor: u64,
    pub is_low: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportReply {
    pub role: Role,
    pub term: u64,
    /// The last index of its log.
    pub last: Option<u64>,
    pub applied: Option<u64>,
    /// The newest state hashes that nodes compare, oldest first.
    pub marks: Vec<HashMark>,
    /// The version of its software.
    pub version: String,
    /// The highest rules version that its build knows.
    pub known_rules: u32,
    pub is_draining: bool,
    /// Why it must stop, if it must.
    pub failure: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusReply {
    pub role: Role,
    pub term: u64,
    pub leader: Option<NodeId>,
    pub applied: Option<LogIdRecord>,
    pub rules_version: u32,
    pub members: MembershipRecord,
}

/// The frames of a snapshot transfer: one `Begin`; for each file its chunks and `FileEnd`; one `End`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SnapshotFrame {
    Begin {
        vote: VoteRecord,
        meta: SnapshotMetaRecord,
        files: Vec<SnapshotFile>,
    },
    Chunk {
        file: u32,
        offset: u64,
        bytes: Blob,
    },
    /// All of this file was sent; the checksum is of its whole content.
    FileEnd {
        file: u32,
        crc32c: u32,
    },
    /// Every file was sealed.
    End,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotFile {
    /// `[A-Za-z0-9._-]+`, and not only dots.
    pub name: String,
    pub bytes: u64,
}

/// The answers to [`SnapshotFrame`]s, one for each, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SnapshotAnswer {
    /// Answers `Begin`: how many bytes of each file the receiver has from an earlier attempt.
    Offsets { offsets: Vec<u64> },
    /// Answers `Chunk`.
    Written,
    /// Answers `FileEnd`: the file is complete.
    Sealed,
    /// Answers `FileEnd`: the content differs and was discarded; send the file again from its first byte.
    Again,
    /// Answers `End`, or `Begin` if its leader is known to be outdated: the receiver's vote.
    Installed { vote: VoteRecord },
    /// Answers any frame: this transfer has failed.
    Failed { why: String },
}

// On disk 1 to 99, between nodes from 100 on. Never reuse a number.
raft_store::kinds! {
    Hello = 100,
    Greeting = 101,
    AppendFrame = 102,
    AppendAnswer = 103,
    CallFrame = 104,
    ReplyFrame = 105,
    SnapshotFrame = 106,
    SnapshotAnswer = 107,
}
