//! A history in Jepsen's EDN format: an operation as an invocation and a completion, faults and leaders as operations
//! of the nemesis. Operations of unknown outcome end with the history. The events that watchers saw are not included:
//! they are in the JSON lines.

use super::{Fault, History, Leader, Micros, Operation, Outcome};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::{self, Write};

/// # Errors
/// When it cannot be written.
pub fn write(history: &History, mut out: impl Write) -> io::Result<()> {
    let end = end(history);
    // By time; at the same time in the order of invocation, with completions after invocations.
    let mut moments: Vec<(Micros, Moment<'_>)> = Vec::with_capacity(history.operations.len() * 2);
    for operation in &history.operations {
        moments.push((operation.invoked, Moment::Invoked(operation)));
        moments.push((operation.completed.unwrap_or(end), Moment::Ended(operation)));
    }
    for fault in &history.faults {
        moments.push((fault.began, Moment::FaultBegan(fault)));
        moments.extend(fault.ended.map(|ended| (ended, Moment::FaultEnded(fault))));
    }
    moments.extend(history.leaders.iter().map(|leader| (leader.at, Moment::Led(leader))));
    moments.sort_by_key(|(at, _)| *at);
    let mut text = String::new();
    for (index, (at, moment)) in moments.iter().enumerate() {
        text.clear();
        moment.write(&mut text, index, *at);
        text.push('\n');
        out.write_all(text.as_bytes())?;
    }
    out.flush()
}

/// Nothing happens after it.
fn end(history: &History) -> Micros {
    let operations = history.operations.iter().map(|operation| operation.completed.unwrap_or(operation.invoked));
    let faults = history.faults.iter().map(|fault| fault.ended.unwrap_or(fault.began));
    operations.chain(faults).chain(history.leaders.iter().map(|leader| leader.at)).max().unwrap_or(0)
}

enum Moment<'h> {
    Invoked(&'h Operation),
    Ended(&'h Operation),
    FaultBegan(&'h Fault),
    FaultEnded(&'h Fault),
    Led(&'h Leader),
}

impl Moment<'_> {
    fn write(&self, text: &mut String, index: usize, at: Micros) {
        let (kind, process, f, value, error) = match self {
            Self::Invoked(operation) => {
                let (f, value) = asked(operation);
                ("invoke", operation.process.to_string(), f, value, None)
            }
            Self::Ended(operation) => {
                let (f, mut value) = asked(operation);
                let (kind, error) = match &operation.outcome {
                    Outcome::Ok(answered) => {
                        value.insert("answer".into(), json!(answered));
                        ("ok", None)
                    }
                    Outcome::Refused { code } => ("fail", Some(code.as_str())),
                    Outcome::Unavailable => ("fail", Some("unavailable")),
                    Outcome::Unknown => ("info", Some("unknown")),
                };
                (kind, operation.process.to_string(), f, value, error)
            }
            Self::FaultBegan(fault) => ("info", ":nemesis".into(), fault.kind.clone(), of_fault(fault, "began"), None),
            Self::FaultEnded(fault) => ("info", ":nemesis".into(), fault.kind.clone(), of_fault(fault, "ended"), None),
            Self::Led(leader) => {
                let value = Map::from_iter([("node".into(), json!(leader.node)), ("term".into(), json!(leader.term))]);
                ("info", ":nemesis".into(), "leader".into(), value, None)
            }
        };
        let nanos = u128::from(at) * 1_000;
        let _ = write!(text, "{{:index {index}, :time {nanos}, :type :{kind}, :process {process}, :f ");
        keyword(text, &f);
        text.push_str(", :value ");
        value_of(text, &Value::Object(value));
        if let Self::Invoked(operation) | Self::Ended(operation) = self {
            if let Some(node) = operation.node {
                let _ = write!(text, ", :node \"n{node}\"");
            }
            let _ = write!(text, ", :actor ");
            string(text, &operation.actor);
        }
        if let Some(error) = error {
            text.push_str(", :error ");
            keyword(text, error);
        }
        text.push('}');
    }
}

/// The name of a call, and its arguments.
fn asked(operation: &Operation) -> (String, Map<String, Value>) {
    let (f, mut value) = match serde_json::to_value(&operation.asked) {
        Ok(Value::Object(named)) => match named.into_iter().next() {
            Some((f, Value::Object(value))) => (f, value),
            Some((f, _)) => (f, Map::new()),
            None => (String::new(), Map::new()),
        },
        Ok(Value::String(f)) => (f, Map::new()),
        _ => (String::new(), Map::new()),
    };
    value.retain(|_, said| !said.is_null());
    if let Some(id) = &operation.request_id {
        value.insert("request_id".into(), json!(id));
    }
    if operation.is_repeat {
        value.insert("is_repeat".into(), json!(true));
    }
    (f, value)
}

fn of_fault(fault: &Fault, phase: &str) -> Map<String, Value> {
    let said = [("phase", json!(phase)), ("what", json!(fault.what)), ("nodes", json!(fault.nodes))];
    said.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn keyword(text: &mut String, name: &str) {
    text.push(':');
    text.extend(name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }));
}

fn string(text: &mut String, said: &str) {
    text.push('"');
    for c in said.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            other => text.push(other),
        }
    }
    text.push('"');
}

fn value_of(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("nil"),
        Value::Bool(said) => text.push_str(if *said { "true" } else { "false" }),
        Value::Number(number) => {
            let _ = write!(text, "{number}");
        }
        Value::String(said) => string(text, said),
        Value::Array(all) => {
            text.push('[');
            for (at, one) in all.iter().enumerate() {
                if at > 0 {
                    text.push(' ');
                }
                value_of(text, one);
            }
            text.push(']');
        }
        Value::Object(named) => {
            text.push('{');
            for (at, (name, one)) in named.iter().enumerate() {
                if at > 0 {
                    text.push_str(", ");
                }
                keyword(text, name);
                text.push(' ');
                value_of(text, one);
            }
            text.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::sample;
    use expect_test::expect;

    #[test]
    fn a_history_has_jepsens_edn_format() {
        let mut bytes = Vec::new();
        write(&sample(), &mut bytes).unwrap();
        expect![[r#"
            {:index 0, :time 5000, :type :info, :process :nemesis, :f :leader, :value {:node 2, :term 3}}
            {:index 1, :time 10000, :type :invoke, :process 0, :f :claim, :value {:item "disk", :lease-for-ms 2000, :waits false}, :node "n2", :actor "actor-0"}
            {:index 2, :time 15000, :type :info, :process :nemesis, :f :kill, :value {:nodes [2], :phase "began", :what "node 2, the leader"}}
            {:index 3, :time 20000, :type :ok, :process 0, :f :claim, :value {:answer {:grants [{:expires-in-ms 2000, :item "disk", :renewed false, :token 7}], :sent 11}, :item "disk", :lease-for-ms 2000, :waits false}, :node "n2", :actor "actor-0"}
            {:index 4, :time 20000, :type :invoke, :process 1, :f :update, :value {:item "disk", :token 7, :value 4}, :node "n2", :actor "actor-1"}
            {:index 5, :time 30000, :type :invoke, :process 2, :f :write, :value {:item "disk", :token 6, :value 3}, :node "n2", :actor "actor-2"}
            {:index 6, :time 30000, :type :fail, :process 2, :f :write, :value {:item "disk", :token 6, :value 3}, :node "n2", :actor "actor-2", :error :stale-token}
            {:index 7, :time 40000, :type :invoke, :process 0, :f :read, :value {:item "disk"}, :node "n2", :actor "actor-0"}
            {:index 8, :time 50000, :type :ok, :process 0, :f :read, :value {:answer {:item {:assignee nil, :holder nil, :revision "0.9", :state "active", :token nil, :value 4}, :sent 42}, :item "disk"}, :node "n2", :actor "actor-0"}
            {:index 9, :time 60000, :type :invoke, :process 3, :f :update, :value {:is-repeat true, :item "disk", :request-id "1-2", :token 7, :value 4}, :node "n2", :actor "actor-3"}
            {:index 10, :time 70000, :type :fail, :process 3, :f :update, :value {:is-repeat true, :item "disk", :request-id "1-2", :token 7, :value 4}, :node "n2", :actor "actor-3", :error :unavailable}
            {:index 11, :time 80000, :type :invoke, :process 0, :f :renew-all, :value {}, :node "n2", :actor "actor-0"}
            {:index 12, :time 85000, :type :info, :process :nemesis, :f :kill, :value {:nodes [2], :phase "ended", :what "node 2, the leader"}}
            {:index 13, :time 90000, :type :info, :process 1, :f :update, :value {:item "disk", :token 7, :value 4}, :node "n2", :actor "actor-1", :error :unknown}
            {:index 14, :time 90000, :type :ok, :process 0, :f :renew-all, :value {:answer {:sent 0}}, :node "n2", :actor "actor-0"}
        "#]].assert_eq(&String::from_utf8(bytes).unwrap());
    }

    #[test]
    fn strings_are_escaped() {
        let mut text = String::new();
        value_of(&mut text, &json!({"what's this": ["a \"b\" \\ c\n", null, 1.5, false]}));
        assert_eq!(text, r#"{:what-s-this ["a \"b\" \\ c\n" nil 1.5 false]}"#);
    }
}
