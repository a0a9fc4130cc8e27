//! The cluster: its members, its leader, and what admins do to them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a cluster is, as one of its nodes sees it and as the members say themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterStatus {
    /// Its id, in hex.
    pub cluster: String,
    /// The node that says this.
    pub node: u64,
    /// As far as that node knows.
    pub leader: Option<u64>,
    pub term: u64,
    /// That the state of that node works under.
    pub rules_version: u32,
    /// Whether leases are granted: not between a restore and its activation.
    pub activated: bool,
    /// The newest entry at which the state hashes of the most members can be compared.
    pub hashes_at: Option<u64>,
    /// Whether they are the same; nothing while fewer than two can be compared.
    pub hashes_agree: Option<bool>,
    /// Every one, in the order of their ids.
    pub members: Vec<MemberStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberStatus {
    pub id: u64,
    pub peer_address: String,
    pub api_address: String,
    /// Or learns.
    pub votes: bool,
    /// What it said itself; nothing if it did not answer.
    pub report: Option<MemberReport>,
    /// Why there is no report.
    pub unreachable: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberReport {
    /// `leader`, `follower`, `candidate` or `learner`.
    pub role: String,
    pub term: u64,
    /// The last entry that its state holds.
    pub applied: Option<u64>,
    /// Entries of the leader's log that its state does not hold; nothing if the leader did not answer.
    pub lag: Option<u64>,
    /// At `hashes_at`, in hex.
    pub hash: Option<String>,
    /// Of its software.
    pub version: String,
    /// Up to which version its build knows the rules.
    pub known_rules: u32,
    pub draining: bool,
    /// Why it must stop, if it must.
    pub failure: Option<String>,
}

/// A node that is to follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMember {
    /// Never given to another directory before.
    pub node: u64,
    /// Where other nodes reach it.
    pub peer_address: String,
    /// Where callers reach it.
    #[serde(default)]
    pub api_address: String,
    /// Of its directory. 0, the default: not known yet, the node says it when it joins.
    #[serde(default)]
    pub instance: u64,
}

/// What lets a node join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJoinSecret {
    /// The only node that may join with it; any node if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u64>,
    /// For how long it counts: an hour if not given, at most 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_for_ms: Option<u64>,
}

/// A secret with which a node may join. It is not kept, and cannot be taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JoinSecret {
    /// For `--join-secret-file` of the node.
    pub secret: String,
    /// The only node that may join with it; null: any node.
    pub node: Option<u64>,
    pub expires_in_ms: u64,
}

/// It is so now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    pub node: u64,
}

/// Who is to lead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The one that is furthest, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
}

/// A snapshot that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Snapshotted {
    pub node: u64,
    /// The last entry that it holds.
    pub applied: u64,
}

/// Leases are granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Activated {
    pub activated: bool,
}

/// The rules that are to be in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RaiseRules {
    pub version: u32,
}

/// The rules that are in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RulesRaised {
    pub version: u32,
}

/// Whether a node takes commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeDraining {
    pub node: u64,
    pub draining: bool,
}

/// A new cluster that was made from a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Restored {
    pub node: u64,
    /// Its id, in hex.
    pub cluster: String,
    /// Of the cluster that the backup was taken from.
    pub from_cluster: String,
    /// The last entry that it holds.
    pub applied: u64,
}
