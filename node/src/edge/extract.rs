//! Parses requests: headers, path, query and body. A request with an invalid part is rejected, by the name of that
//! part, before anything is done.

use crate::edge::Edge;
use crate::edge::answer::Failure;
use crate::edge::identity::{ApiKeyHash, Authenticator, Identity};
use crate::edge::remote::Remote;
use crate::edge::repeat::Repeat;
use crate::edge::request_name::RequestName;
use crate::net::slots::SlotHandle;
use api::headers::{ACTOR, ACTOR_KIND, ACTOR_PARENT, IDEMPOTENCY_KEY, RETRY, SESSION, SPACE, title};
use api::names::Number;
use api::words;
use api::{Code, Problem};
use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, header};
use lease::caller::ActorKind;
use lease::names::{ActorId, BadName, ItemId, QueueName, RequestId, SessionId, SpaceName};
use serde::Deserialize;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer as _};
use std::sync::Arc;
use std::time::Duration;

/// A header that may appear at most once.
fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Failure> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::invalid(title(name), "header appears more than once").into());
    }
    first.to_str().map(Some).map_err(|_| Problem::invalid(title(name), "must be visible ASCII").into())
}

fn named<T>(
    headers: &HeaderMap,
    name: &HeaderName,
    parse: impl FnOnce(&str) -> Result<T, BadName>,
) -> Result<Option<T>, Failure> {
    let Some(text) = header(headers, name)? else { return Ok(None) };
    parse(text).map(Some).map_err(|bad| Problem::invalid(title(name), bad.to_string()).into())
}

/// The caller of a request and what its headers say.
#[derive(Clone, Debug)]
pub struct RequestHead {
    pub identity: Arc<Identity>,
    /// To check later whether the API key is still valid.
    pub api_key: Option<ApiKeyHash>,
    pub space: SpaceName,
    pub session: Option<SessionId>,
    pub request_id: RequestId,
    /// The caller has sent this id before and got no response.
    pub repeat: Option<Repeat>,
    /// The revision that the caller read, from `If-Match`.
    pub if_match: Option<Number>,
}

impl RequestHead {
    pub(crate) fn actor(&self) -> &str {
        self.identity.actor.as_str()
    }
}

impl FromRequestParts<Edge> for RequestHead {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Failure> {
        let headers = &parts.headers;
        let (identity, api_key) = identify(&edge.authenticator, headers, &parts.extensions)?;
        let space = named(headers, &SPACE, SpaceName::known)?.unwrap_or_else(|| identity.usual_space());
        let session = named(headers, &SESSION, SessionId::new)?;
        header(headers, &IDEMPOTENCY_KEY)?;
        let name = parts.extensions.get::<RequestName>().and_then(|name| name.id().cloned());
        let Some(request_id) = name else {
            let why = "must be 1 to 64 bytes of visible ASCII";
            return Err(Problem::invalid(title(&IDEMPOTENCY_KEY), why).into());
        };
        let repeat = match header(headers, &RETRY)? {
            None => None,
            Some(text) => {
                let millis = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
                let wrong =
                    || Problem::invalid(title(&RETRY), "must be the milliseconds since the first attempt, e.g. 1500");
                Some(Repeat::after(Duration::from_millis(millis.ok_or_else(wrong)?)))
            }
        };
        let if_match = match header(headers, &header::IF_MATCH)? {
            None => None,
            Some(text) => {
                let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                let number = quoted.and_then(|text| text.parse::<Number>().ok());
                let wrong = || Problem::invalid("If-Match", "must be an ETag from a response, e.g. \"0.17\"");
                Some(number.ok_or_else(wrong)?)
            }
        };
        Ok(Self { identity, api_key, space, session, request_id, repeat, if_match })
    }
}

/// Identifies the caller with the node's authenticator.
pub(crate) fn identify(
    authenticator: &Authenticator,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<(Arc<Identity>, Option<ApiKeyHash>), Failure> {
    let identified = identified(authenticator, headers, extensions)?;
    if let Some(connection) = extensions.get::<SlotHandle>() {
        connection.is_known();
    }
    Ok(identified)
}

fn identified(
    authenticator: &Authenticator,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<(Arc<Identity>, Option<ApiKeyHash>), Failure> {
    let unauthenticated = |why: &str| Failure::from(Problem::new(Code::Unauthenticated).with_detail(why));
    match authenticator {
        Authenticator::ApiKeys(api_keys) => {
            let missing = || unauthenticated("send `Authorization: Bearer <API key>`");
            let given = header(headers, &header::AUTHORIZATION)?.ok_or_else(missing)?;
            let (scheme, api_key) = given.split_once(' ').unwrap_or((given, ""));
            if !scheme.eq_ignore_ascii_case("bearer") || api_key.is_empty() {
                return Err(missing());
            }
            let hash = ApiKeyHash::of(api_key.trim());
            let identity =
                api_keys.find(hash).ok_or_else(|| unauthenticated("this node does not know this API key"))?;
            Ok((identity, Some(hash)))
        }
        Authenticator::SelfReported => {
            if !extensions.get::<Remote>().is_some_and(Remote::is_loopback) {
                return Err(unauthenticated("a development node serves only callers on its own machine"));
            }
            let actor = named(headers, &ACTOR, ActorId::new)?;
            let actor = actor.ok_or_else(|| unauthenticated("send the header `Tenure-Actor` with your actor name"))?;
            let kind = match header(headers, &ACTOR_KIND)? {
                None => ActorKind::Agent,
                Some(text) => {
                    let wrong = || Problem::invalid(title(&ACTOR_KIND), "must be user, agent or system");
                    let word: StrDeserializer<'_, ValueError> = text.into_deserializer();
                    words::ActorKind::deserialize(word).map_err(|_| wrong())?.into()
                }
            };
            let parent = named(headers, &ACTOR_PARENT, ActorId::new)?;
            Ok((Arc::new(Identity::self_reported(actor, kind, parent)), None))
        }
    }
}

/// The item that the path names.
#[derive(Debug)]
pub struct ItemPath(pub ItemId);

/// The queue that the path names.
#[derive(Debug)]
pub struct QueuePath(pub QueueName);

/// The actor that the path names.
#[derive(Debug)]
pub struct ActorPath(pub ActorId);

/// The node that the path names.
#[derive(Debug)]
pub struct NodePath(pub u64);

async fn path_text(parts: &mut Parts, edge: &Edge, field: &str) -> Result<String, Failure> {
    match Path::<String>::from_request_parts(parts, edge).await {
        Ok(Path(text)) => Ok(text),
        Err(_) => Err(Problem::invalid(field, "must be UTF-8, percent-encoded in the path").into()),
    }
}

impl FromRequestParts<Edge> for ItemPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Failure> {
        let text = path_text(parts, edge, "item").await?;
        ItemId::known(&text).map(Self).map_err(|bad| Problem::invalid("item", bad.to_string()).into())
    }
}

impl FromRequestParts<Edge> for QueuePath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Failure> {
        let text = path_text(parts, edge, "queue").await?;
        QueueName::known(&text).map(Self).map_err(|bad| Problem::invalid("queue", bad.to_string()).into())
    }
}

impl FromRequestParts<Edge> for ActorPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Failure> {
        let text = path_text(parts, edge, "actor").await?;
        ActorId::known(&text).map(Self).map_err(|bad| Problem::invalid("actor", bad.to_string()).into())
    }
}

impl FromRequestParts<Edge> for NodePath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Failure> {
        let text = path_text(parts, edge, "node").await?;
        text.parse().map(Self).map_err(|_| Problem::invalid("node", "must be a node id, e.g. 1").into())
    }
}

/// The body of a call that takes none: empty, or `{}`. Any field in it is rejected by its name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// A body with more bytes is parsed by the [`Parser`](super::parser::Parser).
const LARGE: usize = 64 * 1024;

/// A JSON body. An empty body is the same as `{}`.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<Edge> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, edge: &Edge) -> Result<Self, Failure> {
        let is_json = is_json(request.headers());
        // The front has already read it whole and within its limits.
        let bytes = to_bytes(request.into_body(), usize::MAX).await.map_err(|_| Failure::from(Code::TooLarge))?;
        edge.metrics.body_read(bytes.len() as u64);
        if bytes.is_empty() {
            return from_json(b"{}").map(Self);
        }
        if !is_json {
            return Err(Code::UnsupportedMediaType.into());
        }
        if bytes.len() <= LARGE {
            return from_json(&bytes).map(Self);
        }
        let parsed = edge.parser.run(move || from_json(&bytes)).await;
        parsed.ok_or(Code::Internal)?.map(Self)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) else { return false };
    let essence = kind.split(';').next().unwrap_or(kind).trim();
    essence.eq_ignore_ascii_case("application/json")
}

fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    // serde would accept a list as an object without field names.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(Problem::invalid("body", "must be a JSON object").into());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        wrong(&path, "body", &error.into_inner().to_string())
    })?;
    deserializer.end().map_err(|error| Failure::from(Problem::invalid("body", error.to_string())))?;
    Ok(value)
}

/// The query of a request.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = form_urlencoded::parse(query.as_bytes());
        let deserializer = serde_html_form::Deserializer::new(pairs);
        serde_path_to_error::deserialize(deserializer).map(Self).map_err(|error| {
            let path = error.path().to_string();
            wrong(&path, "query", &error.into_inner().to_string())
        })
    }
}

/// Names the invalid field: its path, or for an unknown or missing field its name.
fn wrong(path: &str, whole: &str, why: &str) -> Failure {
    let stray = why.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    let missing = why.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let inner = stray.or(missing);
    let field = match (path, inner) {
        ("." | "" | "?", Some(name)) => name.to_owned(),
        // The path may already end with the unknown or missing field.
        (path, Some(name)) if path == name || path.ends_with(&format!(".{name}")) => path.to_owned(),
        (path, Some(name)) => format!("{path}.{name}"),
        ("." | "" | "?", None) => whole.to_owned(),
        (path, None) => path.to_owned(),
    };
    Problem::invalid(cut(&field), cut(why)).into()
}

/// Cuts text of the caller, so that a response does not repeat it at full length.
pub(crate) fn cut(text: &str) -> String {
    const SAID: usize = 256;
    let mut cut: String = text.chars().take(SAID).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_of<T: DeserializeOwned + std::fmt::Debug>(json: &str) -> String {
        from_json::<T>(json.as_bytes()).unwrap_err().0.field.unwrap()
    }

    #[test]
    fn an_invalid_body_field_is_named_by_its_path() {
        use api::claim::{Claim, Claims};
        use api::item::{NewItem, NewItems};
        assert_eq!(field_of::<Claim>(r#"{"lease_for": 5}"#), "lease_for");
        assert_eq!(field_of::<Claim>(r#"{"lease_for_ms": "5"}"#), "lease_for_ms");
        assert_eq!(field_of::<Claim>(r#"{"lease_for_ms": -5}"#), "lease_for_ms");
        assert_eq!(field_of::<NewItem>(r#"{"queue": "ops"}"#), "id");
        assert_eq!(field_of::<NewItem>(r#"{"id": "", "queue": "ops"}"#), "id");
        assert_eq!(field_of::<NewItems>(r#"{"items": [{"id": "a", "queue": "ops"}, {"id": "b"}]}"#), "items[1].queue");
        assert_eq!(field_of::<NewItem>(r#"{"id": "a", "queue": "q", "body": {"promt": "x"}}"#), "body.promt");
        assert_eq!(field_of::<Claims>(r#"{"claims": [{"item": "a", "token": 1}]}"#), "claims[0].token");
        assert_eq!(field_of::<Claim>("{"), "body");
        assert_eq!(field_of::<Claim>("{} {}"), "body");
        assert_eq!(field_of::<Claim>("[]"), "body");
        let long = format!("{{\"{}\": 1}}", "k".repeat(900_000));
        let said = from_json::<Claim>(long.as_bytes()).unwrap_err().0;
        assert!(serde_json::to_string(&said).unwrap().len() < 2_000, "the response does not repeat a long field name");
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(field_of::<Claim>(&deep), "body");
    }
}
