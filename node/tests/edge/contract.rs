//! The documented calls of the nodes, and the responses that were seen. A response that the document does not list
//! fails the test that got it.

use api::{Code, TookEffect};
use raft_store::types::NodeId;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a response without a problem is noted, next to the codes.
pub(crate) const OK: &str = "ok";

pub(crate) struct Contract {
    operations: Vec<Operation>,
    seen: Mutex<BTreeSet<Seen>>,
    asked: AtomicU64,
}

struct Operation {
    id: String,
    method: String,
    path: String,
    statuses: BTreeSet<u16>,
    refusals: BTreeSet<String>,
}

/// A response that was seen from a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) operation: String,
    pub(crate) answer: String,
    pub(crate) node: NodeId,
}

impl Contract {
    pub(crate) fn new(document: &Value) -> Self {
        let mut operations = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let Some(id) = operation["operationId"].as_str() else { continue };
                operations.push(Operation {
                    id: id.to_owned(),
                    method: method.to_uppercase(),
                    path: path.clone(),
                    statuses: operation["responses"]
                        .as_object()
                        .unwrap()
                        .keys()
                        .map(|key| key.parse().unwrap())
                        .collect(),
                    refusals: texts(&operation["x-refusals"]).map(str::to_owned).collect(),
                });
            }
        }
        assert!(operations.len() > 40, "{} calls", operations.len());
        Self { operations, seen: Mutex::default(), asked: AtomicU64::default() }
    }

    /// A contract without the document, which is not read yet.
    pub(crate) fn unread() -> Self {
        Self { operations: Vec::new(), seen: Mutex::default(), asked: AtomicU64::default() }
    }

    /// Counts a request that is sent on a new connection.
    pub(crate) fn ask(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
    }

    /// Number of requests sent.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn operations(&self) -> BTreeSet<String> {
        self.operations.iter().map(|operation| operation.id.clone()).collect()
    }

    pub(crate) fn seen(&self) -> BTreeSet<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Checks a response against the document and notes it.
    pub(crate) fn check(
        &self,
        node: NodeId,
        method: &str,
        path: &str,
        status: u16,
        problem: Option<&Value>,
        body: &Value,
    ) {
        let path = path.split('?').next().unwrap_or(path);
        let operation = self.find(method, path);
        let name = operation.map_or("", |operation| operation.id.as_str());
        let of = format!("{method} {path} at node {node}: {status} {body}");
        assert_eq!(problem.is_some(), status >= 400, "{of}");
        if let Some(operation) = operation {
            assert!(operation.statuses.contains(&status), "{name} does not document {of}");
        }
        match problem {
            None => self.note(name, OK, node),
            Some(problem) => {
                let code = check_problem(problem);
                assert_eq!(code.status(), status, "{of}");
                if let Some(operation) = operation {
                    assert!(operation.refusals.contains(code.name()), "{name} does not document {of}");
                }
                self.note(name, code.name(), node);
            }
        }
        // Each entry of a batch may be refused.
        for entry in ["claims", "releases", "items"].iter().flat_map(|list| body[list].as_array().into_iter().flatten())
        {
            if entry["outcome"] == "refused" {
                self.note(name, check_problem(&entry["problem"]).name(), node);
            }
        }
    }

    fn note(&self, operation: &str, answer: &str, node: NodeId) {
        let seen = Seen { operation: operation.to_owned(), answer: answer.to_owned(), node };
        self.seen.lock().unwrap().insert(seen);
    }

    fn find(&self, method: &str, path: &str) -> Option<&Operation> {
        let fits = |template: &str| {
            let (own, given): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
            own.len() == given.len() && own.iter().zip(given).all(|(own, given)| own.starts_with('{') || *own == given)
        };
        let found = self.operations.iter().filter(|operation| operation.method == method && fits(&operation.path));
        // `/v1/items/batch` is not an item.
        found.min_by_key(|operation| operation.path.matches('{').count())
    }
}

/// Checks that a problem matches the closed list of codes.
fn check_problem(problem: &Value) -> Code {
    let name = problem["code"].as_str().unwrap_or_else(|| panic!("no code: {problem}"));
    let code = Code::ALL.iter().copied().find(|code| code.name() == name).unwrap_or_else(|| panic!("{problem}"));
    assert_eq!(problem["status"], code.status(), "{problem}");
    assert_eq!(problem["may_retry"], code.may_retry(), "{problem}");
    let listed = match code.took_effect() {
        TookEffect::No => "no",
        TookEffect::Yes => "yes",
        TookEffect::Unknown => "unknown",
    };
    assert_eq!(problem["took_effect"], listed, "{problem}");
    assert_eq!(problem["type"], format!("/docs#{name}"), "{problem}");
    code
}

pub(crate) fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}
