//! Asks a running node for its status and the cluster's, from another process.

use lease::bounds::RULES_VERSION;
use node::peers::Peers;
use node::peers::tls::PeerTls;
use node::peers::wire::{NodeQuestion, NodeReply, StatusReply};
use node::peers::{NodeIdentity, PeerError};
use node::replica::role::Role;
use raft_store::types::Group;
use std::fmt::Write as _;
use std::time::Duration;

const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Asks the node that listens for other nodes at this address.
///
/// # Errors
/// When it does not answer.
pub(crate) async fn ask(at: &str, tls: Option<PeerTls>) -> Result<StatusReply, PeerError> {
    // Node id 0, because the process that asks is not a node.
    let nobody =
        NodeIdentity { group: Group::default(), cluster: None, node: 0, instance: 0, rules_version: RULES_VERSION };
    match Peers::new(nobody, tls).ask_address(at, NodeQuestion::Status, ANSWER_WITHIN).await? {
        NodeReply::Status(status) => Ok(status),
        NodeReply::Refused { why } => Err(PeerError::Refused { why }),
        other => Err(PeerError::Refused { why: format!("unexpected answer: {other:?}") }),
    }
}

/// Formats a status as text.
pub(crate) fn describe(status: &StatusReply) -> String {
    let role = match status.role {
        Role::Learner => "learns",
        Role::Follower => "follows",
        Role::Candidate => "asks for votes",
        Role::Leader => "leads",
        Role::Stopped => "has stopped",
    };
    let applied = status.applied.map_or(0, |applied| applied.index);
    let mut text = format!("{role} in term {}, has applied entry {applied}\n", status.term);
    for (id, member) in &status.members.members {
        let votes = status.members.voters.iter().any(|voters| voters.contains(id));
        let leads = status.leader == Some(*id);
        let _ = writeln!(
            text,
            "node {id} at {}{}{}",
            member.peer_address,
            if votes { ", votes" } else { ", learns" },
            if leads { ", leads" } else { "" }
        );
    }
    text
}
