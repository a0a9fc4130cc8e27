//! The client: the identity, the endpoints, and what all calls share. Cheap to clone.

use crate::Error;
use crate::clock::Clock;
use crate::config::{CallerIdentity, Config, Session};
use crate::endpoint::{Endpoint, Endpoints};
use crate::transport::Transport;
use api::headers::{ACTOR, ACTOR_KIND, ACTOR_PARENT, SESSION, SPACE};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, USER_AGENT};
use lease::names::{SessionId, SpaceName};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::TaskTracker;

#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) shared: Arc<ClientShared>,
    pub(crate) endpoints: Arc<Endpoints>,
    pub(crate) headers: Arc<HeaderMap>,
    session: Option<SessionId>,
}

#[derive(Debug)]
pub(crate) struct ClientShared {
    pub(crate) transport: Transport,
    pub(crate) clock: Clock,
    pub(crate) attempt_within: Duration,
    pub(crate) within: Duration,
    /// Background tasks that release what was dropped.
    pub(crate) background: TaskTracker,
}

impl Client {
    /// Creates a client. It does not connect yet.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn new(config: Config) -> Result<Self, Error> {
        let endpoints = parse(&config.endpoints)?;
        let transport = Transport::new(&endpoints, config.extra_ca.as_deref())?;
        Self::over(config, endpoints, transport)
    }

    pub(crate) fn over(config: Config, endpoints: Vec<Endpoint>, transport: Transport) -> Result<Self, Error> {
        let shared = ClientShared {
            transport,
            clock: config.clock,
            attempt_within: config.attempt_within,
            within: config.within,
            background: TaskTracker::new(),
        };
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, value("user_agent", &config.user_agent)?);
        identify(&mut headers, &config.identity)?;
        let client = Self {
            shared: Arc::new(shared),
            endpoints: Arc::new(Endpoints::new(endpoints)?),
            headers: Arc::new(headers),
            session: None,
        };
        let client = client.in_session(config.session)?;
        match &config.space {
            Some(space) => client.in_space(space),
            None => Ok(client),
        }
    }

    /// The same client in another space.
    ///
    /// # Errors
    /// If the name cannot be sent as a header.
    pub fn in_space(&self, space: &SpaceName) -> Result<Self, Error> {
        let mut other = self.clone();
        Arc::make_mut(&mut other.headers).insert(SPACE, value("space", space.as_str())?);
        Ok(other)
    }

    /// The same client in another session.
    ///
    /// # Errors
    /// If the name cannot be sent as a header, or the machine provides no random numbers.
    pub fn in_session(&self, session: Session) -> Result<Self, Error> {
        let mut other = self.clone();
        other.session = match session {
            Session::Random => Some(SessionId::new(&random_name()?).map_err(|bad| Error::Invalid(bad.to_string()))?),
            Session::Named(name) => Some(name),
            Session::None => None,
        };
        let headers = Arc::make_mut(&mut other.headers);
        headers.remove(SESSION);
        if let Some(session) = &other.session {
            headers.insert(SESSION, value("session", session.as_str())?);
        }
        Ok(other)
    }

    /// The session of the caller.
    #[must_use]
    pub fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// The configured endpoints.
    #[must_use]
    pub fn endpoints(&self) -> &[Endpoint] {
        self.endpoints.all()
    }

    /// Waits until everything that was dropped has been released, or could not be. For the end of a program.
    pub async fn settled(&self) {
        self.shared.background.close();
        self.shared.background.wait().await;
        self.shared.background.reopen();
    }
}

pub(crate) fn parse(endpoints: &[String]) -> Result<Vec<Endpoint>, Error> {
    endpoints.iter().map(|text| text.parse()).collect()
}

fn identify(headers: &mut HeaderMap, identity: &CallerIdentity) -> Result<(), Error> {
    match identity {
        CallerIdentity::ApiKey(api_key) => {
            let mut header = value("API key", &format!("Bearer {api_key}"))?;
            header.set_sensitive(true);
            headers.insert(AUTHORIZATION, header);
        }
        CallerIdentity::SelfReported { actor, kind, parent } => {
            let kind = serde_json::to_value(kind).ok().and_then(|kind| kind.as_str().map(ToOwned::to_owned));
            headers.insert(ACTOR, value("actor", actor.as_str())?);
            headers.insert(ACTOR_KIND, value("kind", &kind.unwrap_or_default())?);
            if let Some(parent) = parent {
                headers.insert(ACTOR_PARENT, value("parent", parent.as_str())?);
            }
        }
    }
    Ok(())
}

fn value(name: &str, text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(text).map_err(|_| Error::Invalid(format!("{name} must be visible ASCII to be sent")))
}

/// A random name of 128 bits, unique in practice.
pub(crate) fn random_name() -> Result<String, Error> {
    let random = || getrandom::u64().map_err(|error| Error::Invalid(format!("no random numbers: {error}")));
    Ok(format!("{:016x}{:016x}", random()?, random()?))
}
