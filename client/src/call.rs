//! One call: the request, its id and its time limits. Awaiting it sends the request.

use crate::clock::Moment;
use crate::path::Path;
use crate::request::{Effect, RequestSpec};
use crate::retry::{self, RawReply};
use crate::{Client, Error};
use api::headers::{AGE_MS, APPLIED_INDEX};
use api::names::Number;
use bytes::Bytes;
use hyper::Method;
use hyper::header::{ETAG, HeaderMap, HeaderName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

/// A call that has not been sent yet. If dropped, it is never sent; if cancelled while it runs, it may have had an
/// effect.
#[derive(Debug)]
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<T> {
    client: Client,
    spec: Result<RequestSpec, Error>,
    reply_type: PhantomData<fn() -> T>,
}

/// A reply with its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<T> {
    pub value: T,
    /// When the answered attempt was sent; `expires_in_ms` counts from here.
    pub sent_at: Moment,
    pub request_id: String,
    /// The revision of the item, if the reply shows one.
    pub revision: Option<Number>,
    /// The age of the data, for a local read.
    pub age: Option<Age>,
}

/// The position and the age of the state that a local read saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    pub applied: u64,
    /// `None` if the node has not been up to date since it started.
    pub age: Option<Duration>,
}

impl<T> Call<T> {
    fn new(client: &Client, method: Method, path: Path, effect: Effect, body: Result<Bytes, Error>) -> Self {
        let spec = body.map(|body| RequestSpec {
            method,
            path: path.into_string(),
            body,
            effect,
            key: None,
            repeat_after: None,
            read_at: None,
            resume_after: None,
            within: None,
            attempt_within: None,
            waits: Duration::ZERO,
            only_at: None,
            accepts_503: false,
        });
        Self { client: client.clone(), spec, reply_type: PhantomData }
    }

    pub(crate) fn get(client: &Client, path: Path) -> Self {
        Self::new(client, Method::GET, path, Effect::Nothing, Ok(Bytes::new()))
    }

    pub(crate) fn command(client: &Client, method: Method, path: Path, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).map(Bytes::from);
        let body = body.map_err(|error| Error::Invalid(format!("cannot encode the request: {error}")));
        Self::new(client, method, path, Effect::Once, body)
    }

    pub(crate) fn post(client: &Client, path: Path, body: &impl Serialize) -> Self {
        Self::command(client, Method::POST, path, body)
    }

    /// A command without a body.
    pub(crate) fn bare(client: &Client, method: Method, path: Path) -> Self {
        Self::new(client, method, path, Effect::Once, Ok(Bytes::new()))
    }

    pub(crate) fn set(mut self, set: impl FnOnce(&mut RequestSpec)) -> Self {
        if let Ok(spec) = &mut self.spec {
            set(spec);
        }
        self
    }

    /// Uses this request id instead of a random one, so that the request can be repeated, for example after a restart.
    pub fn key(self, id: impl Into<String>) -> Self {
        self.set(|spec| spec.key = Some(id.into()))
    }

    /// Marks this as a repeat of a request that was first sent with this key this long ago and got no answer. If nodes
    /// may have forgotten the request by now, they return the answer that they remember, or refuse: it never runs
    /// twice. Pass [`Duration::MAX`] if the time is not known.
    pub fn repeated(self, after: Duration) -> Self {
        self.set(|spec| spec.repeat_after = Some(after))
    }

    /// The revision that the caller has read. The request is refused if the item has changed since.
    pub fn read_at(self, revision: Number) -> Self {
        self.set(|spec| spec.read_at = Some(revision))
    }

    /// Time limit for all attempts together, not counting the time that the call asks a node to wait.
    pub fn within(self, within: Duration) -> Self {
        self.set(|spec| spec.within = Some(within))
    }

    /// Time limit for one attempt.
    pub fn attempt_within(self, within: Duration) -> Self {
        self.set(|spec| spec.attempt_within = Some(within))
    }

    pub(crate) async fn raw_reply(self) -> Result<RawReply, Error> {
        retry::run(&self.client, &self.spec?).await
    }

    /// Sends the call and leaves the body of the reply unread.
    pub(crate) async fn opened(self) -> Result<retry::Opened, Error> {
        retry::open(&self.client, &self.spec?).await
    }
}

impl<T: DeserializeOwned> Call<T> {
    /// Sends the call and returns the reply with its metadata.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn reply(self) -> Result<Reply<T>, Error> {
        let spec = self.spec?;
        let reply = retry::run(&self.client, &spec).await?;
        let value = serde_json::from_slice(&reply.body).map_err(|error| {
            let why = format!("cannot decode the answer: {error}");
            // The node accepted the request.
            match spec.effect {
                Effect::Nothing => Error::Invalid(why),
                Effect::Once | Effect::Same => Error::Unknown { why, request_id: reply.request_id.clone() },
            }
        })?;
        Ok(Reply {
            value,
            sent_at: reply.sent_at,
            request_id: reply.request_id,
            revision: revision(&reply.headers),
            age: age(&reply.headers),
        })
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for Call<T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.reply().await.map(|reply| reply.value) })
    }
}

fn revision(headers: &HeaderMap) -> Option<Number> {
    headers.get(ETAG)?.to_str().ok()?.trim_matches('"').parse().ok()
}

fn age(headers: &HeaderMap) -> Option<Age> {
    let number = |name: &HeaderName| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
    Some(Age { applied: number(&APPLIED_INDEX)?, age: number(&AGE_MS).map(Duration::from_millis) })
}
