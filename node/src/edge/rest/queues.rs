//! Queues: their counts, their policy, and whether they grant.

use crate::edge::answer::{Failure, Reply, Viewed};
use crate::edge::call::Call;
use crate::edge::extract::{Body, Nothing, Query, QueuePath};
use crate::edge::rest::items::{limit, no_cursor};
use api::query::{ConsistencyQuery, PageQuery};
use api::queue::{FlowSet, PolicyChange, PolicySet, Queue, QueuePage};
use lease::names::QueueName;
use lease::{Command, Refusal};
use std::ops::ControlFlow;

/// List queues
///
/// In order of name.
#[utoipa::path(get, path = "/v1/queues", operation_id = "list_queues", tag = "queues",
    params(PageQuery), responses((status = 200, body = QueuePage, description = "A page of queues")))]
pub async fn list(call: Call, Query(query): Query<PageQuery>) -> Result<Viewed<QueuePage>, Failure> {
    let limit = limit(query.limit)?;
    let after = query.cursor.map(|cursor| QueueName::new(&cursor).map_err(|_| no_cursor())).transpose()?;
    let (caller, space) = (call.caller.clone(), call.head.space.clone());
    call.survey(query.consistency, 1, move |state, _, calendar| {
        let mut stats = state.queues_after(&caller, &space, after.as_ref(), limit + 1);
        let is_more = stats.len() > limit;
        stats.truncate(limit);
        let next_cursor = stats.last().filter(|_| is_more).map(|last| last.queue.to_string());
        let queues = stats.into_iter().map(|stats| Queue::new(stats, calendar)).collect();
        Ok(ControlFlow::Break(QueuePage { queues, next_cursor }))
    })
    .await
}

/// Show a queue
#[utoipa::path(get, path = "/v1/queues/{queue}", operation_id = "show_queue", tag = "queues",
    params(("queue" = api::names::QueueName, Path), ConsistencyQuery),
    responses((status = 200, body = Queue, description = "The queue")))]
pub async fn show(
    call: Call,
    QueuePath(name): QueuePath,
    Query(query): Query<ConsistencyQuery>,
) -> Result<Viewed<Queue>, Failure> {
    call.view(query.consistency, |state, _, calendar| {
        let stats = state.queue_named(&call.caller, &call.head.space, &name);
        Ok(Queue::new(stats.ok_or(Refusal::NotFound)?, calendar))
    })
    .await
}

/// Change a queue's policy
///
/// For operators. Fields that are left out keep their values. With `version` the change succeeds only if the policy
/// still has that version.
#[utoipa::path(patch, path = "/v1/queues/{queue}/policy", operation_id = "set_policy", tag = "operating",
    params(("queue" = api::names::QueueName, Path)), request_body = PolicyChange,
    responses((status = 200, body = PolicySet, description = "The new version of the policy")))]
pub async fn set_policy(call: Call, QueuePath(queue): QueuePath, Body(change): Body<PolicyChange>) -> Reply<PolicySet> {
    call.reply(change.into_command(queue)).await
}

/// Pause a queue
///
/// The queue grants nothing. Holders keep their leases, and waiting callers keep their places.
#[utoipa::path(post, path = "/v1/queues/{queue}/pause", operation_id = "pause", tag = "operating",
    params(("queue" = api::names::QueueName, Path)),
    responses((status = 200, body = FlowSet, description = "The queue is paused")))]
pub async fn pause(call: Call, QueuePath(queue): QueuePath, _: Body<Nothing>) -> Reply<FlowSet> {
    call.reply(Command::Pause { queue }).await
}

/// Unpause a queue
///
/// The queue grants again. Also ends a drain.
#[utoipa::path(post, path = "/v1/queues/{queue}/unpause", operation_id = "unpause", tag = "operating",
    params(("queue" = api::names::QueueName, Path)),
    responses((status = 200, body = FlowSet, description = "The queue grants")))]
pub async fn unpause(call: Call, QueuePath(queue): QueuePath, _: Body<Nothing>) -> Reply<FlowSet> {
    call.reply(Command::Unpause { queue }).await
}

/// Drain a queue
///
/// The queue grants nothing and rejects waiting callers. It stays closed, also after its last lease has ended, until it
/// is unpaused.
#[utoipa::path(post, path = "/v1/queues/{queue}/drain", operation_id = "drain_queue", tag = "operating",
    params(("queue" = api::names::QueueName, Path)),
    responses((status = 200, body = FlowSet, description = "The queue is draining")))]
pub async fn drain(call: Call, QueuePath(queue): QueuePath, _: Body<Nothing>) -> Reply<FlowSet> {
    call.reply(Command::Drain { queue }).await
}
