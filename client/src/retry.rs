//! Decides when and where a request is sent again, and which error is returned when it no longer is.
//!
//! All attempts of a call have one request id. An attempt that was sent and not answered puts the call in doubt: from
//! then on attempts are marked as repeats, and only an answer about the first attempt ends the doubt. A call that may
//! have had an effect is never reported as failed.

use crate::client::random_name;
use crate::clock::Moment;
use crate::endpoint::Endpoint;
use crate::request::{Effect, RequestSpec};
use crate::transport::{NoAnswer, Upload};
use crate::{Client, Error};
use api::headers::{IDEMPOTENCY_KEY, LAST_EVENT_ID, RETRY};
use api::{Code, Problem, TookEffect};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, IF_MATCH};
use hyper::{Method, Request, StatusCode};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// The first wait between rounds; each further one is up to twice as long.
const BACKOFF: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// Nodes do not run a repeat that comes later than this: they may have forgotten the first attempt.
pub(crate) const REPEAT_WITHIN: Duration = Duration::from_millis(lease::bounds::REPEAT_WITHIN.0);
/// Maximum size of an answer, more than any page that a node sends.
const BODY_MAX: usize = 64 * 1024 * 1024;

/// A successful answer.
#[derive(Debug)]
pub(crate) struct RawReply {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) sent_at: Moment,
    pub(crate) request_id: String,
}

/// A successful answer whose body has not been read yet.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Incoming,
}

pub(crate) async fn run(client: &Client, spec: &RequestSpec) -> Result<RawReply, Error> {
    let received = Attempts::new(client, spec)?.run(Reads::Whole).await?;
    match received.body {
        Body::Whole(body) => {
            Ok(RawReply { headers: received.headers, body, sent_at: received.sent_at, request_id: received.request_id })
        }
        Body::Stream(_) => Err(Error::Invalid("the answer's body was not read".into())),
    }
}

pub(crate) async fn open(client: &Client, spec: &RequestSpec) -> Result<Opened, Error> {
    let received = Attempts::new(client, spec)?.run(Reads::Head).await?;
    match received.body {
        Body::Stream(body) => Ok(Opened { headers: received.headers, body }),
        Body::Whole(_) => Err(Error::Invalid("the answer's body was read too early".into())),
    }
}

/// Sends a streamed body to one node, without a retry: what was read from the stream is gone.
pub(crate) async fn upload(client: &Client, at: &Endpoint, path: &str, body: Upload) -> Result<Bytes, Error> {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.uri_mut() = at.uri(path)?;
    *request.headers_mut() = (*client.headers).clone();
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    let key = random_name()?;
    let value =
        HeaderValue::from_str(&key).map_err(|_| Error::Invalid(format!("{key:?} cannot be sent as a header")))?;
    request.headers_mut().insert(IDEMPOTENCY_KEY, value);
    let answering = async {
        let (head, body) = client.shared.transport.upload(request).await?.into_parts();
        let body = Limited::new(body, BODY_MAX).collect().await;
        let body = body.map_err(|error| NoAnswer::Lost(format!("the answer was cut off: {error}")))?;
        Ok((head.status, body.to_bytes()))
    };
    let verdict = match answering.await {
        Ok((status, body)) if status.is_success() => return Ok(body),
        Ok((status, body)) => of_answer(status, &Body::Whole(body)),
        Err(no_answer) => of_silence(no_answer),
    };
    Err(match verdict {
        Verdict::Over(error) | Verdict::TurnedAway(error) => error,
        Verdict::Again { why, after } => {
            let retry_after_ms = after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
            Error::Unavailable { why, retry_after_ms }
        }
        Verdict::InDoubt { why, .. } => Error::Unknown { why, request_id: key },
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Head,
    Whole,
}

enum Body {
    Whole(Bytes),
    Stream(Incoming),
}

/// A successful answer, with its body read or not.
struct Received {
    headers: HeaderMap,
    body: Body,
    sent_at: Moment,
    request_id: String,
}

/// What an attempt means for the call.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The call is over: this is the answer.
    Over(Error),
    /// The call is over, unless an earlier attempt is in doubt: this attempt was refused before the node looked for an
    /// earlier one.
    TurnedAway(Error),
    /// This attempt had no effect: try again.
    Again { why: String, after: Option<Duration> },
    /// This attempt may have had an effect.
    InDoubt { why: String, after: Option<Duration> },
}

struct Attempts<'c> {
    client: &'c Client,
    spec: &'c RequestSpec,
    key: String,
    /// On the clock that counts the machine's sleep: nodes do not sleep with this machine.
    began: Moment,
    deadline: Instant,
    /// Why an attempt may have had an effect.
    doubt: Option<String>,
    /// Number of failed attempts.
    failed: usize,
}

impl<'c> Attempts<'c> {
    fn new(client: &'c Client, spec: &'c RequestSpec) -> Result<Self, Error> {
        let key = match &spec.key {
            Some(key) => key.clone(),
            None => random_name()?,
        };
        let within = spec.within.unwrap_or(client.shared.within).saturating_add(spec.waits);
        let doubt = spec.repeat_after.map(|_| "an earlier attempt got no answer".to_owned());
        let (began, deadline) = (client.shared.clock.now(), Instant::now() + within);
        Ok(Self { client, spec, key, began, deadline, doubt, failed: 0 })
    }

    /// How long ago the first attempt was made.
    fn age(&self) -> Duration {
        self.spec.repeat_after.unwrap_or_default().saturating_add(self.began.until(self.client.shared.clock.now()))
    }

    /// How long a repeat may still be sent. `None`: until the call's time limit.
    fn repeat_within(&self) -> Option<Duration> {
        let is_limited = self.spec.effect == Effect::Once && self.doubt.is_some();
        is_limited.then(|| REPEAT_WITHIN.saturating_sub(self.age()))
    }

    async fn run(mut self, reads: Reads) -> Result<Received, Error> {
        loop {
            let (at, endpoint) = match &self.spec.only_at {
                Some(endpoint) => (None, endpoint),
                None => {
                    let (at, endpoint) = self.client.endpoints.current();
                    (Some(at), endpoint)
                }
            };
            let request = self.request(endpoint)?;
            let sent_at = self.client.shared.clock.now();
            let answer = self.attempt(request, reads).await;
            let verdict = match answer {
                Ok((head, body)) if head.status.is_success() || self.is_accepted(head.status) => {
                    return Ok(Received { headers: head.headers, body, sent_at, request_id: self.key });
                }
                Ok((head, body)) => of_answer(head.status, &body),
                Err(no_answer) => of_silence(no_answer),
            };
            tracing::debug!(%endpoint, path = self.spec.path, ?verdict, "a request was not served");
            let (why, after) = match verdict {
                Verdict::Over(error) => return Err(error),
                Verdict::TurnedAway(error) => return Err(self.in_doubt().unwrap_or(error)),
                Verdict::Again { why, after } => (why, after),
                Verdict::InDoubt { why, after } => {
                    self.doubt = Some(why.clone());
                    (why, after)
                }
            };
            if let Some(at) = at {
                self.client.endpoints.leave(at);
            }
            self.failed += 1;
            self.pause(why, after).await?;
        }
    }

    fn request(&self, endpoint: &Endpoint) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::new(Full::new(self.spec.body.clone()));
        *request.method_mut() = self.spec.method.clone();
        *request.uri_mut() = endpoint.uri(&self.spec.path)?;
        let headers = request.headers_mut();
        *headers = (*self.client.headers).clone();
        let value = |text: &str| {
            HeaderValue::from_str(text).map_err(|_| Error::Invalid(format!("{text:?} cannot be sent as a header")))
        };
        if !self.spec.body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if self.spec.effect != Effect::Nothing {
            headers.insert(IDEMPOTENCY_KEY, value(&self.key)?);
            if self.doubt.is_some() {
                headers.insert(RETRY, u64::try_from(self.age().as_millis()).unwrap_or(u64::MAX).into());
            }
        }
        if let Some(revision) = self.spec.read_at {
            headers.insert(IF_MATCH, value(&format!("\"{revision}\""))?);
        }
        if let Some(position) = self.spec.resume_after {
            headers.insert(LAST_EVENT_ID, value(&position.to_string())?);
        }
        Ok(request)
    }

    async fn attempt(
        &self,
        request: Request<Full<Bytes>>,
        reads: Reads,
    ) -> Result<(hyper::http::response::Parts, Body), NoAnswer> {
        let within = self.spec.attempt_within.unwrap_or(self.client.shared.attempt_within);
        let by = self.deadline.min(Instant::now() + within.saturating_add(self.spec.waits));
        let answering = async {
            let (head, body) = self.client.shared.transport.send(request).await?.into_parts();
            if reads == Reads::Head && head.status.is_success() {
                return Ok((head, Body::Stream(body)));
            }
            let body = Limited::new(body, BODY_MAX).collect().await;
            let body = body.map_err(|error| NoAnswer::Lost(format!("the answer was cut off: {error}")))?;
            Ok((head, Body::Whole(body.to_bytes())))
        };
        // It is not known whether the request was sent by then.
        timeout_at(by, answering).await.unwrap_or_else(|_| Err(NoAnswer::Lost("no answer in time".into())))
    }

    /// Waits before the next attempt, or returns the error that ends the call.
    async fn pause(&self, why: String, after: Option<Duration>) -> Result<(), Error> {
        let nodes = if self.spec.only_at.is_some() { 1 } else { self.client.endpoints.all().len() };
        let round = self.failed / nodes;
        let wait = match after {
            Some(after) => after + jitter(BACKOFF),
            // Try the other nodes at once.
            None if !self.failed.is_multiple_of(nodes) => Duration::ZERO,
            None => jitter(BACKOFF.saturating_mul(1 << round.min(16)).min(BACKOFF_MAX)),
        };
        if Instant::now() + wait >= self.deadline || self.repeat_within().is_some_and(|left| left <= wait) {
            return Err(self.in_doubt().unwrap_or_else(|| Error::Unavailable {
                why,
                retry_after_ms: after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
            }));
        }
        sleep(wait).await;
        // The machine may have slept much longer than `wait`.
        match self.in_doubt().filter(|_| self.repeat_within() == Some(Duration::ZERO)) {
            Some(unknown) => Err(unknown),
            None => Ok(()),
        }
    }

    fn is_accepted(&self, status: StatusCode) -> bool {
        self.spec.accepts_503 && status == StatusCode::SERVICE_UNAVAILABLE
    }

    fn in_doubt(&self) -> Option<Error> {
        match self.spec.effect {
            Effect::Nothing => None,
            Effect::Once | Effect::Same => {
                self.doubt.clone().map(|why| Error::Unknown { why, request_id: self.key.clone() })
            }
        }
    }
}

fn of_silence(no_answer: NoAnswer) -> Verdict {
    match no_answer {
        NoAnswer::NotSent(why) => Verdict::Again { why, after: None },
        NoAnswer::Lost(why) => Verdict::InDoubt { why, after: None },
    }
}

fn of_answer(status: StatusCode, body: &Body) -> Verdict {
    let bytes = match body {
        Body::Whole(bytes) => bytes.as_ref(),
        Body::Stream(_) => &[],
    };
    match serde_json::from_slice::<Problem>(bytes) {
        Ok(problem) => of_problem(problem),
        // From a proxy in between: it is not known whether a node saw the request.
        Err(_) if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
            Verdict::InDoubt { why: format!("got {status} from something that is not a node"), after: None }
        }
        Err(_) => Verdict::TurnedAway(Error::Invalid(format!("got {status}: is this a Tenure node?"))),
    }
}

fn of_problem(problem: Problem) -> Verdict {
    let after = problem.retry_after_ms.map(Duration::from_millis);
    let why = || {
        let detail = problem.detail.as_deref().unwrap_or(&problem.title);
        format!("{}: {detail}", problem.code.name())
    };
    match problem.code {
        Code::Unavailable | Code::Overloaded | Code::RateLimited | Code::TooSlow => {
            Verdict::Again { why: why(), after }
        }
        Code::RequestForgotten => {
            let request_id = problem.request_id.clone().unwrap_or_default();
            Verdict::Over(Error::Unknown { why: why(), request_id })
        }
        code if code.took_effect() != TookEffect::No => Verdict::InDoubt { why: why(), after },
        // Nodes check these, and everything that is not a refusal of the rules, before they look for an earlier attempt
        // with this request id.
        Code::Forbidden | Code::RejectedByPolicy => Verdict::TurnedAway(Error::Refused(Box::new(problem))),
        code if code.core().is_none() => Verdict::TurnedAway(Error::Refused(Box::new(problem))),
        _ => Verdict::Over(Error::Refused(Box::new(problem))),
    }
}

/// A random time of at most `max`, so that callers that failed together do not retry together.
pub(crate) fn jitter(max: Duration) -> Duration {
    let share = getrandom::u64().unwrap_or(u64::MAX) >> 32;
    max.mul_f64(f64::from(u32::try_from(share).unwrap_or(u32::MAX)) / f64::from(u32::MAX))
}

/// The wait before the next attempt after this many failed ones.
pub(crate) fn backoff(failed: u32) -> Duration {
    jitter(BACKOFF.saturating_mul(1 << failed.min(16)).min(BACKOFF_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_without_an_effect_are_retried_or_returned_and_no_others() {
        for code in Code::ALL {
            let verdict = of_problem(Problem::new(*code));
            match code.took_effect() {
                TookEffect::No => assert!(!matches!(verdict, Verdict::InDoubt { .. }), "{code:?}"),
                TookEffect::Unknown | TookEffect::Yes => {
                    let is_doubt = matches!(verdict, Verdict::InDoubt { .. } | Verdict::Over(Error::Unknown { .. }));
                    assert!(is_doubt, "{code:?}");
                }
            }
            if matches!(verdict, Verdict::Again { .. } | Verdict::InDoubt { .. }) {
                assert!(code.may_retry(), "{code:?}");
            }
        }
    }

    #[test]
    fn refusals_that_nodes_check_before_they_look_for_an_earlier_attempt_end_no_doubt() {
        let is_turned_away = |code: &&Code| matches!(of_problem(Problem::new(**code)), Verdict::TurnedAway(_));
        let codes: Vec<_> = Code::ALL.iter().filter(is_turned_away).map(|code| code.name()).collect();
        assert_eq!(
            codes.join(" "),
            "forbidden rejected_by_policy unauthenticated method_not_allowed unsupported_media_type too_large \
             position_too_old change_refused"
        );
    }

    use crate::fake::{Fake, Says, item};
    use api::hold::Release;
    use serde_json::json;

    fn released() -> Says {
        Says::Ok(json!({ "item": "disk", "released": true, "unassigned": true }))
    }

    async fn release(fake: &Fake, hosts: &[&str]) -> Result<api::hold::Released, Error> {
        fake.client(hosts).release(&item("disk"), &Release::default()).await
    }

    /// Whether each attempt was marked as a repeat.
    fn repeats(fake: &Fake) -> Vec<bool> {
        fake.log().iter().map(|asked| asked.retry_ms.is_some()).collect()
    }

    fn one_key(fake: &Fake) -> bool {
        let keys: Vec<_> = fake.log().into_iter().filter_map(|asked| asked.key).collect();
        !keys.is_empty() && keys.iter().all(|key| *key == keys[0])
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_that_are_down_or_leaderless_are_skipped_at_once() {
        let fake = Fake::new([Says::Refuses, Says::Problem(Code::Unavailable), released()]);
        assert!(release(&fake, &["a", "b", "c"]).await.unwrap().released);
        let log = fake.log();
        assert_eq!(log.iter().map(|asked| asked.host.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(repeats(&fake), [false, false, false]);
        assert_eq!(log[2].after, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn the_node_that_served_is_asked_first_next_time() {
        let fake = Fake::new([Says::Refuses, released(), released()]);
        let client = fake.client(&["a", "b"]);
        for _ in 0..2 {
            client.release(&item("disk"), &Release::default()).await.unwrap();
        }
        assert_eq!(fake.asked()[1..], ["b POST /v1/items/disk/release", "b POST /v1/items/disk/release"]);
    }

    #[tokio::test(start_paused = true)]
    async fn lost_answers_are_requested_again_with_the_same_id() {
        let fake = Fake::new([Says::Drops, Says::Hangs, Says::Problem(Code::Unknown), released()]);
        assert!(release(&fake, &["a", "b"]).await.unwrap().released);
        assert_eq!(repeats(&fake), [false, true, true, true]);
        assert!(one_key(&fake));
    }

    #[tokio::test(start_paused = true)]
    async fn each_call_has_a_new_id_unless_the_caller_sets_one() {
        let fake = Fake::new([released(), released(), released()]);
        let client = fake.client(&["a"]);
        for _ in 0..2 {
            client.release(&item("disk"), &Release::default()).await.unwrap();
        }
        let repeated = client.release(&item("disk"), &Release::default()).key("mine").repeated(Duration::from_secs(7));
        repeated.await.unwrap();
        let log = fake.log();
        assert_ne!(log[0].key, log[1].key);
        assert_eq!((log[2].key.as_deref(), log[2].retry_ms), (Some("mine"), Some(7_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_returned_at_once() {
        let fake = Fake::new([Says::Problem(Code::NotHolder)]);
        let error = release(&fake, &["a", "b"]).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::NotHolder));
        assert_eq!(error.took_effect(), TookEffect::No);
        assert_eq!(fake.log().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_not_asked_before_its_retry_after() {
        let fake = Fake::new([Says::ProblemAfter(Code::Overloaded, 1_500), released()]);
        release(&fake, &["a"]).await.unwrap();
        let after = fake.log()[1].after;
        assert!(after >= Duration::from_millis(1_500) && after < Duration::from_millis(1_600), "{after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_no_node_accepted_had_no_effect() {
        let fake = Fake::new([]);
        let began = Instant::now();
        let error = release(&fake, &["a", "b"]).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert_eq!(error.took_effect(), TookEffect::No);
        assert!(began.elapsed() > Duration::from_secs(27) && began.elapsed() <= Duration::from_secs(30));
        assert!(fake.log().len() > 20);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_request_stays_unknown_whatever_later_attempts_return() {
        for later in [
            Says::Refuses,
            Says::Problem(Code::Unavailable),
            Says::ProblemAfter(Code::Overloaded, 60_000),
            Says::Problem(Code::Unauthenticated),
            Says::Problem(Code::RejectedByPolicy),
            Says::Problem(Code::RequestForgotten),
            Says::Problem(Code::Internal),
            Says::Status(502, json!("a proxy")),
            Says::Status(404, json!("something else")),
        ] {
            let again = later.clone();
            let fake = Fake::with([Says::Drops], move |_| again.clone());
            let error = release(&fake, &["a"]).await.unwrap_err();
            assert_eq!(error.took_effect(), TookEffect::Unknown, "{later:?}: {error:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_about_the_first_attempt_ends_the_doubt() {
        let fake = Fake::new([Says::Drops, Says::Problem(Code::NotHolder)]);
        assert_eq!(release(&fake, &["a"]).await.unwrap_err().code(), Some(Code::NotHolder));
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_that_cannot_be_decoded_is_unknown() {
        let fake = Fake::new([Says::Ok(json!({ "nothing": "known" }))]);
        assert!(matches!(release(&fake, &["a"]).await, Err(Error::Unknown { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_nodes_may_have_forgotten_are_not_repeated() {
        let fake = Fake::with([], |_| Says::Drops);
        let client = fake.client(&["a"]);
        let call = client.release(&item("disk"), &Release::default()).within(Duration::from_secs(3_600));
        assert!(matches!(call.await, Err(Error::Unknown { .. })));
        assert!(fake.log().last().unwrap().after < REPEAT_WITHIN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_repeat_says_how_long_ago_the_first_attempt_was_made() {
        let fake = Fake::new([Says::Drops, Says::ProblemAfter(Code::Unknown, 5_000), Says::Drops, released()]);
        assert!(release(&fake, &["a"]).await.unwrap().released);
        let log = fake.log();
        let said: Vec<_> = log.iter().map(|asked| asked.retry_ms.map(Duration::from_millis)).collect();
        assert_eq!(said[0], None);
        for (said, asked) in said.iter().zip(&log).skip(1) {
            assert_eq!(said.unwrap().as_millis(), asked.after.as_millis());
        }
        assert!(said[2] > Some(Duration::from_secs(5)), "{said:?}");
    }

    /// The timers of a sleeping machine stop, while nodes continue and forget requests.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_repeated_if_the_machine_slept_past_the_repeat_limit() {
        // While it waits for the answer, and between two attempts.
        for first in [Says::Hangs, Says::ProblemAfter(Code::Unknown, 10_000)] {
            let fake = Fake::new([first, released()]);
            let asleep = fake.clone();
            tokio::spawn(async move {
                sleep(Duration::from_secs(1)).await;
                asleep.sleep_machine(REPEAT_WITHIN);
            });
            let error = release(&fake, &["a", "b"]).await.unwrap_err();
            assert!(matches!(error, Error::Unknown { .. }), "{error:?}");
            assert_eq!(fake.log().len(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_without_an_effect_are_retried_even_after_a_long_sleep() {
        let fake = Fake::new([Says::ProblemAfter(Code::Overloaded, 10_000), released()]);
        let asleep = fake.clone();
        tokio::spawn(async move {
            sleep(Duration::from_secs(1)).await;
            asleep.sleep_machine(REPEAT_WITHIN);
        });
        assert!(release(&fake, &["a"]).await.unwrap().released);
        assert_eq!(repeats(&fake), [false, false]);
    }

    /// This is harmless: nodes return what they remember, and run nothing.
    #[tokio::test(start_paused = true)]
    async fn a_caller_may_ask_about_a_request_of_any_age_once() {
        let client = |fake: &Fake| fake.client(&["a"]);
        let ask =
            |fake: &Fake| client(fake).release(&item("disk"), &Release::default()).key("old").repeated(Duration::MAX);
        let fake = Fake::new([released()]);
        ask(&fake).await.unwrap();
        assert_eq!(fake.log()[0].retry_ms, Some(u64::MAX));
        for says in [Says::Drops, Says::Problem(Code::Unavailable), Says::Problem(Code::RequestForgotten)] {
            let fake = Fake::new([says, released()]);
            assert!(matches!(ask(&fake).await, Err(Error::Unknown { .. })));
            assert_eq!(fake.log().len(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reads_are_retried_and_have_no_id() {
        let line = Says::Ok(json!({ "places": [] }));
        let fake = Fake::new([Says::Drops, Says::Problem(Code::Internal), line]);
        fake.client(&["a", "b"]).line(&item("disk")).await.unwrap();
        assert!(fake.log().iter().all(|asked| asked.key.is_none() && asked.retry_ms.is_none()));
        let fake = Fake::with([], |_| Says::Drops);
        let error = fake.client(&["a"]).line(&item("disk")).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn health_calls_go_only_to_their_node() {
        let fake = Fake::new([Says::Status(503, json!({ "ok": false, "why": "no quorum" }))]);
        let client = fake.client(&["a", "b"]);
        let node = client.node(client.endpoints()[1].clone());
        assert_eq!(node.readiness().await.unwrap(), crate::Health::Not("no quorum".into()));
        assert_eq!(fake.asked(), ["b GET /readyz"]);
    }
}
