//! Short functions that make names in tests.

use lease::caller::{ActorKind, Caller, QueueScope, Right, Role, Verified};
use lease::names::{ActorId, ItemId, Label, Phase, QueueName, RequestId, SpaceName};
use lease::{Attempt, Command, Request};

pub fn item(id: &str) -> ItemId {
    ItemId::new(id).unwrap()
}

pub fn actor(id: &str) -> ActorId {
    ActorId::new(id).unwrap()
}

pub fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub fn label(name: &str) -> Label {
    Label::new(name).unwrap()
}

pub fn phase(name: &str) -> Phase {
    Phase::new(name).unwrap()
}

/// An agent with these roles in every queue.
pub fn caller(name: &str, roles: &[Role]) -> Caller {
    Caller {
        actor: actor(name),
        kind: ActorKind::Agent,
        parent: None,
        session: None,
        verified: Verified::Checked,
        rights: roles.iter().map(|role| Right { role: *role, queues: QueueScope::every() }).collect(),
    }
}

pub fn request(caller: Caller, number: u32, command: Command) -> Request {
    Request {
        space: SpaceName::fallback(),
        caller,
        request_id: RequestId::new(&format!("r-{number}")).unwrap(),
        attempt: Attempt::First,
        command,
    }
}
