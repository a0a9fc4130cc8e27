//! The error codes of each call, in the order of the checks.

use crate::code::Code::{self, *};

/// Codes of every call, checked before the call itself.
pub const OF_EVERY_CALL: &[Code] = &[Overloaded, Unauthenticated, Invalid, RateLimited];
/// Codes of calls with a body.
pub const OF_A_BODY: &[Code] = &[TooSlow, TooLarge, UnsupportedMediaType];
/// Codes of calls that only read.
pub const OF_A_VIEW: &[Code] = &[Unavailable, Internal];
/// Codes of every command, checked before its own rules.
pub const OF_A_COMMAND: &[Code] =
    &[Unavailable, Unknown, RejectedByPolicy, RequestIdReused, RequestForgotten, NotActivated];

const WRITE: &[Code] = &[
    NotFound,
    Forbidden,
    StaleToken,
    TerminalItem,
    AlreadyClaimed,
    NotHolder,
    LeaseRequired,
    StaleWrite,
    WrongState,
    SpaceFull,
];
const HOLD: &[Code] = &[NotFound, Forbidden, LeaseLost, NotHolder];
const FIND: &[Code] = &[NotFound, Forbidden];
const CLAIM: &[Code] = &[
    NotFound,
    Forbidden,
    TerminalItem,
    WaitTimeout,
    NotReady,
    Blocked,
    Reserved,
    WorkerDraining,
    QueuePaused,
    HeldByYourOtherSession,
    AlreadyClaimed,
    LineTooLong,
    QueueFull,
    TooManyLeases,
    LeaseLost,
    Internal,
];
const CLUSTER: &[Code] = &[Forbidden, Unavailable, Unknown, ChangeRefused, Internal];

/// The codes of one call, by its operation id, in addition to those of its kind above. None: there is no such call.
#[must_use]
pub fn of(operation: &str) -> Option<&'static [Code]> {
    Some(match operation {
        "create" => &[Forbidden, AlreadyExists, NotFound, TooManyDependents, SpaceFull, Internal],
        "create_many" => &[Forbidden, SpaceFull, Internal],
        "list_items" | "carrying" | "carrying_of" | "list_queues" | "list_workers" => &[],
        "show_item" => &[NotFound, AlreadyClaimed],
        "line" | "claim_summary" | "activities" | "show_queue" => &[NotFound],
        "held_at" => &[NotFound, PositionTooOld],
        "show_space" => &[Forbidden],
        "list_events" | "follow_events" => &[Forbidden, PositionTooOld],
        "peek" => FIND,
        "claim" => CLAIM,
        "claim_many" => &[Internal],
        "next" => &[NotFound, Forbidden, Internal],
        "renew" | "extend" | "reserve" => HOLD,
        "renew_all" => &[Forbidden],
        "release" => &[NotFound, Forbidden, NotHolder],
        "withdraw" => FIND,
        "reorder" | "revoke" => &[NotFound, Forbidden, TerminalItem],
        "assign" => &[NotFound, Forbidden, TerminalItem, Reserved, AlreadyClaimed],
        "unassign" => &[NotFound, Forbidden, TerminalItem, AlreadyClaimed],
        "update" => &[
            NotFound,
            Forbidden,
            StaleToken,
            TerminalItem,
            AlreadyClaimed,
            NotHolder,
            LeaseRequired,
            StaleWrite,
            WrongState,
            SpaceFull,
            NotReady,
            Blocked,
            Reserved,
            WorkerDraining,
            QueuePaused,
            HeldByYourOtherSession,
            QueueFull,
            TooManyLeases,
            Internal,
        ],
        "activity" | "await_input" | "resume" | "hand_on" | "complete" | "fail" => WRITE,
        "cancel" => &[NotFound, Forbidden, TerminalItem],
        "reopen" | "retry" => &[NotFound, Forbidden, WrongState, SpaceFull],
        "set_policy" => &[NotFound, Forbidden, StaleWrite],
        "pause" | "unpause" | "drain_queue" => FIND,
        "set_space_policy" => &[Forbidden],
        "register_worker" => &[Forbidden, SpaceFull],
        "drain_worker" | "remove_worker" => &[Forbidden],
        "cluster_status" | "join_secret" => &[Forbidden],
        "add_member" | "promote_member" | "remove_member" | "transfer_leader" | "take_snapshot" | "raise_rules"
        | "drain_node" | "undrain_node" => CLUSTER,
        "backup" => &[Forbidden, Unavailable, ChangeRefused, Internal],
        "restore" => &[Forbidden, ChangeRefused, RestoreRefused, Internal],
        "activate" => &[Forbidden, NotReady],
        _ => return None,
    })
}
