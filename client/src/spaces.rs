//! The caller's space: its counts and its policy.

use crate::Client;
use crate::call::Call;
use crate::path::Path;
use api::space::{Space, SpacePolicy, SpacePolicySet};
use hyper::Method;

impl Client {
    pub fn space(&self) -> Call<Space> {
        Call::get(self, Path::new("/v1/space"))
    }

    /// Sets the whole policy. For operators of every queue.
    pub fn set_space_policy(&self, policy: &SpacePolicy) -> Call<SpacePolicySet> {
        Call::command(self, Method::PUT, Path::new("/v1/space/policy"), policy)
    }
}
