//! The configuration of a client.

use crate::clock::Clock;
use api::words::ActorKind;
use lease::names::{ActorId, SessionId, SpaceName};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Longer than a node needs to report that it could not serve a request: with a shorter limit, its answer would be
/// lost.
const ATTEMPT_WITHIN: Duration = Duration::from_secs(12);
/// Long enough for an election and the restart of a node.
const WITHIN: Duration = Duration::from_secs(30);

/// The identity of the caller.
#[derive(Clone, PartialEq, Eq)]
pub enum CallerIdentity {
    /// The API key of an actor.
    ApiKey(String),
    /// A self-reported identity, which a development node trusts.
    SelfReported { actor: ActorId, kind: ActorKind, parent: Option<ActorId> },
}

impl fmt::Debug for CallerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApiKey(_) => f.write_str("ApiKey(…)"),
            Self::SelfReported { actor, kind, parent } => write!(f, "SelfReported({actor}, {kind:?}, {parent:?})"),
        }
    }
}

/// The session of the caller. A lease belongs to an actor and a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Session {
    /// A random session for each client: two runs of one identity never share a lease.
    #[default]
    Random,
    Named(SessionId),
    /// No session.
    None,
}

#[derive(Clone, Debug)]
pub struct Config {
    /// `http(s)://host:port` of one node or of several.
    pub endpoints: Vec<String>,
    pub identity: CallerIdentity,
    /// By default the only space of the API key, or `default`.
    pub space: Option<SpaceName>,
    pub session: Session,
    /// CA certificates in PEM, which are trusted in addition to those of the machine.
    pub extra_ca: Option<PathBuf>,
    /// Time limit for one attempt, not counting the time that a node is asked to wait.
    pub attempt_within: Duration,
    /// Time limit for a call with all its attempts, unless the call sets its own.
    pub within: Duration,
    pub user_agent: String,
    /// The clock that measures leases.
    pub clock: Clock,
}

impl Config {
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>, identity: CallerIdentity) -> Self {
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
