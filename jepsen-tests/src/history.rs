//! What the callers of a run saw: every operation with its start, its end and its outcome, the events that watchers
//! got, the faults, and the leaders. Checkers use nothing else.
//!
//! All times are microseconds since the run began, on one monotonic clock for all callers: they are comparable across
//! processes.

pub mod edn;
pub mod lines;
pub mod soak;

use serde::{Deserialize, Serialize};

/// Microseconds since the run began.
pub type Micros = u64;

/// One caller at a time: operations of one process do not overlap.
pub type Process = u32;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct History {
    pub about: About,
    /// In the order of their start.
    pub operations: Vec<Operation>,
    /// The events of all watchers, in the order of their arrival.
    pub seen: Vec<Seen>,
    pub faults: Vec<Fault>,
    /// Every change of leader that was seen.
    pub leaders: Vec<Leader>,
    /// The state of the cluster after everything was healed and every caller had ended.
    pub end: Option<End>,
    /// The requested membership changes, and the memberships that were read.
    #[serde(default)]
    pub members: Members,
    /// Calls that were made at the same moment.
    #[serde(default)]
    pub bursts: Vec<Burst>,
    /// Nodes that exited by themselves without a cause by the run.
    #[serde(default)]
    pub deaths: Vec<Death>,
    /// What a cluster restored from a backup of this run showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Restored>,
    /// The measurements of a run with hostile callers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<soak::Soak>,
}

/// The settings of a run: enough to repeat it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct About {
    pub seed: u64,
    pub workload: String,
    pub nemesis: String,
    pub nodes: u32,
    pub broken: Option<String>,
    /// The settings of the workload's queues, as far as a checker needs them.
    pub queues: Vec<QueueSet>,
    /// The watchers of only a part of the events. Watchers that are not listed are known by what they got: events of
    /// only one queue, while others got more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watchers: Vec<WatcherSet>,
}

/// The part of the events that a watcher asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WatcherSet {
    pub watcher: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct QueueSet {
    pub queue: String,
    pub lease_for_ms: u64,
    pub lock_delay_ms: u64,
    pub concurrency: Option<u32>,
    pub max_leases: Option<u32>,
    pub line_max: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Operation {
    pub process: Process,
    pub actor: String,
    pub session: Option<String>,
    /// The node that was asked, from 1; `None`: the guarded resource, or any node.
    pub node: Option<u32>,
    pub request_id: Option<String>,
    /// The request was sent before under this id, and its answer was lost or discarded.
    #[serde(default)]
    pub is_repeat: bool,
    pub invoked: Micros,
    /// `None`: there was never an answer, and it may take effect at any time after its start.
    pub completed: Option<Micros>,
    pub asked: Asked,
    pub outcome: Outcome,
    /// The number of the batch: each entry of a batch call is an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// When it was due, for callers with a schedule: its latency counts from then. Several attempts at the same call
    /// have the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Micros>,
}

/// The number of a call with many entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    pub no: u64,
    pub all_or_none: bool,
}

/// A request. Names are those of the calls. A waiting claim polls under one request id until it is granted: each poll
/// is an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    Create {
        item: String,
        queue: String,
        /// Dependencies, which must complete first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        depends_on: Vec<String>,
        /// The capabilities that a worker needs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        needs: Vec<String>,
    },
    Claim {
        item: String,
        lease_for_ms: Option<u64>,
        waits: bool,
        /// Ends the lease of the same actor's other session.
        #[serde(default, skip_serializing_if = "is_false")]
        takeover: bool,
    },
    Next {
        queue: String,
        count: u32,
        lease_for_ms: Option<u64>,
        /// How long the call may wait for an item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
        /// The capabilities that the caller's worker was registered with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        capabilities: Option<Vec<String>>,
    },
    Renew {
        item: String,
        token: u64,
    },
    RenewAll,
    Extend {
        item: String,
        token: u64,
        by_ms: u64,
    },
    Release {
        item: String,
        token: u64,
    },
    /// Ends the lease and keeps the item for its actor.
    Reserve {
        item: String,
        token: u64,
    },
    /// Ends the lease and queues the item in another phase.
    HandOn {
        item: String,
        token: u64,
    },
    Cancel {
        item: String,
        force: bool,
    },
    Withdraw {
        item: String,
    },
    Revoke {
        item: String,
    },
    Assign {
        item: String,
        to: String,
    },
    Unassign {
        item: String,
    },
    /// Sets the item's data to `value`, which no other update of the run sets.
    Update {
        item: String,
        token: Option<u64>,
        read_at: Option<String>,
        value: u64,
    },
    Read {
        item: String,
    },
    /// From the state of the node that was asked.
    ReadLocally {
        item: String,
    },
    Line {
        item: String,
    },
    Complete {
        item: String,
        token: u64,
    },
    Fail {
        item: String,
        token: u64,
    },
    /// A write to the guarded resource outside of the cluster.
    Write {
        item: String,
        token: u64,
        value: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        belief: Option<Belief>,
    },
    /// A change of the cluster itself: add, promote, remove, transfer, snapshot.
    Change {
        verb: String,
        node: u32,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(said: &bool) -> bool {
    !said
}

/// A holder relied on its lease, by the clock of its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Belief {
    /// At this moment, and maybe a moment longer.
    pub at: Micros,
    /// Since the lease was requested, the clock ran like a real one: it neither jumped nor stopped.
    pub is_steady: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It succeeded.
    Ok(Answered),
    /// It was refused and had no effect.
    Refused { code: String },
    /// It certainly did not happen: no node accepted it.
    Unavailable,
    /// It may have happened, or may still happen.
    Unknown,
}

/// The parts of an answer that some checker uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// When the answered attempt was sent: `expires_in_ms` counts from this time.
    pub sent: Micros,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Granted>,
    /// The place of a waiting claim in the line, 0 first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u32>,
    /// Of a renewal or an extension; of a reservation: its duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<SeenItem>,
    /// Release, withdraw, unassign: whether there was anything to end. Create: whether the item is new. Extend: whether
    /// it was shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub did: Option<bool>,
    /// The waiters, head first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Vec<String>>,
    /// Of a local read: its maximum age, and the last applied entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<u64>,
    /// The items whose leases were lost, of `renew_all`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    pub item: String,
    pub token: u64,
    pub expires_in_ms: u64,
    /// The claim found the caller's own lease: not a new grant.
    #[serde(default)]
    pub renewed: bool,
}

/// An item as a read showed it to an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenItem {
    pub state: String,
    pub revision: String,
    pub value: Option<u64>,
    pub holder: Option<String>,
    pub token: Option<u64>,
    pub assignee: Option<String>,
}

/// An event that a watcher got, in the format of the API.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seen {
    pub watcher: u32,
    pub at: Micros,
    pub event: api::event::Event,
}

/// A fault of the cluster or of callers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub kind: String,
    /// A description: which nodes, how much.
    pub what: String,
    /// The affected nodes, from 1.
    pub nodes: Vec<u32>,
    pub began: Micros,
    /// `None`: it lasts until the end of the run.
    pub ended: Option<Micros>,
    /// It was seen to take effect, not merely scheduled.
    pub took_hold: bool,
    /// The time in which all of it was done and nothing of it undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<(Micros, Micros)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    pub at: Micros,
    /// `None`: no leader is known.
    pub node: Option<u32>,
    pub term: u64,
}

/// Calls that were made at a follower at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Burst {
    pub began: Micros,
    pub ended: Micros,
    pub calls: u64,
    /// The number of commands that the node forwarded to the leader meanwhile, by its own metrics.
    pub forwarded: u64,
}

/// A node that exited by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    pub at: Micros,
    /// The node, and its last log lines.
    pub what: String,
}

/// The requested membership changes, and the memberships that were read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Members {
    pub changes: Vec<Change>,
    pub seen: Vec<SeenMembers>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOf {
    /// The cluster admits the node. Answered when the node has created its directory, which it does only then.
    Join,
    /// The node has a vote.
    Vote,
    /// The node follows without a vote.
    Learn,
    /// The node is removed, and its id is never used again.
    Remove,
}

/// One change, of a node by its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub node: u64,
    pub what: ChangeOf,
    pub asked: Micros,
    /// `None`: nobody knows whether it happened.
    pub answered: Option<Micros>,
}

/// The members according to a leader that committed an entry during the read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenMembers {
    pub asked: Micros,
    pub answered: Micros,
    pub voters: Vec<u64>,
    pub learners: Vec<u64>,
}

/// The cluster after healing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct End {
    pub healed: Micros,
    /// When a write, a read and a watcher had all succeeded again.
    pub served: Option<Micros>,
    /// Every item of the run, from a linearizable read.
    pub items: Vec<(String, SeenItem)>,
    /// Counts of the space: created, live, terminal, purged.
    pub created: u64,
    pub live: u64,
    pub terminal: u64,
    pub purged: u64,
    /// (node, applied index, state hash), all at one index.
    pub hashes: Vec<(u32, u64, String)>,
    /// The nodes that exited by themselves, with their last log lines.
    pub deaths: Vec<String>,
}

/// A cluster restored from a backup.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Restored {
    /// When the backup was requested, and when all of it had arrived.
    pub began: Micros,
    pub ended: Micros,
    /// The codes with which a creation and a claim were refused before the activation; `granted` if they were not
    /// refused.
    pub before_activation: Vec<String>,
    /// Every item in it before the activation, when nobody held an item any more or a minute was over.
    pub items: Vec<(String, SeenItem)>,
    /// The token of the first lease that it granted.
    pub token: u64,
    /// Why the backup could not be restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Operation {
    #[must_use]
    pub fn answered(&self) -> Option<&Answered> {
        match &self.outcome {
            Outcome::Ok(answered) => Some(answered),
            Outcome::Refused { .. } | Outcome::Unavailable | Outcome::Unknown => None,
        }
    }
}

impl Asked {
    /// The one item that it names.
    #[must_use]
    pub fn item(&self) -> Option<&str> {
        match self {
            Self::Create { item, .. }
            | Self::Claim { item, .. }
            | Self::Renew { item, .. }
            | Self::Extend { item, .. }
            | Self::Release { item, .. }
            | Self::Withdraw { item }
            | Self::Revoke { item }
            | Self::Reserve { item, .. }
            | Self::HandOn { item, .. }
            | Self::Cancel { item, .. }
            | Self::ReadLocally { item }
            | Self::Assign { item, .. }
            | Self::Unassign { item }
            | Self::Update { item, .. }
            | Self::Read { item }
            | Self::Line { item }
            | Self::Complete { item, .. }
            | Self::Fail { item, .. }
            | Self::Write { item, .. } => Some(item),
            Self::Next { .. } | Self::RenewAll | Self::Change { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(process: Process, at: (Micros, Option<Micros>), asked: Asked, outcome: Outcome) -> Operation {
        Operation {
            process,
            actor: format!("actor-{process}"),
            session: Some("s1".into()),
            node: Some(2),
            request_id: None,
            is_repeat: false,
            invoked: at.0,
            completed: at.1,
            asked,
            outcome,
            batch: None,
            due: None,
        }
    }

    /// One of each kind.
    pub(super) fn sample() -> History {
        let disk = || "disk".to_owned();
        let claim = Asked::Claim { item: disk(), lease_for_ms: Some(2_000), waits: false, takeover: false };
        let grant = Granted { item: disk(), token: 7, expires_in_ms: 2_000, renewed: false };
        let granted = Outcome::Ok(Answered { sent: 11, grants: vec![grant], ..Answered::default() });
        let seen = SeenItem { state: "active".into(), revision: "0.9".into(), value: Some(4), ..SeenItem::default() };
        let read = Outcome::Ok(Answered { sent: 42, item: Some(seen.clone()), ..Answered::default() });
        let update = Asked::Update { item: disk(), token: Some(7), read_at: None, value: 4 };
        let write = Asked::Write { item: disk(), token: 6, value: 3, belief: None };
        let mut repeated = operation(3, (60, Some(70)), update.clone(), Outcome::Unavailable);
        repeated.request_id = Some("1-2".into());
        repeated.is_repeat = true;
        let event = serde_json::json!({
            "number": "0.9", "at_ms": 5, "at": "2026-01-01T00:00:00.000Z", "kind": "updated", "item": "disk",
        });
        History {
            about: About { seed: 5, workload: "mutex".into(), nodes: 3, ..About::default() },
            operations: vec![
                operation(0, (10, Some(20)), claim, granted),
                operation(1, (20, None), update, Outcome::Unknown),
                operation(2, (30, Some(30)), write, Outcome::Refused { code: "stale_token".into() }),
                operation(0, (40, Some(50)), Asked::Read { item: disk() }, read),
                repeated,
                operation(0, (80, Some(90)), Asked::RenewAll, Outcome::Ok(Answered::default())),
            ],
            seen: vec![Seen { watcher: 0, at: 55, event: serde_json::from_value(event).unwrap() }],
            faults: vec![Fault {
                kind: "kill".into(),
                what: "node 2, the leader".into(),
                nodes: vec![2],
                began: 15,
                ended: Some(85),
                took_hold: true,
                in_force: Some((16, 84)),
            }],
            leaders: vec![Leader { at: 5, node: Some(2), term: 3 }],
            end: Some(End { healed: 85, items: vec![(disk(), seen)], created: 1, live: 1, ..End::default() }),
            members: Members::default(),
            deaths: Vec::new(),
            bursts: Vec::new(),
            restored: None,
            soak: None,
        }
    }
}
