//! A scripted in-memory node for tests, so that time can be paused. It logs every request, and answers each attempt
//! from its script.

use crate::client::parse;
use crate::config::{CallerIdentity, Config, Session};
use crate::endpoint::Endpoint;
use crate::transport::{Link, Transport};
use crate::{Client, Clock, Moment};
use api::words::ActorKind;
use api::{Code, Problem};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use lease::names::{ActorId, SessionId};
use serde_json::Value;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The result of one attempt.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    /// The connection is refused.
    Refuses,
    /// The request is read, and the connection is closed without an answer.
    Drops,
    /// The request is read, and no answer comes.
    Hangs,
    Ok(Value),
    /// A body with this status.
    Status(u16, Value),
    Problem(Code),
    ProblemAfter(Code, u64),
    /// Pieces of a body, each after a while; then the connection breaks.
    Streams(Vec<(Duration, String)>),
}

/// One attempt as the node saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) host: String,
    pub(crate) what: String,
    pub(crate) key: Option<String>,
    /// The time since the first attempt, if this one is marked as a repeat.
    pub(crate) retry_ms: Option<u64>,
    pub(crate) last_event: Option<String>,
    pub(crate) body: Value,
    pub(crate) after: Duration,
}

/// The answer to every request after the end of the script.
type Otherwise = Arc<dyn Fn(&Asked) -> Says + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Fake {
    script: Arc<Mutex<VecDeque<Says>>>,
    log: Arc<Mutex<Vec<Asked>>>,
    otherwise: Otherwise,
    began: Instant,
    /// How long the machine has slept.
    slept: Arc<Mutex<Duration>>,
}

impl Fake {
    pub(crate) fn new(script: impl IntoIterator<Item = Says>) -> Self {
        Self::with(script, |_| Says::Refuses)
    }

    pub(crate) fn with(
        script: impl IntoIterator<Item = Says>,
        otherwise: impl Fn(&Asked) -> Says + Send + Sync + 'static,
    ) -> Self {
        Self {
            script: Arc::new(Mutex::new(script.into_iter().collect())),
            log: Arc::default(),
            otherwise: Arc::new(otherwise),
            began: Instant::now(),
            slept: Arc::default(),
        }
    }

    /// A client of nodes on these hosts, all of which follow the one script.
    pub(crate) fn client(&self, hosts: &[&str]) -> Client {
        let endpoints: Vec<String> = hosts.iter().map(|host| format!("http://{host}")).collect();
        let identity = CallerIdentity::SelfReported { actor: actor("ada"), kind: ActorKind::Agent, parent: None };
        let mut config = Config::new(endpoints, identity);
        config.session = Session::Named(SessionId::new("run-1").unwrap());
        let (began, slept) = (self.began, self.slept.clone());
        config.clock = Clock::new(move || Moment(began.elapsed() + *lock(&slept)));
        let endpoints = parse(&config.endpoints).unwrap();
        let fake = self.clone();
        let transport = Transport::dialing(Arc::new(move |endpoint| Box::pin(fake.clone().dialed(endpoint))));
        Client::over(config, endpoints, transport).unwrap()
    }

    pub(crate) fn log(&self) -> Vec<Asked> {
        lock(&self.log).clone()
    }

    /// `host what` of every attempt.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.log().into_iter().map(|asked| format!("{} {}", asked.host, asked.what)).collect()
    }

    /// Takes the next answer.
    pub(crate) fn says(&self, asked: &Asked) -> Says {
        lock(&self.script).pop_front().unwrap_or_else(|| (self.otherwise)(asked))
    }

    pub(crate) fn sleep_machine(&self, span: Duration) {
        *lock(&self.slept) += span;
    }

    async fn dialed(self, endpoint: Endpoint) -> io::Result<Link> {
        let host = endpoint.host().to_owned();
        let asked = Asked {
            host: host.clone(),
            what: "refused".into(),
            key: None,
            retry_ms: None,
            last_event: None,
            body: Value::Null,
            after: self.began.elapsed(),
        };
        let refuses = {
            let mut script = lock(&self.script);
            match script.front() {
                Some(Says::Refuses) => script.pop_front().is_some(),
                Some(_) => false,
                None => matches!((self.otherwise)(&asked), Says::Refuses),
            }
        };
        if refuses {
            lock(&self.log).push(asked);
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move {
            let service = service_fn(move |request| self.clone().serve(host.clone(), request));
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service).await;
        });
        Ok(Link::new(near))
    }

    async fn serve(
        self,
        host: String,
        request: Request<Incoming>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, io::Error>>, io::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let header = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let asked = Asked {
            host,
            what: format!("{} {}", head.method, head.uri),
            key: header("idempotency-key"),
            retry_ms: header("tenure-retry").map(|value| value.parse().unwrap()),
            last_event: header("last-event-id"),
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
            after: self.began.elapsed(),
        };
        let says = self.says(&asked);
        lock(&self.log).push(asked);
        match says {
            Says::Refuses | Says::Drops => Err(io::ErrorKind::ConnectionAborted.into()),
            Says::Hangs => {
                sleep(Duration::from_secs(1_000_000)).await;
                Err(io::ErrorKind::TimedOut.into())
            }
            Says::Ok(value) => Ok(answer(200, &value)),
            Says::Status(status, value) => Ok(answer(status, &value)),
            Says::Problem(code) => Ok(problem(Problem::new(code))),
            Says::ProblemAfter(code, millis) => {
                Ok(problem(Problem { retry_after_ms: Some(millis), ..Problem::new(code) }))
            }
            Says::Streams(pieces) => {
                let pieces = stream::iter(pieces).then(|(after, piece)| async move {
                    sleep(after).await;
                    Ok(Frame::data(Bytes::from(piece)))
                });
                // The earlier pieces are sent first.
                let broken = stream::once(async {
                    sleep(Duration::from_millis(1)).await;
                    Err(io::Error::from(io::ErrorKind::ConnectionReset))
                });
                let mut response = Response::new(StreamBody::new(pieces.chain(broken)).boxed_unsync());
                response.headers_mut().insert("connection", "close".parse().unwrap());
                Ok(response)
            }
        }
    }
}

fn problem(problem: Problem) -> Response<UnsyncBoxBody<Bytes, io::Error>> {
    answer(problem.status, &serde_json::to_value(problem).unwrap())
}

/// An answer that closes its connection, so that every attempt connects anew.
fn answer(status: u16, value: &Value) -> Response<UnsyncBoxBody<Bytes, io::Error>> {
    let body = Full::new(Bytes::from(value.to_string())).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response.headers_mut().insert("connection", "close".parse().unwrap());
    response
}

pub(crate) fn actor(name: &str) -> ActorId {
    ActorId::new(name).unwrap()
}

pub(crate) fn item(name: &str) -> lease::names::ItemId {
    lease::names::ItemId::new(name).unwrap()
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
