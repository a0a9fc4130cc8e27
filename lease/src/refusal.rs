//! The closed list of refusals. A refused command changed nothing. A refusal contains what the caller needs to act on
//! it, and never a token.

use crate::caller::{ActorKind, Holder, Role};
use crate::item::Field;
use crate::names::{ActorId, ItemId};
use crate::numbers::{Revision, Span, Time, Wall};
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The request is invalid; sending it again unchanged will fail again. The remembered answers of batches contain
    /// `why`, so replicas must produce the same text.
    Invalid {
        field: String,
        why: String,
    },
    /// It does not exist, or this caller may not see it.
    NotFound,
    /// The caller may see it, but its roles do not allow the command.
    Forbidden {
        needs: Role,
    },
    /// The space's identity policy rejects this caller.
    RejectedByPolicy,
    TerminalItem,
    NotReady(NotReady),
    Blocked,
    Reserved {
        retry_after: Span,
    },
    QueuePaused,
    HeldByYourOtherSession,
    AlreadyClaimed(Conflict),
    QueueFull {
        retry_after: Span,
    },
    TooManyLeases {
        max: u32,
    },
    LineTooLong {
        line_length: u32,
    },
    WaitTimeout,
    LeaseLost {
        holder: Option<HolderView>,
    },
    NotHolder,
    StaleToken,
    LeaseRequired,
    StaleWrite {
        revision: Revision,
        fields: Vec<Field>,
    },
    AlreadyExists,
    /// The item's state does not allow this command.
    WrongState {
        state: String,
    },
    /// Another entry of an all-or-none batch was refused.
    AllOrNone,
    WorkerDraining,
    SpaceFull {
        items_max: u64,
        body_bytes_max: u64,
    },
    TooManyDependents {
        item: ItemId,
    },
    RequestIdReused,
    RequestForgotten,
    /// The cluster was restored from a backup and an admin has not activated it yet.
    NotActivated,
    RestoreRefused {
        why: String,
    },
    /// The request memory is nearly full, and this actor uses much of it.
    RateLimited {
        retry_after: Span,
    },
}

/// What a pending item waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotReady {
    pub dependencies: u32,
    pub not_before: Option<Wall>,
    pub retry_after: Option<Span>,
}

/// The item is already claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    pub retry_after: Span,
    /// The holder, as far as disclosure allows.
    pub holder: Option<HolderView>,
}

/// What the caller may see of a holder. The rest is omitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderView {
    pub kind: ActorKind,
    pub named: Option<NamedHolder>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedHolder {
    pub holder: Holder,
    pub expires_at: Time,
    pub action: Option<String>,
    pub field: Option<String>,
}

/// Makes [`Code`] and all that is known of a code from one table with a row for each refusal.
macro_rules! codes {
    ($($variant:ident = $name:literal, $may_retry:literal;)+) => {
        /// The code of a refusal, which a program branches on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Code {
            $($variant),+
        }

        impl Code {
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }

            /// Whether the same command, sent later under a new request id, may succeed without any other change by the
            /// caller.
            #[must_use]
            pub fn may_retry(self) -> bool {
                match self {
                    $(Self::$variant => $may_retry),+
                }
            }
        }

        impl Refusal {
            #[must_use]
            pub fn code(&self) -> Code {
                match self {
                    $(Self::$variant { .. } => Code::$variant),+
                }
            }
        }
    };
}

// The order is that of the variants of `Code`, whose numbers are in records: new codes come last. The last column says
// whether a retry may succeed.
codes! {
    Invalid = "invalid", false;
    NotFound = "not_found", false;
    Forbidden = "forbidden", false;
    RejectedByPolicy = "rejected_by_policy", false;
    TerminalItem = "terminal_item", false;
    NotReady = "not_ready", true;
    Blocked = "blocked", false;
    Reserved = "reserved", true;
    QueuePaused = "queue_paused", true;
    HeldByYourOtherSession = "held_by_your_other_session", true;
    AlreadyClaimed = "already_claimed", true;
    QueueFull = "queue_full", true;
    TooManyLeases = "too_many_leases", true;
    LineTooLong = "line_too_long", true;
    WaitTimeout = "wait_timeout", true;
    LeaseLost = "lease_lost", false;
    NotHolder = "not_holder", false;
    StaleToken = "stale_token", false;
    LeaseRequired = "lease_required", false;
    StaleWrite = "stale_write", false;
    AlreadyExists = "already_exists", false;
    WrongState = "wrong_state", false;
    AllOrNone = "all_or_none", true;
    WorkerDraining = "worker_draining", false;
    SpaceFull = "space_full", true;
    TooManyDependents = "too_many_dependents", true;
    RequestIdReused = "request_id_reused", false;
    RequestForgotten = "request_forgotten", false;
    NotActivated = "not_activated", true;
    RestoreRefused = "restore_refused", false;
    RateLimited = "rate_limited", true;
}

/// Whether a refused request had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TookEffect {
    No,
    Unknown,
}

impl Code {
    #[must_use]
    pub fn took_effect(self) -> TookEffect {
        if self == Self::RequestForgotten { TookEffect::Unknown } else { TookEffect::No }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Refusal {
    pub(crate) fn invalid(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), why: why.into() }
    }

    /// How long to wait before a retry.
    #[must_use]
    pub fn retry_after(&self) -> Option<Span> {
        match self {
            Self::AlreadyClaimed(conflict) => Some(conflict.retry_after),
            Self::NotReady(not_ready) => not_ready.retry_after,
            Self::Reserved { retry_after } | Self::QueueFull { retry_after } | Self::RateLimited { retry_after } => {
                Some(*retry_after)
            }
            _ => None,
        }
    }
}

impl HolderView {
    #[must_use]
    pub fn actor(&self) -> Option<&ActorId> {
        self.named.as_ref().map(|named| &named.holder.actor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_names_are_unique_and_retryable_codes_are_listed() {
        let names: std::collections::BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|code| code.to_string() == code.name()));
        let again: Vec<&str> = Code::ALL.iter().filter(|code| code.may_retry()).map(|code| code.name()).collect();
        assert_eq!(
            again.join(" "),
            "not_ready reserved queue_paused held_by_your_other_session already_claimed queue_full too_many_leases \
             line_too_long wait_timeout all_or_none space_full too_many_dependents not_activated rate_limited"
        );
        let unknown: Vec<&Code> = Code::ALL.iter().filter(|code| code.took_effect() == TookEffect::Unknown).collect();
        assert_eq!(unknown, [&Code::RequestForgotten]);
    }

    #[test]
    fn retryable_refusals_carry_retry_after() {
        let span = Span(7);
        let conflict = Refusal::AlreadyClaimed(Conflict { retry_after: span, holder: None });
        let not_ready = Refusal::NotReady(NotReady { retry_after: Some(span), ..NotReady::default() });
        let reserved = Refusal::Reserved { retry_after: span };
        let full = Refusal::QueueFull { retry_after: span };
        let limited = Refusal::RateLimited { retry_after: span };
        assert_eq!(
            [conflict, not_ready, reserved, full, limited].map(|refusal| refusal.retry_after()),
            [Some(span); 5]
        );
        assert_eq!(Refusal::Blocked.retry_after(), None);
    }
}
