//! The settings of a daemon, checked and complete.

use crate::edge::settings::EdgeSettings;
use crate::peers::admission::AdmittedNodes;
use crate::peers::tls::PeerTls;
use crate::replica::node::RaftSettings;
use raft_store::log::LogOptions;
use raft_store::types::NodeId;
use std::path::PathBuf;
use std::time::Duration;

/// The settings of a daemon. [`super::config`] reads them from flags, environment and file.
#[derive(Clone, Debug)]
pub struct Settings {
    pub node: NodeId,
    pub directory: PathBuf,
    pub peer_listen: String,
    /// The address that other nodes use; the listening address when empty.
    pub peer_address: String,
    /// The address that callers use; the listening address when empty.
    pub api_address: String,
    /// None: the node serves no callers.
    pub edge: Option<EdgeSettings>,
    pub start: Start,
    /// The node does not ask for a vote: only an operator gives it one.
    pub learner: bool,
    /// Sent to the cluster when this node joins or has moved.
    pub join_secret: Option<String>,
    /// Nodes that may join without a join secret.
    pub admitted: AdmittedNodes,
    /// Past events are kept at least this long.
    pub events_kept_for: Duration,
    /// Free bytes below which new work is rejected. None: depends on the size of the file system.
    pub disk_free_min: Option<u64>,
    pub tls: Option<PeerTls>,
    pub raft: RaftSettings,
    pub log: LogOptions,
    /// Open connections from other nodes.
    pub peer_connections_max: usize,
    /// The highest rules version that this build knows. Only tests change it.
    pub known_rules: u32,
}

/// How a node with an empty directory starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// As the first node of a new cluster.
    Bootstrap,
    /// As the first node of a new cluster that is restored from a backup, which a caller sends.
    Restore,
    /// It joins the cluster of the first of these addresses that answers.
    Join(Vec<String>),
    /// It does not start: a used directory is required.
    Again,
}
