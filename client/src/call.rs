//! One call: what is asked, under which id, and how long it may take. Awaited, it is carried out.

use crate::clock::Moment;
use crate::endpoint::Endpoint;
use crate::path::Path;
use crate::retry::{self, Reply};
use crate::{Client, Error};
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

const APPLIED: HeaderName = HeaderName::from_static("tenure-applied-index");
const AGE: HeaderName = HeaderName::from_static("tenure-age-ms");

/// What a request changes, and so what a lost answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Asked again as one likes.
    Nothing,
    /// Once under its id, for as long as nodes remember it.
    Once,
    /// The same however often: a renewal is known by its token.
    Same,
}

/// A request without its reply's type.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Bytes,
    pub(crate) effect: Effect,
    pub(crate) key: Option<String>,
    /// How long ago it was first sent, when nobody answered that.
    pub(crate) repeat_after: Option<Duration>,
    pub(crate) read_at: Option<Number>,
    pub(crate) resume_after: Option<Number>,
    pub(crate) within: Option<Duration>,
    pub(crate) attempt_within: Option<Duration>,
    /// What the node is asked to wait.
    pub(crate) waits: Duration,
    /// Only this node, whatever it says.
    pub(crate) only_at: Option<Endpoint>,
    /// 503 is an answer as well.
    pub(crate) says_how_it_is: bool,
}

/// A call that was not made yet. Dropped, it never is; given up while it is made, it may have happened.
#[derive(Debug)]
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<T> {
    client: Client,
    ask: Result<Ask, Error>,
    reply: PhantomData<fn() -> T>,
}

/// A reply, and what came with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    pub value: T,
    /// When the request that was answered was sent: what `expires_in_ms` counts from.
    pub sent_at: Moment,
    pub request_id: String,
    /// Of an item that was shown.
    pub revision: Option<Number>,
    /// Of a local read.
    pub age: Option<Age>,
}

/// How far and how old what a local read saw is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    pub applied: u64,
    /// None: the node has not been in step since it started.
    pub age: Option<Duration>,
}

impl<T> Call<T> {
    fn new(client: &Client, method: Method, path: Path, effect: Effect, body: Result<Bytes, Error>) -> Self {
        let ask = body.map(|body| Ask {
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
            says_how_it_is: false,
        });
        Self { client: client.clone(), ask, reply: PhantomData }
    }

    pub(crate) fn get(client: &Client, path: Path) -> Self {
        Self::new(client, Method::GET, path, Effect::Nothing, Ok(Bytes::new()))
    }

    pub(crate) fn command(client: &Client, method: Method, path: Path, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).map(Bytes::from);
        let body = body.map_err(|error| Error::Invalid(format!("the request cannot be written: {error}")));
        Self::new(client, method, path, Effect::Once, body)
    }

    pub(crate) fn post(client: &Client, path: Path, body: &impl Serialize) -> Self {
        Self::command(client, Method::POST, path, body)
    }

    /// Without a body.
    pub(crate) fn bare(client: &Client, method: Method, path: Path) -> Self {
        Self::new(client, method, path, Effect::Once, Ok(Bytes::new()))
    }

    pub(crate) fn set(mut self, set: impl FnOnce(&mut Ask)) -> Self {
        if let Ok(ask) = &mut self.ask {
            set(ask);
        }
        self
    }

    /// Under this id, and not one that is made up: whoever repeats a request, say after a restart, names it so.
    pub fn key(self, id: impl Into<String>) -> Self {
        self.set(|ask| ask.key = Some(id.into()))
    }

    /// It was first sent under its key this long ago, and nobody answered. If that is so long ago that nodes may have
    /// forgotten it, they answer what they remember and otherwise refuse it: it is never run twice. Give
    /// [`Duration::MAX`] if the time is not known.
    pub fn repeated(self, after: Duration) -> Self {
        self.set(|ask| ask.repeat_after = Some(after))
    }

    /// The revision that the caller has read: refused if the item changed since.
    pub fn read_at(self, revision: Number) -> Self {
        self.set(|ask| ask.read_at = Some(revision))
    }

    /// With all attempts together, the time that the call asks a node to wait aside.
    pub fn within(self, within: Duration) -> Self {
        self.set(|ask| ask.within = Some(within))
    }

    /// For one attempt.
    pub fn attempt_within(self, within: Duration) -> Self {
        self.set(|ask| ask.attempt_within = Some(within))
    }

    pub(crate) async fn reply(self) -> Result<Reply, Error> {
        retry::run(&self.client, &self.ask?).await
    }

    /// With its body unread.
    pub(crate) async fn opened(self) -> Result<retry::Opened, Error> {
        retry::open(&self.client, &self.ask?).await
    }
}

impl<T: DeserializeOwned> Call<T> {
    /// The reply with what came with it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn answered(self) -> Result<Answer<T>, Error> {
        let ask = self.ask?;
        let reply = retry::run(&self.client, &ask).await?;
        let value = serde_json::from_slice(&reply.body).map_err(|error| {
            let why = format!("the answer is not understood: {error}");
            // The node took it.
            match ask.effect {
                Effect::Nothing => Error::Invalid(why),
                Effect::Once | Effect::Same => Error::Unknown { why, request_id: reply.request_id.clone() },
            }
        })?;
        Ok(Answer {
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
        Box::pin(async move { self.answered().await.map(|answer| answer.value) })
    }
}

fn revision(headers: &HeaderMap) -> Option<Number> {
    headers.get(ETAG)?.to_str().ok()?.trim_matches('"').parse().ok()
}

fn age(headers: &HeaderMap) -> Option<Age> {
    let number = |name: &HeaderName| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
    Some(Age { applied: number(&APPLIED)?, age: number(&AGE).map(Duration::from_millis) })
}
