//! What stands in the frames between nodes.
//!
//! Every type here is encoded by position, in an envelope with its own number: fields and variants keep their order
//! for ever, a new variant comes last, a new shape of a frame gets a new number. Nothing of openraft's stands here:
//! its types may change with each version, these bytes may not.

use raft_store::codec::PAYLOAD_BYTES_MAX;
use raft_store::codec::records::{
    Blob, EntryRecord, HashMark, LogIdRecord, MembershipRecord, SnapshotMetaRecord, StoredMembershipRecord, VoteRecord,
};
use raft_store::types::{Group, Member, NodeId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Of the frames and their order on a connection. Nodes that speak another one refuse each other.
pub const PROTOCOL: u32 = 1;

/// One piece of a snapshot's file.
pub const CHUNK_BYTES_MAX: usize = 1024 * 1024;

/// Hello and its answer.
pub const GREETING_BYTES_MAX: usize = 4 * 1024;

/// What a connection is for: said in its hello, never changed after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Purpose {
    /// [`AppendFrame`]s and their [`AppendAnswer`]s: entries of the log.
    Raft,
    /// The same frames, without entries.
    Heartbeat,
    /// [`SnapshotFrame`]s and their [`SnapshotAnswer`]s.
    Snapshot,
    /// [`Call`]s and their [`Answered`]s, many at a time and in any order.
    Calls,
}

impl Purpose {
    pub const ALL: [Self; 4] = [Self::Raft, Self::Heartbeat, Self::Snapshot, Self::Calls];

    /// No frame of this connection is larger, either way.
    #[must_use]
    pub const fn frame_bytes_max(self) -> usize {
        match self {
            Self::Raft => PAYLOAD_BYTES_MAX,
            Self::Heartbeat => 64 * 1024,
            // A chunk, or the list of a snapshot's files.
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

/// The first frame of a connection, from the side that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub protocol: u32,
    pub group: Group,
    /// None: it wants to join, and may ask nothing but that.
    pub cluster: Option<u128>,
    pub node: NodeId,
    pub instance: u64,
    pub rules_version: u32,
    /// Whom it wants to talk to. None: whoever answers at this address.
    pub expects: Option<NodeId>,
    pub purpose: Purpose,
}

/// The first frame back. After a refusal the connection is closed.
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
    /// Counts the streams of this connection. A stream ends with its first answer that is not `Appended`: what was
    /// sent behind it gets none.
    pub stream: u64,
    pub vote: VoteRecord,
    /// The entry right before these.
    pub prev: Option<LogIdRecord>,
    pub entries: Vec<EntryRecord>,
    /// Up to where the leader knows the log to be committed.
    pub commit: Option<LogIdRecord>,
}

/// One for each [`AppendFrame`], in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppendAnswer {
    pub stream: u64,
    pub result: AppendResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AppendResult {
    /// Durable up to here.
    Appended {
        up_to: Option<LogIdRecord>,
    },
    /// There is no such entry here, which was said to be the one right before.
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

/// A question with the number that its reply will bear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub sequence: u64,
    pub question: Question,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    pub sequence: u64,
    pub reply: Reply,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    Vote(VoteQuestion),
    /// Whether it would vote so; it changes nothing.
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
    /// To a vote and a pre-vote.
    Vote(VoteReply),
    TransferLeader(TransferReply),
    Node(NodeReply),
    /// This node's Raft has stopped.
    Failed {
        why: String,
    },
    /// Not done, and not because of what was asked: who asks may not ask it.
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

/// What nodes ask each other besides Raft's own questions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeQuestion {
    /// Commands that reached a follower, for the leader to propose: an encoded `Vec<lease::Request>`.
    Forward {
        requests: Blob,
    },
    /// Up to where a node has to apply before it may answer a read.
    ReadIndex,
    /// The state hashes that nodes compare.
    HashMarks,
    /// To become a member, to get a vote, or to say that it has moved. `is_new`: its directory was never used; one that
    /// was, and is no member, has been removed.
    Join {
        node: NodeId,
        member: Member,
        is_new: bool,
    },
    Status,
    /// A change of the cluster that was asked of a follower, for the leader to make.
    Change(Change),
    /// How a member is, for the cluster's status: more than `Status` tells.
    Report,
    /// To become a member, to get a vote, or to say that it has moved, with what speaks for it. Takes the place of `Join`.
    JoinBy(JoinRequest),
    /// Who the members are, with the entry that made them so.
    Members,
    /// How much room its file system has.
    Disk,
}

/// What a node that asks to join says of itself, and what the node that passes it on to the leader adds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    pub node: NodeId,
    pub member: Member,
    /// Its directory was never used; one that was, and is no member, has been removed.
    pub is_new: bool,
    /// Not to stay a learner.
    pub wants_vote: bool,
    pub rules_version: u32,
    /// To which it belongs by its directory.
    pub cluster: Option<u128>,
    pub secret: Option<String>,
    /// Which it showed the node that passes this on. Believed of a member only, as the next one.
    pub certificate: Option<Blob>,
    /// That node's configuration admits it.
    pub is_admitted: bool,
}

/// What an operator changes about a cluster. Each may be asked for again.
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
    /// None: whoever is furthest.
    Transfer {
        to: Option<NodeId>,
    },
    /// An encoded `lease::Request` that raises the rules, to be proposed if every member can follow.
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
    /// Whether it happened is not known.
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
    /// The change is made, or was before; this node leads now.
    Changed {
        leader: NodeId,
    },
    Report(ReportReply),
    Members(StoredMembershipRecord),
    Disk(DiskReply),
    /// It has not happened: disk space is low, and not all of it keeps or ends a lease.
    LowOnDisk {
        why: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskReply {
    /// Bytes.
    pub free: u64,
    /// With fewer it is low.
    pub floor: u64,
    pub is_low: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportReply {
    pub role: Role,
    pub term: u64,
    /// How far its log goes.
    pub last: Option<u64>,
    pub applied: Option<u64>,
    /// The newest state hashes that nodes compare, oldest first.
    pub marks: Vec<HashMark>,
    /// Of its software.
    pub version: String,
    /// Up to which version its build knows the rules.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Learner,
    Follower,
    Candidate,
    Leader,
    Stopped,
}

/// A snapshot on its way: one `Begin`; for each file its chunks and `FileEnd`; one `End`.
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
    /// `[A-Za-z0-9._-]+`, and not of dots alone.
    pub name: String,
    pub bytes: u64,
}

/// One for each [`SnapshotFrame`], in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SnapshotAnswer {
    /// To `Begin`: how many bytes of each file are here from an earlier attempt.
    Offsets { offsets: Vec<u64> },
    /// To `Chunk`.
    Written,
    /// To `FileEnd`: the file is whole.
    Sealed,
    /// To `FileEnd`: its content differs and was thrown away; it is to be sent from its first byte.
    Again,
    /// To `End`, or to `Begin` when its leader is known to be an old one: the receiver's vote.
    Installed { vote: VoteRecord },
    /// To any: this transfer is over.
    Failed { why: String },
}

// On disk 1 to 99, between nodes from 100 on. Never reuse a number.
raft_store::kinds! {
    Hello = 100,
    Greeting = 101,
    AppendFrame = 102,
    AppendAnswer = 103,
    Call = 104,
    Answered = 105,
    SnapshotFrame = 106,
    SnapshotAnswer = 107,
}
