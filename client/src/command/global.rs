//! What every command takes: where nodes are, who calls, and how the answer is written.

use super::failure::Failure;
use super::out::{Out, say};
use super::parse;
use super::profile::{self, Profile};
use super::span::{Span, wall_now};
use api::dates::Date;
use api::words::ActorKind;
use clap::Args;
use client::names::{ActorId, SessionId, SpaceName};
use client::{Call, Client, Config, Endpoint, Identity, Session};
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ENDPOINT: &str = "http://127.0.0.1:7400";

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// The profile to use, instead of the current one
    #[arg(long, global = true, env = "TENURE_PROFILE", value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Where a node is, http(s)://host:port; several times, or with commas between
    #[arg(long, global = true, env = "TENURE_ENDPOINT", value_name = "URL", value_delimiter = ',')]
    pub(crate) endpoint: Vec<Endpoint>,
    /// The API token that says who calls. Others can read it on the command line: better a file
    #[arg(long, global = true, env = "TENURE_API_TOKEN", value_name = "API_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// A file that holds the API token, for its owner's eyes only
    #[arg(long, global = true, env = "TENURE_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Who calls, on a development node that takes the caller's word
    #[arg(long, global = true, env = "TENURE_ACTOR", value_name = "ACTOR", value_parser = parse::actor)]
    pub(crate) actor: Option<ActorId>,
    /// The space to work in
    #[arg(long, global = true, env = "TENURE_SPACE", value_name = "SPACE", value_parser = parse::space)]
    pub(crate) space: Option<SpaceName>,
    /// The run of the actor that calls: a lease belongs to an actor and a session
    #[arg(long, global = true, env = "TENURE_SESSION", value_name = "SESSION", value_parser = parse::session)]
    pub(crate) session: Option<SessionId>,
    /// Answer in the JSON of the interface, streams with one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// What the call may take with all its attempts, the time that it waits in line aside
    #[arg(long, global = true, value_name = "DURATION")]
    pub(crate) timeout: Option<Span>,
    /// The id of the request; one is made up unless said
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    /// It was first sent under its --request-id at this time and nobody answered: never run it twice. After 100 s, or without
    /// a time, it is only asked for its answer
    #[arg(long, global = true, requires = "request_id", value_name = "TIME", num_args = 0..=1, require_equals = true)]
    pub(crate) repeat: Option<Option<Date>>,
    /// Certificates (PEM) to trust beside those of the machine
    #[arg(long, global = true, env = "TENURE_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

/// Which session a command calls in unless it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// What one command takes, the next one may give back.
    Shared,
    /// Two launches never share a lease.
    OfItsOwn,
}

/// A command at work: whom it asks, and how it writes.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) out: Out,
    /// Who calls, where nodes take the caller's word for it.
    pub(crate) actor: Option<ActorId>,
    /// What makes `tenure` within a command speak to the same nodes as the same actor. No secret is in it.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    config: Config,
    request_id: Option<String>,
    repeat: Option<Option<Date>>,
}

impl Context {
    pub(crate) fn new(global: &Global, run: Run) -> Result<Self, Failure> {
        let profile = profile::chosen(global.profile.as_deref())?.unwrap_or_default();
        let endpoints = endpoints(global, &profile);
        let identity = identity(global, &profile)?;
        let actor = match &identity {
            Identity::Bearer(_) => None,
            Identity::SelfReported { actor, .. } => Some(actor.clone()),
        };
        if actor.is_none() {
            warn_of_plain_text(&endpoints);
        }
        let mut config = Config::new(endpoints.clone(), identity);
        config.space = global.space.clone().or(profile.space);
        config.session = match (&global.session, run) {
            (Some(session), _) => Session::Named(session.clone()),
            (None, Run::Shared) => Session::None,
            (None, Run::OfItsOwn) => Session::Random,
        };
        config.extra_ca = global.ca.clone().or(profile.ca);
        if let Some(timeout) = global.timeout {
            config.within = timeout.0;
        }
        Ok(Self {
            client: Client::new(config.clone())?,
            out: Out::new(global.json),
            environment: environment(global, &config)?,
            actor,
            config,
            request_id: global.request_id.clone(),
            repeat: global.repeat,
        })
    }

    /// Under the id that was said, if one was.
    pub(crate) fn named<T>(&self, call: Call<T>) -> Call<T> {
        match &self.request_id {
            None => call,
            Some(id) => match self.repeat_after() {
                Some(age) => call.key(id).repeated(age),
                None => call.key(id),
            },
        }
    }

    pub(crate) async fn ask<T: DeserializeOwned + 'static>(&self, call: Call<T>) -> Result<T, Failure> {
        Ok(self.named(call).await?)
    }

    /// The same client as somebody else, where nodes take the caller's word for who it is.
    pub(crate) fn as_actor(&self, actor: ActorId) -> Result<Option<Client>, Failure> {
        match &self.config.identity {
            Identity::Bearer(_) => Ok(None),
            Identity::SelfReported { .. } => {
                let config = Config { identity: self_reported(actor), ..self.config.clone() };
                Ok(Some(Client::new(config)?))
            }
        }
    }

    /// The API token that it calls with.
    pub(crate) fn credential(&self) -> Option<&str> {
        match &self.config.identity {
            Identity::Bearer(token) => Some(token),
            Identity::SelfReported { .. } => None,
        }
    }

    /// The same client with another token.
    pub(crate) fn with_token(&self, token: &str) -> Result<Client, Failure> {
        Ok(Client::new(Config { identity: Identity::Bearer(token.to_owned()), ..self.config.clone() })?)
    }

    /// The id that was said, or a new one.
    pub(crate) fn request_id(&self) -> Result<String, Failure> {
        match &self.request_id {
            Some(id) => Ok(id.clone()),
            None => random_name(),
        }
    }

    /// How long ago the request was first sent, if it was.
    pub(crate) fn repeat_after(&self) -> Option<Duration> {
        let first_sent = self.repeat?;
        // A clock that was set back tells nothing.
        let age = first_sent.and_then(|date| wall_now().0.checked_sub(date.0.0));
        Some(age.map_or(Duration::MAX, Duration::from_millis))
    }
}

fn environment(global: &Global, config: &Config) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let absolute = |path: &PathBuf| {
        let path = std::path::absolute(path).map_err(|error| Failure::other(format!("{}: {error}", path.display())))?;
        Ok::<_, Failure>(path.into_os_string())
    };
    let actor = match &config.identity {
        Identity::Bearer(_) => None,
        Identity::SelfReported { actor, .. } => Some(actor.as_str().into()),
    };
    let all = [
        ("TENURE_ENDPOINT", Some(config.endpoints.join(",").into())),
        ("TENURE_ACTOR", actor),
        ("TENURE_SPACE", config.space.as_ref().map(|space| space.as_str().into())),
        ("TENURE_PROFILE", global.profile.as_ref().map(Into::into)),
        ("TENURE_CA", config.extra_ca.as_ref().map(absolute).transpose()?),
    ];
    Ok(all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

/// Until somebody wants this to end: SIGINT or SIGTERM.
pub(crate) async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        // Signals that cannot be heard end the process by themselves.
        _ => std::future::pending().await,
    }
}

/// 128 bits: nobody makes up the same one.
pub(crate) fn random_name() -> Result<String, Failure> {
    let random = || getrandom::u64().map_err(|error| Failure::other(format!("no random numbers: {error}")));
    Ok(format!("{:016x}{:016x}", random()?, random()?))
}

fn endpoints(global: &Global, profile: &Profile) -> Vec<String> {
    if !global.endpoint.is_empty() {
        return global.endpoint.iter().map(ToString::to_string).collect();
    }
    if !profile.endpoints.is_empty() {
        return profile.endpoints.clone();
    }
    vec![ENDPOINT.to_owned()]
}

/// What was said goes before the profile.
fn identity(global: &Global, profile: &Profile) -> Result<Identity, Failure> {
    if let Some(token) = &global.token {
        return bearer(token);
    }
    if let Some(path) = &global.token_file {
        return bearer(&token_of(path)?);
    }
    if let Some(actor) = &global.actor {
        return Ok(self_reported(actor.clone()));
    }
    if let Some(token) = &profile.token {
        return bearer(token);
    }
    if let Some(path) = &profile.token_file {
        return bearer(&token_of(path)?);
    }
    let actor = match &profile.actor {
        Some(actor) => actor.clone(),
        None => users_name()?,
    };
    Ok(self_reported(actor))
}

fn self_reported(actor: ActorId) -> Identity {
    Identity::SelfReported { actor, kind: ActorKind::User, parent: None }
}

fn bearer(token: &str) -> Result<Identity, Failure> {
    let token = token.trim();
    if token.is_empty() {
        return Err(Failure::Usage("the API token is empty".into()));
    }
    if token.bytes().all(|byte| byte.is_ascii_digit()) {
        let why =
            format!("{token} looks like a fencing token, which stands behind the item: `tenure renew ITEM {token}`");
        return Err(Failure::Usage(format!("{why}. --token is the API token")));
    }
    Ok(Identity::Bearer(token.to_owned()))
}

fn token_of(path: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::other(format!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(failed)?;
    refuse_if_others_read(path, &file)?;
    let mut token = String::new();
    file.read_to_string(&mut token).map_err(failed)?;
    Ok(token)
}

/// A secret that others can read is none.
pub(crate) fn refuse_if_others_read(path: &Path, file: &File) -> Result<(), Failure> {
    let path = path.display();
    let mode = file.metadata().map_err(|error| Failure::other(format!("{path}: {error}")))?.mode();
    if mode & 0o077 != 0 {
        let why = format!("{path} holds a token, and others may read it (mode {:o}): it is not used", mode & 0o777);
        return Err(Failure::hinted(
            why,
            format!("chmod 600 {path}, and think of whether the token needs to be replaced"),
        ));
    }
    Ok(())
}

fn warn_of_plain_text(endpoints: &[String]) {
    let is_near = |host: &str| host == "localhost" || host.starts_with("127.") || host == "[::1]";
    for endpoint in endpoints {
        let Some(rest) = endpoint.strip_prefix("http://") else { continue };
        let host = rest.rsplit_once(':').map_or(rest, |(host, _)| host);
        if !is_near(host) {
            say(format_args!("tenure: warning: the API token goes to {endpoint} unencrypted: use https://"));
        }
    }
}

/// Of whoever runs this.
pub(crate) fn users_name() -> Result<ActorId, Failure> {
    let name =
        ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    let name = name.unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()));
    ActorId::new(&name).map_err(|bad| Failure::Usage(format!("the name of the user {bad}: say --actor")))
}
