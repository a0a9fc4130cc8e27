//! Events as they happen: one stream over whichever nodes serve it, without gaps and without repeats.

mod frame;

use crate::call::Call;
use crate::path::Path;
use crate::retry::{Opened, backoff};
use crate::{Client, Error};
use api::event::Event;
use api::limits::HEARTBEAT;
use api::names::Number;
use api::query::StreamQuery;
use api::stream::{END, End};
use api::{Code, Problem};
use frame::{Frame, Frames};
use futures_util::{Stream, stream};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// If two heartbeats of the node are missing, the connection is dead.
const SILENCE: Duration = HEARTBEAT.saturating_mul(2).saturating_add(Duration::from_secs(5));

/// Why a stream ended. Returned at most once; nothing follows it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// Events after the position are no longer kept. Events after `kept_after` are.
    #[error("{}", too_old(*.kept_after))]
    PositionTooOld { kept_after: Option<Number> },
    /// The API key is no longer known.
    #[error("the API key is no longer known")]
    Unauthenticated,
    /// The node refuses this stream to this caller.
    #[error("refused, {}", .0.code.name())]
    Refused(Box<Problem>),
    /// The connection broke before the node reported the position at which the stream begins. Continuing from now would
    /// leave an invisible gap: read the state, and watch again.
    #[error("the connection broke before the stream had a position")]
    NoPosition,
    /// The server that answered is not a node, or its answer cannot be decoded.
    #[error("{0}")]
    Invalid(String),
}

fn too_old(kept_after: Option<Number>) -> String {
    match kept_after {
        None => "events at that position are no longer kept".into(),
        Some(kept) => format!("only events after {kept} are kept"),
    }
}

/// Events of a space, from a position onwards.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    /// Without its position.
    query: StreamQuery,
    /// All events up to here were returned, or do not match the query.
    position: Option<Number>,
    open: Option<(Incoming, Frames)>,
    failed: u32,
    is_over: bool,
}

impl Client {
    /// Starts to watch: every event after this call returns is seen. The stream then continues by itself, on any node.
    ///
    /// # Errors
    /// If no node starts the stream in time, or it is refused.
    pub async fn watch(&self, query: &StreamQuery) -> Result<Watch, Error> {
        let mut watch = Watch {
            client: self.clone(),
            query: StreamQuery { after: None, ..query.clone() },
            position: query.after,
            open: None,
            failed: 0,
            is_over: false,
        };
        watch.connect().await?;
        Ok(watch)
    }
}

impl Watch {
    /// The position of the stream. Pass it as `after` to continue from there with another stream.
    #[must_use]
    pub fn position(&self) -> Option<Number> {
        self.position
    }

    /// The next event; `None` after the end. The future can be dropped and called again without losing an event.
    pub async fn next(&mut self) -> Option<Result<Event, Ended>> {
        if self.is_over {
            return None;
        }
        let next = self.wait().await;
        self.is_over = next.is_err();
        Some(next)
    }

    pub fn into_stream(self) -> impl Stream<Item = Result<Event, Ended>> + Send {
        stream::unfold(self, |mut watch| async move { watch.next().await.map(|next| (next, watch)) })
    }

    async fn wait(&mut self) -> Result<Event, Ended> {
        loop {
            let Some((body, frames)) = &mut self.open else {
                self.reconnect().await?;
                continue;
            };
            let Some(frame) = frames.next() else {
                match timeout(SILENCE, body.frame()).await {
                    Ok(Some(Ok(read))) => {
                        if let Ok(bytes) = read.into_data()
                            && !frames.add(&bytes)
                        {
                            self.lose("a frame is too long");
                        }
                    }
                    Ok(Some(Err(error))) => self.lose(&error.to_string()),
                    Ok(None) => self.lose("the node ended the stream without a reason"),
                    Err(_) => self.lose("no heartbeat"),
                }
                continue;
            };
            self.failed = 0;
            if let Some(event) = self.take(frame)? {
                return Ok(event);
            }
        }
    }

    fn take(&mut self, frame: Frame) -> Result<Option<Event>, Ended> {
        let position = frame.id.as_deref().and_then(|id| id.parse::<Number>().ok());
        if frame.event.as_deref() == Some(END) {
            self.position = self.position.max(position);
            return self.ended(&frame.data).map(|()| None);
        }
        if frame.data.is_empty() {
            self.position = self.position.max(position);
            return Ok(None);
        }
        let event: Event = serde_json::from_str(&frame.data)
            .map_err(|error| Ended::Invalid(format!("cannot decode an event: {error}")))?;
        if self.position.is_some_and(|position| event.number <= position) {
            return Ok(None);
        }
        self.position = Some(event.number);
        Ok(Some(event))
    }

    /// Handles a node's reason for ending the stream: continues on another node, or ends.
    fn ended(&mut self, data: &str) -> Result<(), Ended> {
        match serde_json::from_str(data) {
            Ok(End::PositionTooOld(problem)) => Err(Ended::PositionTooOld { kept_after: problem.kept_after }),
            Ok(End::Unauthenticated { .. }) => Err(Ended::Unauthenticated),
            Ok(End::SlowReader { .. } | End::Stopping { .. } | End::Internal(_)) | Err(_) => {
                self.lose(data);
                Ok(())
            }
        }
    }

    fn lose(&mut self, why: &str) {
        tracing::debug!(why, position = ?self.position, "an event stream continues on another node");
        self.open = None;
        let (at, _) = self.client.endpoints.current();
        self.client.endpoints.leave(at);
    }

    /// Reconnects without a time limit: the caller decides when to stop.
    async fn reconnect(&mut self) -> Result<(), Ended> {
        if self.position.is_none() {
            return Err(Ended::NoPosition);
        }
        if self.failed > 0 {
            sleep(backoff(self.failed)).await;
        }
        self.failed += 1;
        match self.connect().await {
            Ok(()) => Ok(()),
            Err(Error::Unavailable { .. } | Error::Unknown { .. }) => Ok(()),
            Err(Error::Invalid(why)) => Err(Ended::Invalid(why)),
            Err(Error::Refused(problem)) => Err(match problem.code {
                Code::PositionTooOld => Ended::PositionTooOld { kept_after: problem.kept_after },
                Code::Unauthenticated => Ended::Unauthenticated,
                _ => Ended::Refused(problem),
            }),
        }
    }

    async fn connect(&mut self) -> Result<(), Error> {
        let path = Path::new("/v1/events/stream").with(&self.query);
        let call = Call::<()>::get(&self.client, path).set(|spec| spec.resume_after = self.position);
        let Opened { body, .. } = call.opened().await?;
        self.open = Some((body, Frames::default()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, Says};
    use serde_json::json;

    fn event(seq: u64) -> String {
        let event = json!({
            "number": format!("0.{seq}"), "at_ms": seq, "at": "2026-01-01T00:00:00.000Z", "kind": "created", "item": "disk",
        });
        format!("id: 0.{seq}\nevent: created\ndata: {event}\n\n")
    }

    fn soon(text: impl Into<String>) -> (Duration, String) {
        (Duration::from_millis(1), text.into())
    }

    fn end(reason: &str) -> (Duration, String) {
        let data = json!({ "reason": reason, "detail": "over" });
        soon(format!("event: end\nid: 0.9\ndata: {data}\n\n"))
    }

    async fn seen(fake: &Fake, after: Option<Number>) -> (Vec<u64>, Option<Ended>) {
        let client = fake.client(&["a", "b"]);
        let mut watch = client.watch(&StreamQuery { after, ..StreamQuery::default() }).await.unwrap();
        let mut numbers = Vec::new();
        while let Some(next) = watch.next().await {
            match next {
                Ok(event) => numbers.push(event.number.0.seq),
                Err(ended) => {
                    assert!(watch.next().await.is_none());
                    return (numbers, Some(ended));
                }
            }
        }
        (numbers, None)
    }

    fn after(seq: u64) -> Option<Number> {
        format!("0.{seq}").parse().ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_continues_elsewhere_after_the_last_complete_event() {
        let half = event(4)[..40].to_owned();
        let fake = Fake::new([
            Says::Streams(vec![soon(event(2)), soon(event(3) + &half)]),
            Says::Refuses,
            Says::Problem(Code::Unavailable),
            Says::Streams(vec![soon(event(3)), soon(event(4)), soon(": heartbeat\nid: 0.7\n\n")]),
            Says::Streams(vec![soon(event(8)), end("stopping")]),
            Says::Streams(vec![end("unauthenticated")]),
        ]);
        assert_eq!(seen(&fake, after(1)).await, (vec![2, 3, 4, 8], Some(Ended::Unauthenticated)));
        let positions: Vec<_> = fake.log().into_iter().filter_map(|asked| asked.last_event).collect();
        assert_eq!(positions, ["0.1", "0.3", "0.3", "0.7", "0.9"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_without_a_heartbeat_is_dead() {
        let silence = (Duration::from_secs(600), event(9));
        let problem = Problem { kept_after: after(8), ..Problem::new(Code::PositionTooOld) };
        let too_old = serde_json::to_string(&End::from(Box::new(problem))).unwrap();
        let fake = Fake::new([
            Says::Streams(vec![soon(event(2)), silence]),
            Says::Streams(vec![soon(event(3)), soon(format!("event: end\ndata: {too_old}\n\n"))]),
        ]);
        let ended = Ended::PositionTooOld { kept_after: after(8) };
        assert_eq!(seen(&fake, after(1)).await, (vec![2, 3], Some(ended)));
        let waited = fake.log()[1].after;
        assert!(waited >= SILENCE && waited < SILENCE + Duration::from_secs(5), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_without_a_position_ends_instead_of_continuing() {
        let fake = Fake::new([Says::Streams(vec![])]);
        assert_eq!(seen(&fake, None).await, (vec![], Some(Ended::NoPosition)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_position_that_is_refused_later_ends_the_stream() {
        let fake = Fake::new([Says::Streams(vec![soon(event(2))]), Says::Problem(Code::PositionTooOld)]);
        assert_eq!(seen(&fake, after(1)).await.1, Some(Ended::PositionTooOld { kept_after: None }));
        let fake = Fake::new([Says::Problem(Code::Forbidden)]);
        let error = fake.client(&["a"]).watch(&StreamQuery::default()).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::Forbidden));
    }
}
