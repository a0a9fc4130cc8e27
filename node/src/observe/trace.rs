//! The trace that a request belongs to: W3C's `traceparent`, and the span under which the request is logged.
//!
//! A request with a `traceparent` header keeps its trace; any other starts a new trace. The trace id is on every log
//! line of the request, so that a caller's error can be found in the log of the node that it called. A request without
//! a request id gets one that contains its trace id, and that id is forwarded with the request.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::Span;
use tracing::field::Empty;

/// The header's name.
pub const HEADER: &str = "traceparent";

/// The trace of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: TraceId,
    /// The caller's span; `None` if the trace begins here.
    parent: Option<SpanId>,
    is_sampled: bool,
}

/// A trace id, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(u128);

/// A span id, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(u64);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl TraceContext {
    /// The caller's trace if its header is valid; else a new one.
    #[must_use]
    pub fn of(header: Option<&str>) -> Self {
        header.and_then(Self::parse).unwrap_or_else(Self::begin)
    }

    /// Strictly as W3C's Trace Context says: `00-<32 hex>-<16 hex>-<2 hex>`, lower case, ids not zero. A later version
    /// may have more after a further dash, which is ignored; version `ff` is invalid.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.splitn(5, '-');
        let mut next = |digits: usize| parts.next().filter(|part| part.len() == digits && part.bytes().all(is_hex));
        let version = next(2).filter(|version| *version != "ff")?;
        let trace_id = u128::from_str_radix(next(32)?, 16).ok().filter(|id| *id != 0)?;
        let parent = u64::from_str_radix(next(16)?, 16).ok().filter(|id| *id != 0)?;
        let flags = u8::from_str_radix(next(2)?, 16).ok()?;
        if version == "00" && parts.next().is_some() {
            return None;
        }
        Some(Self { trace_id: TraceId(trace_id), parent: Some(SpanId(parent)), is_sampled: flags & 1 == 1 })
    }

    /// A trace that begins here.
    #[must_use]
    pub fn begin() -> Self {
        let high = u128::from(random()) << 64;
        Self { trace_id: TraceId(high | u128::from(random())), parent: None, is_sampled: true }
    }

    #[must_use]
    pub fn trace_id(&self) -> TraceId {
        self.trace_id
    }

    #[must_use]
    pub fn parent(&self) -> Option<SpanId> {
        self.parent
    }

    /// A unique request id that contains the trace id: 64 bytes, the maximum length of a request id. None: the system
    /// provides no random numbers, and an id that is used twice would be taken for a repeat.
    #[must_use]
    pub fn request_name(&self) -> Option<String> {
        let own = (u128::from(getrandom::u64().ok()?) << 64 | u128::from(getrandom::u64().ok()?)) >> 4;
        Some(format!("{}-{own:031x}", self.trace_id))
    }

    /// The header to forward or to return: the same trace, with a span of this node as the parent.
    #[must_use]
    pub fn header(&self) -> String {
        let flags = u8::from(self.is_sampled);
        format!("00-{}-{}-{flags:02x}", self.trace_id, SpanId(random()))
    }
}

/// The span of one request of a trace, with its command. The answering code records `outcome` only if it is not
/// [`OK`](crate::observe::metrics::OK): recording is formatted at once, and most requests succeed. With span export it
/// is a child of the caller's span, unless the caller's trace is not sampled.
///
/// The request id comes from the caller: it is written quoted, and is never a label of a metric.
#[must_use]
pub fn request_span(context: &TraceContext, request_id: &str, command: Option<&'static str>) -> Span {
    let span = tracing::info_span!(
        parent: None,
        "request",
        trace_id = %context.trace_id,
        parent_id = Empty,
        is_sampled = Empty,
        request_id,
        command,
        outcome = Empty,
    );
    if let Some(parent) = context.parent {
        span.record("parent_id", tracing::field::display(parent));
    }
    if !context.is_sampled {
        span.record("is_sampled", false);
    }
    span
}

/// A new id for a span of this node.
pub(crate) fn new_span_id() -> u64 {
    random()
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

/// A number that is not zero, unique in this process and, by its random keys, unlike those of others. It does not ask
/// the system each time, which took 2% of a busy leader's CPU time.
fn random() -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static LAST: AtomicU64 = AtomicU64::new(0);
    KEYS.hash_one(LAST.fetch_add(1, Ordering::Relaxed)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const PARENT: &str = "b7ad6b7169203331";

    #[test]
    fn a_callers_trace_is_kept() {
        let context = TraceContext::parse(&format!("00-{TRACE}-{PARENT}-01")).unwrap();
        assert_eq!(context.trace_id().to_string(), TRACE);
        assert_eq!(context.parent().unwrap().to_string(), PARENT);
        let sent_on = context.header();
        let onwards = TraceContext::parse(&sent_on).unwrap();
        assert_eq!(onwards.trace_id(), context.trace_id());
        assert_ne!(onwards.parent(), context.parent());
        assert!(sent_on.ends_with("-01"));
        assert!(TraceContext::parse(&format!("00-{TRACE}-{PARENT}-00")).unwrap().header().ends_with("-00"));
    }

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn log_lines_of_a_request_carry_its_trace_and_its_id() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            let context = TraceContext::of(Some(&format!("00-{TRACE}-{PARENT}-01")));
            let span = request_span(&context, "mine\n\u{1b}[2J", None);
            span.in_scope(|| tracing::warn!("slow"));
        });
        let said = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert!(said.contains(&format!("trace_id={TRACE}")), "{said}");
        assert!(said.contains(r#"request_id="mine\n\u{1b}[2J""#), "{said}");
        assert_eq!(said.lines().count(), 1, "a request id must not start a new line: {said}");
    }

    #[test]
    fn generated_request_ids_contain_the_trace_id_and_are_unique() {
        let context = TraceContext::parse(&format!("00-{TRACE}-{PARENT}-01")).unwrap();
        let names: std::collections::BTreeSet<String> = (0..1_000).map(|_| context.request_name().unwrap()).collect();
        assert_eq!(names.len(), 1_000);
        for name in names {
            assert!(name.starts_with(&format!("{TRACE}-")), "{name}");
            assert!(lease::names::RequestId::new(&name).is_ok(), "{name}");
        }
    }

    #[test]
    fn only_a_later_version_may_have_more_fields() {
        assert!(TraceContext::parse(&format!("01-{TRACE}-{PARENT}-01-what-else")).is_some());
        assert!(TraceContext::parse(&format!("00-{TRACE}-{PARENT}-01-what-else")).is_none());
    }

    #[test]
    fn an_invalid_traceparent_starts_a_new_trace() {
        let zero = "0".repeat(32);
        let upper = TRACE.to_uppercase();
        let wrong = [
            String::new(),
            "00".into(),
            format!("ff-{TRACE}-{PARENT}-01"),
            format!("00-{zero}-{PARENT}-01"),
            format!("00-{TRACE}-{}-01", &zero[..16]),
            format!("00-{upper}-{PARENT}-01"),
            format!("00-{TRACE}-{PARENT}-1"),
            format!("00-{TRACE}-{PARENT}"),
            format!("0-{TRACE}-{PARENT}-01"),
            format!("00-+{}-{PARENT}-01", &TRACE[1..]),
            format!(" 00-{TRACE}-{PARENT}-01"),
            format!("00-{TRACE}-{PARENT}-01\n"),
            format!("00-{}-{PARENT}-01", "ä".repeat(16)),
        ];
        let mut seen = std::collections::BTreeSet::new();
        for header in &wrong {
            assert_eq!(TraceContext::parse(header), None, "{header:?}");
            let own = TraceContext::of(Some(header));
            assert_eq!(own.parent(), None);
            assert!(TraceContext::parse(&own.header()).is_some());
            assert!(seen.insert(own.trace_id().to_string()), "each its own");
        }
    }
}
