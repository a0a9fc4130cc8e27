//! Encodes spans for OTLP: protobuf of `ExportTraceServiceRequest`, as far as our spans need it.
//!
//! The numbers are those of opentelemetry-proto 1; they never change there.

use raft_store::types::NodeId;
use std::time::SystemTime;

/// A span that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) trace_id: u128,
    pub(super) span_id: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: &'static str,
    /// It is a caller's request, not a child of another span of this node.
    pub(super) is_request: bool,
    pub(super) began: SystemTime,
    pub(super) ended: SystemTime,
    pub(super) attributes: Vec<(&'static str, Value)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Truth(bool),
    Number(i64),
}

const INTERNAL: u64 = 1;
const SERVER: u64 = 2;

/// The body of a request to the collector.
pub(super) fn request(node: NodeId, spans: &[Ended]) -> Vec<u8> {
    let mut resource = Message::default();
    for (key, value) in [
        ("service.name", "tenured".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", node.to_string()),
    ] {
        resource.message(1, attribute(key, &Value::Text(value)));
    }
    let mut scope = Message::default();
    scope.bytes(1, b"tenured");
    let mut of_scope = Message::default();
    of_scope.message(1, scope);
    for span in spans {
        of_scope.message(2, span.message());
    }
    let mut of_resource = Message::default();
    of_resource.message(1, resource);
    of_resource.message(2, of_scope);
    let mut request = Message::default();
    request.message(1, of_resource);
    request.0
}

impl Ended {
    fn message(&self) -> Message {
        let mut span = Message::default();
        span.bytes(1, &self.trace_id.to_be_bytes());
        span.bytes(2, &self.span_id.to_be_bytes());
        if let Some(parent) = self.parent {
            span.bytes(4, &parent.to_be_bytes());
        }
        span.bytes(5, self.name.as_bytes());
        span.number(6, if self.is_request { SERVER } else { INTERNAL });
        span.fixed(7, nanos(self.began));
        span.fixed(8, nanos(self.ended));
        for (key, value) in &self.attributes {
            span.message(9, attribute(key, value));
        }
        span
    }
}

fn attribute(key: &str, value: &Value) -> Message {
    let mut any = Message::default();
    match value {
        Value::Text(text) => any.bytes(1, text.as_bytes()),
        Value::Truth(truth) => any.number(2, u64::from(*truth)),
        // Protobuf writes a negative number as the unsigned one of the same bits.
        Value::Number(number) => any.number(3, number.cast_unsigned()),
    }
    let mut attribute = Message::default();
    attribute.bytes(1, key.as_bytes());
    attribute.message(2, any);
    attribute
}

fn nanos(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The bytes of a message that were written so far.
#[derive(Default)]
struct Message(Vec<u8>);

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | VARINT);
        self.varint(value);
    }

    fn fixed(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | FIXED_64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: Self) {
        self.bytes(field, &message.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_span_is_encoded_as_in_the_otlp_protocol() {
        let began = SystemTime::UNIX_EPOCH + Duration::from_nanos(0x0102_0304_0506_0708);
        let span = Ended {
            trace_id: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
            span_id: 0x0102_0304_0506_0708,
            parent: Some(0xb7ad_6b71_6920_3331),
            name: "request",
            is_request: true,
            began,
            ended: began + Duration::from_millis(300),
            attributes: vec![
                ("request_id", Value::Text("r".repeat(200))),
                ("is_late", Value::Truth(true)),
                ("left", Value::Number(-1)),
            ],
        };
        let hex: String = span.message().0.iter().map(|byte| format!("{byte:02x}")).collect();
        let wanted = [
            "0a100af7651916cd43dd8448eb211c80319c",
            "12080102030405060708",
            "2208b7ad6b7169203331",
            "2a0772657175657374",
            "3002",
            "390807060504030201",
            "4108aae71604030201",
            "4ada010a0a726571756573745f696412cb010ac801",
            &"72".repeat(200),
            "4a0d0a0769735f6c61746512021001",
            "4a130a046c656674120b18ffffffffffffffffff01",
        ];
        assert_eq!(hex, wanted.concat());
    }
}
