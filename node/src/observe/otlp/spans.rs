//! Collects spans as they begin and end: request spans, which have a trace id, and their children.

use super::message::{Ended, Value};
use crate::observe::metrics::OK;
use crate::observe::trace::new_span_id;
use std::fmt;
use std::sync::mpsc::SyncSender;
use std::time::SystemTime;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Recorded only for requests that did not succeed.
const OUTCOME: &str = "outcome";

/// Passes ended spans on, and drops those for which there is no room.
#[derive(Debug)]
pub struct Spans {
    queue: SyncSender<Ended>,
}

impl Spans {
    pub(super) fn new(queue: SyncSender<Ended>) -> Self {
        Self { queue }
    }
}

/// A span that has not ended.
struct Open {
    trace_id: u128,
    span_id: u64,
    parent: Option<u64>,
    is_request: bool,
    is_sampled: bool,
    began: SystemTime,
    attributes: Vec<(&'static str, Value)>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut seen = Fields::default();
        attributes.record(&mut seen);
        let above = span.parent().and_then(|parent| {
            let extensions = parent.extensions();
            let open = extensions.get::<Open>()?;
            Some((open.trace_id, Some(open.span_id), false, open.is_sampled))
        });
        // A span without a trace is not exported.
        let Some((trace_id, parent, is_request, is_sampled)) = above.or(seen.trace_id.map(|id| (id, None, true, true)))
        else {
            return;
        };
        let span_id = new_span_id();
        let mut open = Open {
            trace_id,
            span_id,
            parent,
            is_request,
            is_sampled,
            began: SystemTime::now(),
            attributes: Vec::new(),
        };
        open.take(seen);
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            let mut seen = Fields::default();
            values.record(&mut seen);
            open.take(seen);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let open = span.extensions_mut().remove::<Open>();
        let Some(mut open) = open.filter(|open| open.is_sampled) else { return };
        if open.is_request && open.attributes.iter().all(|(name, _)| *name != OUTCOME) {
            open.attributes.push((OUTCOME, Value::Text(OK.to_owned())));
        }
        let ended = Ended {
            trace_id: open.trace_id,
            span_id: open.span_id,
            parent: open.parent,
            name: span.name(),
            is_request: open.is_request,
            began: open.began,
            ended: SystemTime::now(),
            attributes: open.attributes,
        };
        // If there is no room, it is dropped, because a request must not wait.
        let _ = self.queue.try_send(ended);
    }
}

impl Open {
    fn take(&mut self, seen: Fields) {
        self.parent = seen.parent.or(self.parent);
        self.is_sampled = seen.is_sampled.unwrap_or(self.is_sampled);
        self.attributes.extend(seen.attributes);
    }
}

/// The fields of a span. Those for its place in the trace are not repeated as attributes.
#[derive(Default)]
struct Fields {
    trace_id: Option<u128>,
    parent: Option<u64>,
    is_sampled: Option<bool>,
    attributes: Vec<(&'static str, Value)>,
}

impl Fields {
    fn text(&mut self, field: &Field, text: String) {
        match field.name() {
            "trace_id" => self.trace_id = u128::from_str_radix(&text, 16).ok(),
            "parent_id" => self.parent = u64::from_str_radix(&text, 16).ok(),
            name => self.attributes.push((name, Value::Text(text))),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format!("{value:?}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        if field.name() == "is_sampled" {
            self.is_sampled = Some(value);
        } else {
            self.attributes.push((field.name(), Value::Truth(value)));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attributes.push((field.name(), Value::Number(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let value = i64::try_from(value).map_or_else(|_| Value::Text(value.to_string()), Value::Number);
        self.attributes.push((field.name(), value));
    }
}
