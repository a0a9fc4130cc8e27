//! The cluster: its members, its leader, and the operations of admins.

use crate::answer::answer;
use lease::outcome::Outcome;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The status of a cluster, as one of its nodes sees it, with a report of each member about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterStatus {
    /// The cluster's id, in hex.
    pub cluster: String,
    /// The node that gave this answer.
    pub node: u64,
    /// The leader, as far as that node knows.
    pub leader: Option<u64>,
    pub term: u64,
    /// The version of the rules in force in that node's state.
    pub rules_version: u32,
    /// Whether the cluster grants leases. False between a restore and its activation.
    pub activated: bool,
    /// The log index at which the state hashes are compared: the newest one for which the most members have a hash.
    pub hashes_at: Option<u64>,
    /// Whether the hashes at that index are equal. Null if fewer than two can be compared.
    pub hashes_agree: Option<bool>,
    /// All members, in the order of their ids.
    pub members: Vec<MemberStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberStatus {
    pub id: u64,
    pub peer_address: String,
    pub api_address: String,
    /// true: a voter; false: a learner.
    pub votes: bool,
    /// What the member reports about itself. Null if it did not answer.
    pub report: Option<MemberReport>,
    /// Why the member did not answer.
    pub unreachable: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberReport {
    /// `leader`, `follower`, `candidate` or `learner`.
    pub role: String,
    pub term: u64,
    /// The log index of the last entry applied to the member's state.
    pub applied: Option<u64>,
    /// How many entries of the leader's log the member has not applied. Null if the leader did not answer.
    pub lag: Option<u64>,
    /// The state hash at `hashes_at`, in hex.
    pub hash: Option<String>,
    /// The version of the member's software.
    pub version: String,
    /// The highest version of the rules that the member's build supports.
    pub known_rules: u32,
    pub draining: bool,
    /// The failure because of which the member must stop, if there is one.
    pub failure: Option<String>,
}

/// A node to add to the cluster as a learner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMember {
    /// The node's id. It must never have been used for another data directory.
    pub node: u64,
    /// The address at which other nodes reach it.
    pub peer_address: String,
    /// The address at which callers reach it.
    #[serde(default)]
    pub api_address: String,
    /// The instance number of the node's data directory. Default: 0, not known yet; the node sends its number when it
    /// joins.
    #[serde(default)]
    pub instance: u64,
}

/// The settings of a new join secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJoinSecret {
    /// The only node that may join with the secret. Default: any node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u64>,
    /// How long the secret is valid, at most 30 days. Default: one hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_for_ms: Option<u64>,
}

/// A secret with which a node may join. The cluster does not store it, and it cannot be revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JoinSecret {
    /// The secret, for the node's `--join-secret-file`.
    pub secret: String,
    /// The only node that may join with the secret. Null: any node.
    pub node: Option<u64>,
    pub expires_in_ms: u64,
}

/// The requested change has been made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    pub node: u64,
}

/// A request to transfer leadership.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The new leader. Default: the most up-to-date voter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
}

/// A snapshot that a node has taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Snapshotted {
    pub node: u64,
    /// The log index of the last entry in the snapshot.
    pub applied: u64,
}

/// The answer to an activation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Activated {
    pub activated: bool,
}

answer! { Activated: Outcome::Activated => Self { activated: true } }

/// A request to raise the version of the rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RaiseRules {
    pub version: u32,
}

/// The version of the rules now in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RulesRaised {
    pub version: u32,
}

answer! { RulesRaised: Outcome::RulesRaised { version } => Self { version } }

/// Whether a node is draining, so that it accepts no commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeDraining {
    pub node: u64,
    pub draining: bool,
}

/// A new cluster, restored from a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Restored {
    pub node: u64,
    /// The id of the new cluster, in hex.
    pub cluster: String,
    /// The id of the cluster from which the backup was taken.
    pub from_cluster: String,
    /// The log index of the last entry in the backup.
    pub applied: u64,
}
