//! Options of every command: endpoints, identity and output format.

use super::failure::Failure;
use super::out::{Out, say};
use super::parse;
use super::profiles::{self, Profile, refuse_if_others_read};
use super::span::{Span, wall_now};
use api::dates::Date;
use api::words::ActorKind;
use clap::Args;
use client::names::{ActorId, SessionId, SpaceName};
use client::{Call, CallerIdentity, Client, Config, Endpoint, Session};
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ENDPOINT: &str = "http://127.0.0.1:7400";

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Profile to use [default: the current profile]
    #[arg(long, global = true, env = "TENURE_PROFILE", value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Address of a node, http(s)://host:port; repeat or separate with commas for several [default: the profile's, or
    /// http://127.0.0.1:7400]
    #[arg(long, global = true, env = "TENURE_ENDPOINT", value_name = "URL", value_delimiter = ',')]
    pub(crate) endpoint: Vec<Endpoint>,
    /// API key of the caller. Other users can see it on the command line: prefer --api-key-file
    #[arg(long, global = true, env = "TENURE_API_KEY", value_name = "API_KEY", hide_env_values = true)]
    pub(crate) api_key: Option<String>,
    /// File with the API key; only its owner may have access to it
    #[arg(long, global = true, env = "TENURE_API_KEY_FILE", value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Actor that calls, for a development node, which trusts the caller [default: the profile's, or the user name]
    #[arg(long, global = true, env = "TENURE_ACTOR", value_name = "ACTOR", value_parser = parse::actor)]
    pub(crate) actor: Option<ActorId>,
    /// Space to work in [default: the profile's, or the caller's only space, or `default`]
    #[arg(long, global = true, env = "TENURE_SPACE", value_name = "SPACE", value_parser = parse::space)]
    pub(crate) space: Option<SpaceName>,
    /// Session of the actor; a lease belongs to an actor and a session [default: none; a random one for exec, work and
    /// bench]
    #[arg(long, global = true, env = "TENURE_SESSION", value_name = "SESSION", value_parser = parse::session)]
    pub(crate) session: Option<SessionId>,
    /// Print the JSON of the HTTP API; streams print one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Time limit for the call with all its retries, not counting the time in a wait line [default: 30s]
    #[arg(long, global = true, value_name = "DURATION")]
    pub(crate) timeout: Option<Span>,
    /// Request id [default: a random one]
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    /// Repeat a request that was first sent at TIME with this --request-id and got no answer; it never runs twice.
    /// After 100 s, or without TIME, only ask for the stored answer
    #[arg(long, global = true, requires = "request_id", value_name = "TIME", num_args = 0..=1, require_equals = true)]
    pub(crate) repeat: Option<Option<Date>>,
    /// CA certificates (PEM) to trust in addition to those of the machine [default: the profile's]
    #[arg(long, global = true, env = "TENURE_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

/// The session that a command uses when none is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// No session: a later command can release what this one claimed.
    Shared,
    /// A random session: two runs never share a lease.
    OfItsOwn,
}

/// What a running command uses: the client and the output.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) out: Out,
    /// The self-reported actor, if the caller has no API key.
    pub(crate) actor: Option<ActorId>,
    /// Variables with which `tenure` inside a command calls the same nodes as the same actor. They contain no secret.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    config: Config,
    request_id: Option<String>,
    repeat: Option<Option<Date>>,
}

impl Context {
    pub(crate) fn new(global: &Global, run: Run) -> Result<Self, Failure> {
        let profile = profiles::chosen(global.profile.as_deref())?.unwrap_or_default();
        let endpoints = endpoints(global, &profile);
        let identity = identity(global, &profile)?;
        let actor = match &identity {
            CallerIdentity::ApiKey(_) => None,
            CallerIdentity::SelfReported { actor, .. } => Some(actor.clone()),
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

    /// Sets the `--request-id`, if given.
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

    /// The same client as another actor, if identities are self-reported.
    pub(crate) fn as_actor(&self, actor: ActorId) -> Result<Option<Client>, Failure> {
        match &self.config.identity {
            CallerIdentity::ApiKey(_) => Ok(None),
            CallerIdentity::SelfReported { .. } => {
                let config = Config { identity: self_reported(actor), ..self.config.clone() };
                Ok(Some(Client::new(config)?))
            }
        }
    }

    /// The API key that the client calls with.
    pub(crate) fn api_key(&self) -> Option<&str> {
        match &self.config.identity {
            CallerIdentity::ApiKey(api_key) => Some(api_key),
            CallerIdentity::SelfReported { .. } => None,
        }
    }

    /// The same client with another API key.
    pub(crate) fn with_api_key(&self, api_key: &str) -> Result<Client, Failure> {
        Ok(Client::new(Config { identity: CallerIdentity::ApiKey(api_key.to_owned()), ..self.config.clone() })?)
    }

    /// The `--request-id`, or a new one.
    pub(crate) fn request_id(&self) -> Result<String, Failure> {
        match &self.request_id {
            Some(id) => Ok(id.clone()),
            None => random_name(),
        }
    }

    /// How long ago the request was first sent, if this is a repeat.
    pub(crate) fn repeat_after(&self) -> Option<Duration> {
        let first_sent = self.repeat?;
        // The age is unknown if the clock was set back.
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
        CallerIdentity::ApiKey(_) => None,
        CallerIdentity::SelfReported { actor, .. } => Some(actor.as_str().into()),
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

/// Resolves on SIGINT or SIGTERM.
pub(crate) async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        // Without handlers, the signals end the process themselves.
        _ => std::future::pending().await,
    }
}

/// A random name of 128 bits, unique in practice.
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

/// Options override the profile.
fn identity(global: &Global, profile: &Profile) -> Result<CallerIdentity, Failure> {
    if let Some(api_key) = &global.api_key {
        return api_key_identity(api_key);
    }
    if let Some(path) = &global.api_key_file {
        return api_key_identity(&read_api_key(path)?);
    }
    if let Some(actor) = &global.actor {
        return Ok(self_reported(actor.clone()));
    }
    if let Some(api_key) = &profile.api_key {
        return api_key_identity(api_key);
    }
    if let Some(path) = &profile.api_key_file {
        return api_key_identity(&read_api_key(path)?);
    }
    let actor = match &profile.actor {
        Some(actor) => actor.clone(),
        None => users_name()?,
    };
    Ok(self_reported(actor))
}

fn self_reported(actor: ActorId) -> CallerIdentity {
    CallerIdentity::SelfReported { actor, kind: ActorKind::User, parent: None }
}

fn api_key_identity(text: &str) -> Result<CallerIdentity, Failure> {
    let api_key = text.trim();
    if api_key.is_empty() {
        return Err(Failure::Usage("the API key is empty".into()));
    }
    if api_key.bytes().all(|byte| byte.is_ascii_digit()) {
        let why =
            format!("{api_key} looks like a fencing token; pass it after the item: `tenure renew ITEM {api_key}`");
        return Err(Failure::Usage(format!("{why}. --api-key takes the API key")));
    }
    Ok(CallerIdentity::ApiKey(api_key.to_owned()))
}

fn read_api_key(path: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::other(format!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(failed)?;
    refuse_if_others_read(path, &file)?;
    let mut api_key = String::new();
    file.read_to_string(&mut api_key).map_err(failed)?;
    Ok(api_key)
}

fn warn_of_plain_text(endpoints: &[String]) {
    let is_near = |host: &str| host == "localhost" || host.starts_with("127.") || host == "[::1]";
    for endpoint in endpoints {
        let Some(rest) = endpoint.strip_prefix("http://") else { continue };
        let host = rest.rsplit_once(':').map_or(rest, |(host, _)| host);
        if !is_near(host) {
            say(format_args!("tenure: warning: the API key goes to {endpoint} unencrypted: use https://"));
        }
    }
}

/// The name of the user that runs this command, as an actor.
pub(crate) fn users_name() -> Result<ActorId, Failure> {
    let name =
        ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    let name = name.unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()));
    ActorId::new(&name).map_err(|bad| Failure::Usage(format!("the user name {bad}: pass --actor")))
}
