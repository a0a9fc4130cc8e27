//! How a client is set up.

use crate::clock::Clock;
use api::words::ActorKind;
use lease::names::{ActorId, SessionId, SpaceName};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Longer than a node takes to say that it could not: cut off earlier, its word would be lost.
const ATTEMPT_WITHIN: Duration = Duration::from_secs(12);
/// Long enough for an election and a node that is started again.
const WITHIN: Duration = Duration::from_secs(30);

/// Who calls.
#[derive(Clone, PartialEq, Eq)]
pub enum Identity {
    /// The token of an actor.
    Bearer(String),
    /// A development node takes the caller's word.
    SelfReported { actor: ActorId, kind: ActorKind, parent: Option<ActorId> },
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bearer(_) => f.write_str("Bearer(…)"),
            Self::SelfReported { actor, kind, parent } => write!(f, "SelfReported({actor}, {kind:?}, {parent:?})"),
        }
    }
}

/// Which run of the actor calls. A lease belongs to an actor and a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Session {
    /// A new one for each client: two launches of one identity never share a lease.
    #[default]
    Random,
    Named(SessionId),
    /// Leases that were taken without one.
    None,
}

#[derive(Clone, Debug)]
pub struct Config {
    /// `http(s)://host:port` of one node or of several.
    pub endpoints: Vec<String>,
    pub identity: Identity,
    /// The token's only one, else `default`, unless said.
    pub space: Option<SpaceName>,
    pub session: Session,
    /// Certificates in PEM that are trusted beside those of the machine.
    pub extra_ca: Option<PathBuf>,
    /// What one attempt may take, the time that it is asked to wait aside.
    pub attempt_within: Duration,
    /// What a call may take with all its attempts, unless it says otherwise.
    pub within: Duration,
    pub user_agent: String,
    /// That leases are counted on.
    pub clock: Clock,
}

impl Config {
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>, identity: Identity) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            identity,
            space: None,
            session: Session::default(),
            extra_ca: None,
            attempt_within: ATTEMPT_WITHIN,
            within: WITHIN,
            user_agent: concat!("tenure/", env!("CARGO_PKG_VERSION")).to_owned(),
            clock: Clock::default(),
        }
    }
}
