//! The caller of a request: the identity that the edge has established, and its rights. Nothing here comes from the
//! command itself.

use crate::names::{ActorId, QueueName, SessionId};
use serde::{Deserialize, Serialize};
use std::ops::Deref;
use std::sync::Arc;

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    pub actor: ActorId,
    pub kind: ActorKind,
    /// The actor that dispatched it. Opaque.
    pub parent: Option<ActorId>,
    /// One run of the actor. No session counts as a session, distinct from all others.
    pub session: Option<SessionId>,
    pub verified: Verified,
    /// The caller's rights in the request's space. Everything else is denied.
    pub rights: Vec<Right>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ActorKind {
    User,
    Agent,
    System,
}

/// How the edge established the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verified {
    /// Checked just now.
    Checked,
    /// Checked with cached keys, because their source could not be reached.
    FromCache,
    /// Claimed by the caller and not checked.
    SelfReported,
}

/// A role in some queues of a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Right {
    pub role: Role,
    pub queues: QueueScope,
}

/// The queues that a right covers: all of them, those whose names begin with a prefix, or exactly one.
///
/// Encoded as a string: a prefix as it is (empty: every queue), an exact name followed by NUL, which no name contains.
/// So entries written when there were only prefixes keep their meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueScope(String);

const EXACT: char = '\0';

impl QueueScope {
    /// Every queue of the space.
    #[must_use]
    pub fn every() -> Self {
        Self::default()
    }

    /// The queues whose names begin with this text.
    #[must_use]
    pub fn prefix(text: &str) -> Self {
        Self(text.replace(EXACT, ""))
    }

    /// Only this queue.
    #[must_use]
    pub fn exactly(queue: &QueueName) -> Self {
        Self(format!("{queue}{EXACT}"))
    }

    #[must_use]
    pub fn covers(&self, queue: &QueueName) -> bool {
        match self.0.strip_suffix(EXACT) {
            Some(name) => queue.as_str() == name,
            None => queue.as_str().starts_with(&self.0),
        }
    }

    #[must_use]
    pub fn is_every(&self) -> bool {
        self.0.is_empty()
    }
}

/// Every role may also see the items of its queues.
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
    /// Operates the cluster. Granted for the whole cluster, never for a space or a queue.
    Admin,
}

impl Caller {
    #[must_use]
    pub fn has_role(&self, role: Role, queue: &QueueName) -> bool {
        self.rights.iter().any(|right| right.role == role && right.queues.covers(queue))
    }

    #[must_use]
    pub fn can_see(&self, queue: &QueueName) -> bool {
        self.rights.iter().any(|right| right.queues.covers(queue))
    }

    /// Whether the caller is an operator of every queue in the space. Only such an operator may change the space's
    /// policy and its workers, because workers may work in any queue.
    #[must_use]
    pub fn runs_space(&self) -> bool {
        self.rights.iter().any(|right| right.role == Role::Operator && right.queues.is_every())
    }

    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.rights.iter().any(|right| right.role == Role::Admin)
    }

    /// Whether the caller is this person or was dispatched by this person.
    #[must_use]
    pub fn works_for(&self, person: &ActorId) -> bool {
        self.actor == *person || self.parent.as_ref() == Some(person)
    }

    #[must_use]
    pub fn holder(&self) -> Holder {
        Holder::new(self.actor.clone(), self.session.clone())
    }
}

/// The holder of a lease or of a place in line: an actor and one of its sessions. Both names are behind one pointer, so
/// that a million leases and their events share them.
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
