//! The cluster: its members, its leader, its backup. Any node serves these calls for callers with cluster rights.

use crate::admin::backup::{self, BackupError};
use crate::edge::answer::{Failure, Reply, Viewed};
use crate::edge::body::let_go;
use crate::edge::call::{Call, failed_disk};
use crate::edge::extract::{Body, NodePath, Nothing, Query};
use crate::edge::identity::ClusterRight;
use crate::peers::admission::{SECRET_FOR, SECRET_FOR_MAX};
use crate::replica::change::ChangeError;
use crate::replica::no_outcome::NoOutcome;
use api::cluster::{
    Activated, ClusterStatus, Done, JoinSecret, NewJoinSecret, NewMember, NodeDraining, RaiseRules, Restored,
    RulesRaised, Snapshotted, Transfer,
};
use api::query::RestoreQuery;
use api::{Code, Problem};
use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use lease::Command;
use lease::outcome::Outcome;
use raft_store::types::Member;
use std::time::Duration;

/// Time limit for a backup to learn which log position it must include.
const BACKUP_WITHIN: Duration = Duration::from_secs(10);

/// Show the cluster
///
/// Asks every member. A member that does not answer is shown as unreachable.
#[utoipa::path(get, path = "/v1/cluster", operation_id = "cluster_status", tag = "cluster",
    responses((status = 200, body = ClusterStatus, description = "The state of the cluster and of each member")))]
pub async fn status(call: Call) -> Result<Viewed<ClusterStatus>, Failure> {
    let call = call.as_admin()?;
    let value = call.edge.admin.status().await.map_err(failed_disk)?;
    Ok(Viewed { value, age: None, revision: None })
}

/// Add a node as a learner
///
/// The node may then join with a certificate for the host of `peer_address`. It gets its vote automatically when it has
/// caught up. Its id and address are in the membership at once; it does not count towards a majority before it has its
/// vote.
#[utoipa::path(post, path = "/v1/cluster/members", operation_id = "add_member", tag = "cluster",
    request_body = NewMember, responses((status = 200, body = Done, description = "The node is a member")))]
pub async fn add(call: Call, Body(new): Body<NewMember>) -> Reply<Done> {
    let call = call.as_admin_to(format_args!("add node {} at {}", new.node, new.peer_address))?;
    if new.node == 0 {
        return Err(Problem::invalid("node", "must be 1 or more").into());
    }
    let is_address = |address: &str| {
        address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    };
    if !is_address(&new.peer_address) {
        return Err(Problem::invalid("peer_address", "must be host:port, e.g. node-2.example:7401").into());
    }
    if !new.api_address.is_empty() && !is_address(&new.api_address) {
        return Err(Problem::invalid("api_address", "must be host:port, e.g. node-2.example:7401").into());
    }
    let member = Member { peer_address: new.peer_address, api_address: new.api_address, instance: new.instance };
    call.edge.admin.add(new.node, member).await.map_err(not_changed)?;
    Ok(Json(Done { node: new.node }))
}

/// Create a join secret
///
/// A new node reads it from `--join-secret-file`. Any node of the cluster creates and checks join secrets; they are not
/// stored and cannot be revoked. Nodes without TLS need none.
#[utoipa::path(post, path = "/v1/cluster/join-secret", operation_id = "join_secret", tag = "cluster",
    request_body = NewJoinSecret,
    responses((status = 200, body = JoinSecret, description = "The secret and when it expires")))]
pub async fn join_secret(call: Call, Body(new): Body<NewJoinSecret>) -> Reply<JoinSecret> {
    let call = call.as_admin()?;
    if new.node == Some(0) {
        return Err(Problem::invalid("node", "must be 1 or more").into());
    }
    let valid_for = new.valid_for_ms.map_or(SECRET_FOR, Duration::from_millis);
    if valid_for.is_zero() || valid_for > SECRET_FOR_MAX {
        return Err(Problem::invalid("valid_for_ms", "must be more than 0 and at most 30 days").into());
    }
    tracing::info!(node = new.node, ?valid_for, "created a join secret");
    let secret = call.edge.admin.join_secret(new.node, valid_for);
    Ok(Json(JoinSecret {
        secret,
        node: new.node,
        expires_in_ms: u64::try_from(valid_for.as_millis()).unwrap_or(u64::MAX),
    }))
}

/// Give a learner a vote
///
/// Rejected until the learner has nearly all of the log.
#[utoipa::path(post, path = "/v1/cluster/members/{node}/promote", operation_id = "promote_member", tag = "cluster",
    params(("node" = u64, Path)), responses((status = 200, body = Done, description = "The node is a voter")))]
pub async fn promote(call: Call, NodePath(node): NodePath, _: Body<Nothing>) -> Reply<Done> {
    let call = call.as_admin_to(format_args!("give node {node} a vote"))?;
    call.edge.admin.promote(node).await.map_err(not_changed)?;
    Ok(Json(Done { node }))
}

/// Remove a node from the cluster
///
/// Its id can never be used again. Removing a node that is not a member succeeds.
#[utoipa::path(delete, path = "/v1/cluster/members/{node}", operation_id = "remove_member", tag = "cluster",
    params(("node" = u64, Path)), responses((status = 200, body = Done, description = "The node is not a member")))]
pub async fn remove(call: Call, NodePath(node): NodePath, _: Body<Nothing>) -> Reply<Done> {
    let call = call.as_admin_to(format_args!("remove node {node}"))?;
    call.edge.admin.remove(node).await.map_err(not_changed)?;
    Ok(Json(Done { node }))
}

/// Transfer leadership
///
/// Returns the new leader.
#[utoipa::path(post, path = "/v1/cluster/transfer", operation_id = "transfer_leader", tag = "cluster",
    request_body = Transfer, responses((status = 200, body = Done, description = "The named node is the leader")))]
pub async fn transfer(call: Call, Body(transfer): Body<Transfer>) -> Reply<Done> {
    let call = call.as_admin_to(match transfer.to {
        Some(node) => format!("transfer leadership to node {node}"),
        None => "transfer leadership to another node".into(),
    })?;
    let node = call.edge.admin.transfer(transfer.to).await.map_err(not_changed)?;
    Ok(Json(Done { node }))
}

/// Take a snapshot of this node's state
#[utoipa::path(post, path = "/v1/cluster/snapshot", operation_id = "take_snapshot", tag = "cluster",
    responses((status = 200, body = Snapshotted, description = "The log index that the snapshot includes")))]
pub async fn snapshot(call: Call, _: Body<Nothing>) -> Reply<Snapshotted> {
    let call = call.as_admin_to("take a snapshot")?;
    let applied = call.edge.admin.snapshot().await.map_err(not_changed)?;
    Ok(Json(Snapshotted { node: call.edge.node.id(), applied }))
}

/// Take a backup of the whole store
///
/// Streams a consistent copy of everything that was acknowledged before the call, while the node continues to serve. A
/// restore creates the first node of a new cluster from it, and rejects a stream that was truncated.
#[utoipa::path(get, path = "/v1/cluster/backup", operation_id = "backup", tag = "cluster",
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>, description = "The backup")))]
pub async fn backup(call: Call) -> Result<Response, Failure> {
    call.check_cluster_right(ClusterRight::Backup)?;
    call.log_asked("take a backup");
    let stream = backup::stream(&call.edge.node, BACKUP_WITHIN).await.map_err(|error| match error {
        BackupError::NoOutcome(no_outcome) => {
            Failure::from(Problem::new(Code::Unavailable).with_detail(no_outcome.to_string()))
        }
        BackupError::Busy(why) => Problem::new(Code::ChangeRefused).with_detail(why).into(),
        BackupError::Disk(error) => failed_disk(error),
    })?;
    let index = stream.header().snapshot.last.map_or(0, |last| last.index);
    let name = format!("attachment; filename=\"tenure-{index}.backup\"");
    let mut response = axum::body::Body::from_stream(stream).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    if let Ok(name) = HeaderValue::from_str(&name) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

/// Restore a backup
///
/// Send it to a node that was started with `--await-restore` and an empty directory; it serves nothing else until then.
/// The node becomes the first of a new cluster, which grants nothing until it is activated. A node that has data
/// rejects the call, so a restore never overwrites data.
#[utoipa::path(post, path = "/v1/cluster/restore", operation_id = "restore", tag = "cluster", params(RestoreQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = Restored, description = "The backup is restored")))]
pub async fn restore(call: Call, Query(_): Query<RestoreQuery>, request: Request) -> Reply<Restored> {
    call.as_admin()?;
    let_go(&mut request.into_body()).await;
    let why = "this node has data: start a node with --await-restore and an empty directory, and send the backup there";
    Err(Problem::new(Code::ChangeRefused).with_detail(why).into())
}

/// Activate a restored cluster
///
/// The cluster then grants again. First make sure that nobody works under leases of the cluster that was backed up.
#[utoipa::path(post, path = "/v1/cluster/activate", operation_id = "activate", tag = "cluster",
    responses((status = 200, body = Activated, description = "The cluster is activated")))]
pub async fn activate(call: Call, _: Body<Nothing>) -> Reply<Activated> {
    let call = call.as_admin_to("activate the cluster")?;
    call.reply(Command::Activate).await
}

/// Raise the rules version
///
/// Rejected until the build of every member knows that version; the problem names members that do not.
#[utoipa::path(post, path = "/v1/cluster/rules", operation_id = "raise_rules", tag = "cluster",
    request_body = RaiseRules,
    responses((status = 200, body = RulesRaised, description = "The rules version in force")))]
pub async fn raise_rules(call: Call, Body(raise): Body<RaiseRules>) -> Reply<RulesRaised> {
    let call = call.as_admin_to(format_args!("raise the rules to version {}", raise.version))?;
    let raised = call.edge.admin.raise_rules(raise.version, call.caller.clone(), call.head.request_id.clone());
    match raised.await.map_err(not_changed)? {
        Outcome::Refused(refusal) => Err(call.refused(refusal)),
        outcome => call.answer(outcome).await.map(Json),
    }
}

/// Drain this node
///
/// The node hands over leadership, accepts no more commands and reports that it is not ready, until it is undrained or
/// restarted.
#[utoipa::path(post, path = "/v1/cluster/drain", operation_id = "drain_node", tag = "cluster",
    responses((status = 200, body = NodeDraining, description = "The node is draining")))]
pub async fn drain(call: Call, _: Body<Nothing>) -> Reply<NodeDraining> {
    let call = call.as_admin_to("drain this node")?;
    call.edge.admin.drain().await.map_err(not_changed)?;
    Ok(Json(NodeDraining { node: call.edge.node.id(), draining: true }))
}

/// End the draining of this node
///
/// The node accepts commands again.
#[utoipa::path(post, path = "/v1/cluster/undrain", operation_id = "undrain_node", tag = "cluster",
    responses((status = 200, body = NodeDraining, description = "The node is not draining")))]
pub async fn undrain(call: Call, _: Body<Nothing>) -> Reply<NodeDraining> {
    let call = call.as_admin_to("undrain this node")?;
    call.edge.admin.undrain();
    Ok(Json(NodeDraining { node: call.edge.node.id(), draining: false }))
}

fn not_changed(error: ChangeError) -> Failure {
    let (code, why) = match error {
        ChangeError::NotLeader(_) => {
            (Code::Unavailable, NoOutcome::Unavailable("no leader accepted the change".into()).to_string())
        }
        ChangeError::Refused(why) => (Code::ChangeRefused, why),
        ChangeError::Unknown(why) => (Code::Unknown, why),
    };
    Problem::new(code).with_detail(why).into()
}
