//! The closed list of error codes: every refusal of the rules, and the errors that occur before the rules are reached.
//! A program branches on the code. The code determines the status, whether to retry and whether the request took
//! effect.

use lease::refusal::{Code as CoreCode, TookEffect as CoreTookEffect};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! codes {
    (
        rules { $($rule:ident = $rule_name:literal, $rule_status:literal, $rule_title:literal;)+ }
        edge { $($edge:ident = $edge_name:literal, $edge_status:literal, $edge_title:literal;)+ }
    ) => {
        codes! {
            $($rule = $rule_name, $rule_status, $rule_title;)+
            $($edge = $edge_name, $edge_status, $edge_title;)+
        }

        impl Code {
            /// The matching code of the rules, if this code comes from the rules.
            #[must_use]
            pub fn core(self) -> Option<CoreCode> {
                match self {
                    $(Self::$rule => Some(CoreCode::$rule),)+
                    $(Self::$edge)|+ => None,
                }
            }
        }

        impl From<CoreCode> for Code {
            fn from(core: CoreCode) -> Self {
                match core {
                    $(CoreCode::$rule => Self::$rule),+
                }
            }
        }
    };
    ($($variant:ident = $name:literal, $status:literal, $title:literal;)+) => {
        /// The error code, which a program branches on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Code {
            $(#[doc = $title] $variant),+
        }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }

            /// The HTTP status of this code; always the same.
            #[must_use]
            pub fn status(self) -> u16 {
                match self {
                    $(Self::$variant => $status),+
                }
            }

            /// A short description of the code.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$variant => $title),+
                }
            }
        }
    };
}

codes! {
    rules {
        Invalid = "invalid", 400, "Invalid request; sending it again unchanged will fail again";
        NotFound = "not_found", 404, "Not found, or not visible to this caller";
        Forbidden = "forbidden", 403, "The caller's roles do not allow this";
        RejectedByPolicy = "rejected_by_policy", 403, "The space's identity policy rejects this caller";
        TerminalItem = "terminal_item", 409, "Item is complete, failed or cancelled";
        NotReady = "not_ready", 409, "Not ready yet";
        Blocked = "blocked", 409, "Item is blocked until an operator retries it";
        Reserved = "reserved", 409, "Item is reserved for another actor";
        QueuePaused = "queue_paused", 409, "Queue is paused, draining or drained";
        HeldByYourOtherSession = "held_by_your_other_session", 409, "Item is held by another session of the same actor";
        AlreadyClaimed = "already_claimed", 409, "Item is already claimed";
        QueueFull = "queue_full", 409, "Queue has reached its limit of leases";
        TooManyLeases = "too_many_leases", 409, "Actor has reached its limit of leases";
        LineTooLong = "line_too_long", 409, "Wait line is longer than the caller or the queue allows";
        WaitTimeout = "wait_timeout", 409, "Timed out waiting in line";
        LeaseLost = "lease_lost", 409, "The lease has ended";
        NotHolder = "not_holder", 409, "The lease belongs to another caller";
        StaleToken = "stale_token", 409, "The token's lease has ended or belongs to another caller";
        LeaseRequired = "lease_required", 428, "Only a holder may do this; claim the item first";
        StaleWrite = "stale_write", 412, "Item has changed since it was read";
        AlreadyExists = "already_exists", 409, "Item id already exists with different content";
        WrongState = "wrong_state", 409, "Item's state does not allow this command";
        AllOrNone = "all_or_none", 409, "Another entry of the all-or-none batch was refused";
        WorkerDraining = "worker_draining", 409, "Worker is draining and gets no new items";
        SpaceFull = "space_full", 507, "Space has reached a limit of its policy";
        TooManyDependents = "too_many_dependents", 409, "Too many items already depend on that item";
        RequestIdReused = "request_id_reused", 422, "Request id was already used for a different request";
        RequestForgotten = "request_forgotten", 409, "It is no longer known whether this request took effect";
        NotActivated = "not_activated", 503, "The restored cluster is not activated yet; an admin must activate it";
        RestoreRefused = "restore_refused", 409, "Restore would repeat tokens";
        RateLimited = "rate_limited", 429, "Actor has exceeded a rate limit";
    }
    edge {
        Unauthenticated = "unauthenticated", 401, "Caller is not authenticated";
        MethodNotAllowed = "method_not_allowed", 405, "Method not allowed for this path";
        UnsupportedMediaType = "unsupported_media_type", 415, "Content type must be application/json";
        TooLarge = "too_large", 413, "Request is too large";
        TooSlow = "too_slow", 408, "Request did not arrive in time";
        Overloaded = "overloaded", 503, "Node is overloaded; the request had no effect";
        Unavailable = "unavailable", 503, "No leader with a quorum accepted the request in time; it had no effect";
        Unknown = "unknown", 504, "The request may have taken effect; repeat it with the same Idempotency-Key";
        PositionTooOld = "position_too_old", 410, "Events at this position are no longer stored";
        ChangeRefused = "change_refused", 409, "The cluster cannot make this change now";
        Internal = "internal", 500, "Internal error; see the node's log";
    }
}

/// Whether a request that did not succeed had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TookEffect {
    No,
    Yes,
    Unknown,
}

impl Code {
    /// Whether the same request, sent later, may succeed without any other change by the caller.
    #[must_use]
    pub fn may_retry(self) -> bool {
        match self.core() {
            Some(core) => core.may_retry(),
            None => matches!(
                self,
                Self::TooSlow
                    | Self::Overloaded
                    | Self::Unavailable
                    | Self::Unknown
                    | Self::ChangeRefused
                    | Self::Internal
            ),
        }
    }

    #[must_use]
    pub fn took_effect(self) -> TookEffect {
        match self.core() {
            Some(core) => match core.took_effect() {
                CoreTookEffect::No => TookEffect::No,
                CoreTookEffect::Unknown => TookEffect::Unknown,
            },
            None if matches!(self, Self::Unknown | Self::Internal) => TookEffect::Unknown,
            None => TookEffect::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_of_the_rules_has_a_code_of_the_same_name() {
        for core in CoreCode::ALL {
            let code = Code::from(core);
            assert_eq!(code.name(), core.name());
            assert_eq!(code.core(), Some(core));
            assert_eq!(code.may_retry(), core.may_retry());
        }
        let edge: Vec<&str> = Code::ALL.iter().filter(|code| code.core().is_none()).map(|code| code.name()).collect();
        assert_eq!(
            edge.join(" "),
            "unauthenticated method_not_allowed unsupported_media_type too_large too_slow overloaded \
             unavailable unknown position_too_old change_refused internal"
        );
    }

    #[test]
    fn codes_serialize_as_their_names_and_have_error_statuses() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{}\"", code.name()));
            assert!((400..600).contains(&code.status()), "{code:?}");
        }
        let unknown: Vec<&str> =
            Code::ALL.iter().filter(|code| code.took_effect() == TookEffect::Unknown).map(|code| code.name()).collect();
        assert_eq!(unknown, ["request_forgotten", "unknown", "internal"]);
    }
}
