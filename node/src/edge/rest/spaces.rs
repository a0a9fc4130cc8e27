//! The caller's space: its counts and its policy.

use crate::edge::answer::{Failure, Reply, Viewed};
use crate::edge::call::Call;
use crate::edge::extract::{Body, Query};
use api::query::ConsistencyQuery;
use api::space::{Space, SpacePolicy, SpacePolicySet};

/// Show the space
///
/// Returns the policy and the counts of the caller's space.
#[utoipa::path(get, path = "/v1/space", operation_id = "show_space", tag = "space",
    params(ConsistencyQuery), responses((status = 200, body = Space, description = "The space")))]
pub async fn show(call: Call, Query(query): Query<ConsistencyQuery>) -> Result<Viewed<Space>, Failure> {
    call.check_sees_space()?;
    call.view(query.consistency, |state, _, _| {
        let space = &call.head.space;
        Ok(state.space_named(space).map_or_else(|| Space::untouched(space.clone()), Space::from))
    })
    .await
}

/// Set the space's policy
///
/// For operators of every queue. Sets how much the space may hold and which callers it trusts.
#[utoipa::path(put, path = "/v1/space/policy", operation_id = "set_space_policy", tag = "operating",
    request_body = SpacePolicy,
    responses((status = 200, body = SpacePolicySet, description = "The new version of the policy")))]
pub async fn set_policy(call: Call, Body(policy): Body<SpacePolicy>) -> Reply<SpacePolicySet> {
    call.reply(policy.into_command()).await
}
