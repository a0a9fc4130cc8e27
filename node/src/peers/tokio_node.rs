//! The node that a daemon runs: a replica on tokio and RocksDB that talks to its peers over this transport.

use crate::peers::Peers;
use crate::replica::node::Node;
use raft_store::state::rocks::RocksDisk;
use raft_store::types::OnTokio;

pub type TokioNode = Node<OnTokio, RocksDisk, Peers>;
