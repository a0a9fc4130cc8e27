//! A caller of the edge over HTTP/1.1, with one connection per call, so that a call that was not sent differs from one
//! whose response was lost.

use crate::contract::Contract;
use crate::people::api_key;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use raft_store::types::NodeId;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use test_support::within;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

const PROBLEM: &str = "application/problem+json";

/// A caller with an API key, at one of the nodes.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) contract: Arc<Contract>,
    pub(crate) addresses: Arc<BTreeMap<NodeId, String>>,
    pub(crate) node: NodeId,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Caller {
    pub(crate) fn at(&self, node: NodeId) -> Self {
        Self { node, ..self.clone() }
    }

    pub(crate) fn with(&self, name: &'static str, value: &str) -> Self {
        let mut caller = self.clone();
        caller.headers.retain(|(header, _)| *header != name);
        caller.headers.push((name, value.to_owned()));
        caller
    }

    pub(crate) fn session(&self, session: &str) -> Self {
        self.with("tenure-session", session)
    }

    pub(crate) fn space(&self, space: &str) -> Self {
        self.with("tenure-space", space)
    }

    pub(crate) fn is_in(&self, space: &str) -> bool {
        self.headers.iter().any(|(name, value)| *name == "tenure-space" && value == space)
    }

    pub(crate) fn key(&self, key: &str) -> Self {
        self.with("idempotency-key", key)
    }

    pub(crate) fn with_api_key(&self, actor: &str) -> Self {
        self.with("authorization", &format!("Bearer {}", api_key(actor)))
    }

    /// A call with a binary body.
    pub(crate) fn upload(&self, path: impl Into<String>, bytes: Bytes) -> Ask {
        let (caller, body) = (self.clone(), Some(bytes.to_vec()));
        Ask { caller, method: "POST", path: path.into(), kind: "application/octet-stream", body }
    }

    pub(crate) fn get(&self, path: impl Into<String>) -> Ask {
        self.ask("GET", path, None)
    }

    pub(crate) fn post(&self, path: impl Into<String>, body: Value) -> Ask {
        self.ask("POST", path, Some(body))
    }

    pub(crate) fn patch(&self, path: impl Into<String>, body: Value) -> Ask {
        self.ask("PATCH", path, Some(body))
    }

    pub(crate) fn put(&self, path: impl Into<String>, body: Value) -> Ask {
        self.ask("PUT", path, Some(body))
    }

    pub(crate) fn delete(&self, path: impl Into<String>) -> Ask {
        self.ask("DELETE", path, None)
    }

    pub(crate) fn ask(&self, method: &'static str, path: impl Into<String>, body: Option<Value>) -> Ask {
        let body = body.map(|body| body.to_string().into_bytes());
        Ask { caller: self.clone(), method, path: path.into(), kind: "application/json", body }
    }
}

/// A call that has not been sent yet.
pub(crate) struct Ask {
    caller: Caller,
    method: &'static str,
    path: String,
    kind: &'static str,
    body: Option<Vec<u8>>,
}

/// The outcome of sending a call.
#[derive(Debug)]
pub(crate) enum Sent {
    Answered(Answer),
    /// The node was not reachable.
    Unreached,
    /// It may have happened.
    Lost,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl Ask {
    /// Sends another content type than the body has.
    pub(crate) fn typed(self, kind: &'static str) -> Self {
        Self { kind, ..self }
    }

    pub(crate) async fn send(self) -> Sent {
        let (response, _connection) = match self.open().await {
            Ok(opened) => opened,
            Err(sent) => return sent,
        };
        let (parts, body) = response.into_parts();
        let Ok(body) = within("the whole answer", body.collect()).await else { return Sent::Lost };
        let answer = Answer { status: parts.status.as_u16(), headers: parts.headers, bytes: body.to_bytes() };
        self.check(&answer);
        Sent::Answered(answer)
    }

    pub(crate) async fn answer(self) -> Answer {
        let of = format!("{} {} at node {}", self.method, self.path, self.caller.node);
        match self.send().await {
            Sent::Answered(answer) => answer,
            other => panic!("{of}: {other:?}"),
        }
    }

    /// The body of a success.
    pub(crate) async fn ok(self) -> Value {
        let of = format!("{} {} at node {}", self.method, self.path, self.caller.node);
        let answer = self.answer().await;
        assert!(answer.status < 300, "{of}: {answer:?}");
        answer.json()
    }

    /// The problem of a refusal with this code.
    pub(crate) async fn refused(self, code: &str) -> Value {
        let of = format!("{} {} at node {}", self.method, self.path, self.caller.node);
        let problem = self.answer().await.json();
        assert_eq!(problem["code"], code, "{of}: {problem}");
        problem
    }

    async fn open(&self) -> Result<(Response<Incoming>, Connection), Sent> {
        let address = &self.caller.addresses[&self.caller.node];
        let Ok(stream) = TcpStream::connect(address).await else { return Err(Sent::Unreached) };
        let Ok((mut sender, connection)) = http1::handshake(TokioIo::new(stream)).await else {
            return Err(Sent::Unreached);
        };
        let connection = Connection(tokio::spawn(async move { drop(connection.await) }));
        let mut request = Request::builder().method(self.method).uri(&self.path).header(HOST, address);
        for (name, value) in &self.caller.headers {
            request = request.header(*name, value);
        }
        if self.body.is_some() {
            request = request.header(CONTENT_TYPE, self.kind);
        }
        let body = Full::new(Bytes::from(self.body.clone().unwrap_or_default()));
        self.caller.contract.ask();
        let sending = sender.send_request(request.body(body).unwrap());
        match within("an answer", sending).await {
            Ok(response) => Ok((response, connection)),
            Err(_) => Err(Sent::Lost),
        }
    }

    fn check(&self, answer: &Answer) {
        let kind = answer.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let body = if kind.contains("json") { answer.json() } else { Value::Null };
        let problem = (kind == PROBLEM).then_some(&body);
        let named = answer.headers.get("tenure-request-id").and_then(|id| id.to_str().ok());
        assert!(named.is_some(), "an answer without its request's id: {answer:?}");
        if let Some(problem) = problem {
            assert_eq!(problem["request_id"].as_str(), named, "{problem}");
        }
        // Health checks respond without a problem.
        if self.path.starts_with("/v1/") {
            let Self { caller, method, path, .. } = self;
            caller.contract.check(caller.node, method, path, answer.status, problem, &body);
        }
    }

    /// Opens a stream of events.
    pub(crate) async fn follow(self) -> Events {
        let path = self.path.clone();
        self.try_follow().await.unwrap_or_else(|sent| panic!("{path}: {sent:?}"))
    }

    /// Like [`Ask::follow`], for a node that may be down or reject the call.
    pub(crate) async fn try_follow(self) -> Result<Events, Sent> {
        let (response, connection) = self.open().await?;
        let (parts, body) = response.into_parts();
        if parts.status != 200 {
            let Ok(body) = within("the whole answer", body.collect()).await else { return Err(Sent::Lost) };
            let answer = Answer { status: parts.status.as_u16(), headers: parts.headers, bytes: body.to_bytes() };
            self.check(&answer);
            return Err(Sent::Answered(answer));
        }
        self.check(&Answer { status: 200, headers: parts.headers, bytes: Bytes::new() });
        Ok(Events { body, text: String::new(), raw: String::new(), _connection: connection })
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Everything that was received, headers included.
    pub(crate) fn raw(&self) -> String {
        format!("{:?}\n{}", self.headers, String::from_utf8_lossy(&self.bytes))
    }
}

/// A connection that is closed on drop.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A stream of server-sent events.
pub(crate) struct Events {
    body: Incoming,
    text: String,
    /// Everything that was received.
    pub(crate) raw: String,
    _connection: Connection,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) id: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) data: Option<Value>,
}

impl Events {
    /// None: the stream is over, or cut off.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (frame, rest) = (read(frame), rest.to_owned());
                self.text = rest;
                return Some(frame);
            }
            let got = within("something on the stream", self.body.frame()).await?.ok()?;
            let text = String::from_utf8_lossy(got.data_ref().map_or(&b""[..], |data| data)).into_owned();
            self.raw += &text;
            self.text += &text;
        }
    }
}

fn read(text: &str) -> Frame {
    let mut frame = Frame::default();
    for line in text.lines() {
        match line.split_once(": ") {
            Some(("id", id)) => frame.id = Some(id.to_owned()),
            Some(("event", event)) => frame.event = Some(event.to_owned()),
            Some(("data", data)) => frame.data = Some(serde_json::from_str(data).unwrap()),
            _ => {}
        }
    }
    frame
}
