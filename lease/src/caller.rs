//! Who asks: the identity that the edge has established, and what it may do. Nothing here is taken from a
//! command's own words.

use crate::names::{ActorId, QueueName, SessionId};
use serde::{Deserialize, Serialize};
use std::ops::Deref;
use std::sync::Arc;

/// The one who sent a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    pub actor: ActorId,
    pub kind: ActorKind,
    /// Who dispatched it. Opaque.
    pub parent: Option<ActorId>,
    /// One run of the actor; "none" is a session of its own.
    pub session: Option<SessionId>,
    pub verified: Verified,
    /// What it may do in the request's space. Deny by default.
    pub rights: Vec<Right>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ActorKind {
    User,
    Agent,
    System,
}

/// How the edge came to believe the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verified {
    /// Checked just now.
    Checked,
    /// Checked with keys kept from before, because their source could not be reached.
    FromCache,
    /// The caller's word alone.
    SelfReported,
}

/// A role in the queues whose names begin with a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Right {
    pub role: Role,
    pub queues: QueuePrefix,
}

/// Empty: every queue of the space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePrefix(pub String);

/// Each role also sees the items of its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// Views.
    Reader,
    /// Claims, holds, writes.
    Worker,
    /// Creates, updates, cancels, reopens, assigns, sets instructions.
    Dispatcher,
    /// Revokes, reorders, retries, pauses, drains, sets policy.
    Operator,
    /// The cluster.
    Admin,
}

impl Caller {
    #[must_use]
    pub fn has_role(&self, role: Role, queue: &QueueName) -> bool {
        self.rights.iter().any(|right| right.role == role && queue.as_str().starts_with(&right.queues.0))
    }

    #[must_use]
    pub fn can_see(&self, queue: &QueueName) -> bool {
        self.rights.iter().any(|right| queue.as_str().starts_with(&right.queues.0))
    }

    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.rights.iter().any(|right| right.role == Role::Admin)
    }

    /// Whether the caller works for this person: is that person, or was dispatched by it.
    #[must_use]
    pub fn works_for(&self, person: &ActorId) -> bool {
        self.actor == *person || self.parent.as_ref() == Some(person)
    }

    #[must_use]
    pub fn holder(&self) -> Holder {
        Holder::new(self.actor.clone(), self.session.clone())
    }
}

/// Who has a lease or a place in line: an actor in one of its sessions. Both names stand behind one pointer, so that
/// a million leases and their events share them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Holder(Arc<HolderNames>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HolderNames {
    pub actor: ActorId,
    pub session: Option<SessionId>,
}

impl Deref for Holder {
    type Target = HolderNames;

    fn deref(&self) -> &HolderNames {
        &self.0
    }
}

impl Holder {
    #[must_use]
    pub fn new(actor: ActorId, session: Option<SessionId>) -> Self {
        Self(Arc::new(HolderNames { actor, session }))
    }

    #[must_use]
    pub fn is(&self, caller: &Caller) -> bool {
        self.actor == caller.actor && self.session == caller.session
    }
}
