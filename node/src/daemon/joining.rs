//! How a node becomes a member of its cluster: it asks the seeds, and again until it is one.

use crate::daemon::error::DaemonError;
use crate::daemon::settings::Settings;
use crate::peers::Peers;
use crate::peers::roster::Roster;
use crate::peers::tokio_node::TokioNode;
use crate::peers::wire::{JoinRequest, NodeQuestion, NodeReply};
use crate::peers::{NodeIdentity, PeerError};
use lease::Salt;
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::codec::records::MembershipRecord;
use raft_store::types::{Group, Member};
use std::time::Duration;
use tokio::time::sleep;

/// Pause between two attempts to join.
const JOIN_AGAIN: Duration = Duration::from_millis(300);
const JOIN_ANSWER_WITHIN: Duration = Duration::from_secs(8);

/// The request of a node that belongs to no cluster yet.
pub(crate) fn join_request(own: NodeIdentity, member: &Member, secret: Option<String>) -> JoinRequest {
    JoinRequest {
        node: own.node,
        member: member.clone(),
        is_new: true,
        wants_vote: true,
        rules_version: own.rules_version,
        cluster: None,
        secret,
        // Set by the node that passes the request on.
        certificate: None,
        is_admitted: false,
    }
}

/// Asks the seeds repeatedly until one of them has this node added.
pub(crate) async fn join(
    settings: &Settings,
    member: &Member,
    seeds: &[String],
) -> Result<(u128, Salt, Option<MembershipRecord>), DaemonError> {
    let nobody = NodeIdentity {
        group: Group::default(),
        cluster: None,
        node: settings.node,
        instance: member.instance,
        rules_version: settings.known_rules,
    };
    let peers = Peers::new(nobody, settings.tls.clone());
    let asked = join_request(nobody, member, settings.join_secret.clone());
    let mut is_logged = false;
    loop {
        let mut refused = None;
        for seed in seeds {
            match peers.ask_address(seed, NodeQuestion::JoinBy(asked.clone()), JOIN_ANSWER_WITHIN).await {
                Ok(NodeReply::Joined { cluster, salt, members }) => return Ok((cluster, salt, Some(members))),
                Ok(NodeReply::Refused { why }) => return Err(DaemonError::Refused(why)),
                Ok(other) => tracing::debug!(seed, ?other, "not joined yet"),
                // This seed rejects every request of this node: asking it again does not help, but the next seed may
                // accept.
                Err(PeerError::Refused { why }) => refused = Some(why),
                Err(error) => {
                    if !is_logged {
                        tracing::warn!(seed, %error, "a seed did not answer; retrying");
                        is_logged = true;
                    }
                }
            }
        }
        if let Some(why) = refused {
            return Err(DaemonError::Refused(why));
        }
        sleep(JOIN_AGAIN).await;
    }
}

/// Runs until the cluster knows this node's address and, unless this node is to stay a learner, has given it a vote.
pub(crate) async fn become_member(node: TokioNode, roster: Roster, asked: JoinRequest, seeds: Vec<String>) {
    // A node that moved is not a member at its new address yet.
    let peers = node.calls().as_stranger();
    let (mut has_asked, mut refused) = (false, None);
    loop {
        let membership = node.membership();
        let known = membership.get_node(&node.id());
        let is_voter = membership.voter_ids().any(|voter| voter == node.id());
        if (is_voter || !asked.wants_vote) && known == Some(&asked.member) {
            if has_asked {
                let said = if is_voter { "this node has a vote" } else { "this node follows without a vote" };
                tracing::info!(node = node.id(), address = asked.member.peer_address, "{said}");
            }
            return;
        }
        // A removed node stays out, whatever options it has.
        let was_never_told = node.raft().server_metrics().borrow_watched().membership_config.log_id().is_none();
        if known.is_some() || was_never_told {
            has_asked = true;
            let mut addresses: Vec<String> = seeds.clone();
            let others = membership.nodes().filter(|(id, _)| **id != node.id());
            addresses.extend(others.map(|(_, member)| member.peer_address.clone()));
            if node.leader() == Some(node.id()) {
                let _ = node.add_learner(node.id(), asked.member.clone()).await;
            }
            if addresses.is_empty() && was_never_told && refused.is_none() {
                refused = Some(String::new());
                tracing::warn!("this node knows no other node of its cluster yet: start it with --join");
            }
            for address in addresses {
                match peers.ask_address(&address, NodeQuestion::JoinBy(asked.clone()), JOIN_ANSWER_WITHIN).await {
                    Ok(NodeReply::Joined { cluster, members, .. }) if Some(cluster) == asked.cluster => {
                        roster.joined(members);
                        break;
                    }
                    Ok(NodeReply::Refused { why }) if refused.as_ref() != Some(&why) => {
                        tracing::warn!(address, "the cluster rejected this node: {why}");
                        refused = Some(why);
                    }
                    _ => {}
                }
            }
        }
        sleep(JOIN_AGAIN).await;
    }
}
