//! The closed list of codes: every refusal of the rules, and what can go wrong before them. A program branches on the
//! code; the status, whether to try again and whether it took effect follow from it.

use lease::refusal::{Code as CoreCode, TookEffect as CoreTookEffect};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! codes {
    ($($(#[$core:ident])? $variant:ident = $name:literal, $status:literal, $title:literal;)+) => {
        /// What a program branches on.
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

            /// The HTTP status that it always comes with.
            #[must_use]
            pub fn status(self) -> u16 {
                match self {
                    $(Self::$variant => $status),+
                }
            }

            /// What it means, in one sentence.
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
    Invalid = "invalid", 400, "The request itself is wrong; sending it again is of no use";
    NotFound = "not_found", 404, "There is no such thing, or none that this caller may see";
    Forbidden = "forbidden", 403, "The caller's roles do not reach";
    RejectedByPolicy = "rejected_by_policy", 403, "The space does not take this caller's word for who it is";
    TerminalItem = "terminal_item", 409, "The item is complete, failed or cancelled";
    NotReady = "not_ready", 409, "It waits for something else first";
    Blocked = "blocked", 409, "Nobody gets the item until an operator's retry";
    Reserved = "reserved", 409, "The item is reserved for another actor";
    QueuePaused = "queue_paused", 409, "The queue grants nothing now";
    HeldByYourOtherSession = "held_by_your_other_session", 409, "Another session of the same actor holds the item";
    AlreadyClaimed = "already_claimed", 409, "Somebody else is first";
    QueueFull = "queue_full", 409, "The queue has as many leases as it may";
    TooManyLeases = "too_many_leases", 409, "The actor has as many leases as it may";
    LineTooLong = "line_too_long", 409, "The wait line is longer than the caller or the queue allows";
    WaitTimeout = "wait_timeout", 409, "The time to wait in line is over";
    LeaseLost = "lease_lost", 409, "The lease is gone for sure";
    NotHolder = "not_holder", 409, "Somebody else's lease";
    StaleToken = "stale_token", 409, "The lease under this token is over, or it is somebody else's";
    LeaseRequired = "lease_required", 428, "Only a holder may do this: claim the item first";
    StaleWrite = "stale_write", 412, "The item changed since it was read";
    AlreadyExists = "already_exists", 409, "An item of this id exists with other content";
    WrongState = "wrong_state", 409, "The item is in no state to take this command";
    AllOrNone = "all_or_none", 409, "Another entry of the batch was refused, and so all were";
    WorkerDraining = "worker_draining", 409, "This worker is to take nothing new";
    SpaceFull = "space_full", 507, "The space holds as much as its policy allows";
    TooManyDependents = "too_many_dependents", 409, "Too many items wait for that one already";
    RequestIdReused = "request_id_reused", 422, "The same request id came with another body";
    RequestForgotten = "request_forgotten", 409, "Whether this request took effect is no longer known";
    NotActivated = "not_activated", 503, "Restored from a backup: an admin has to activate the cluster first";
    RestoreRefused = "restore_refused", 409, "The restore would repeat tokens";
    Unauthenticated = "unauthenticated", 401, "The caller did not show who it is";
    MethodNotAllowed = "method_not_allowed", 405, "There is such a path, but not for this method";
    UnsupportedMediaType = "unsupported_media_type", 415, "The body has to be application/json";
    TooLarge = "too_large", 413, "The request is larger than is taken";
    TooSlow = "too_slow", 408, "The request did not arrive in time";
    RateLimited = "rate_limited", 429, "This actor asks more often than it may";
    Overloaded = "overloaded", 503, "This node has more to do than it can: it did not happen";
    Unavailable = "unavailable", 503, "It did not happen: no leader with a quorum took it in time";
    Unknown = "unknown", 504, "It may have happened: ask again with the same Idempotency-Key";
    PositionTooOld = "position_too_old", 410, "Events at that position are no longer kept";
    ChangeRefused = "change_refused", 409, "The cluster cannot be changed so now";
    Internal = "internal", 500, "The node failed: its log says more";
}

/// Whether a request that was not answered with success had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TookEffect {
    No,
    Yes,
    Unknown,
}

impl Code {
    /// Whether the same wish, sent later, may be granted without anything else being changed.
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

    /// The refusal of the rules that it is, if it is one.
    #[must_use]
    pub fn core(self) -> Option<CoreCode> {
        CoreCode::ALL.into_iter().find(|core| Self::from(*core) == self)
    }
}

impl From<CoreCode> for Code {
    fn from(core: CoreCode) -> Self {
        match core {
            CoreCode::Invalid => Self::Invalid,
            CoreCode::NotFound => Self::NotFound,
            CoreCode::Forbidden => Self::Forbidden,
            CoreCode::RejectedByPolicy => Self::RejectedByPolicy,
            CoreCode::TerminalItem => Self::TerminalItem,
            CoreCode::NotReady => Self::NotReady,
            CoreCode::Blocked => Self::Blocked,
            CoreCode::Reserved => Self::Reserved,
            CoreCode::QueuePaused => Self::QueuePaused,
            CoreCode::HeldByYourOtherSession => Self::HeldByYourOtherSession,
            CoreCode::AlreadyClaimed => Self::AlreadyClaimed,
            CoreCode::QueueFull => Self::QueueFull,
            CoreCode::TooManyLeases => Self::TooManyLeases,
            CoreCode::LineTooLong => Self::LineTooLong,
            CoreCode::WaitTimeout => Self::WaitTimeout,
            CoreCode::LeaseLost => Self::LeaseLost,
            CoreCode::NotHolder => Self::NotHolder,
            CoreCode::StaleToken => Self::StaleToken,
            CoreCode::LeaseRequired => Self::LeaseRequired,
            CoreCode::StaleWrite => Self::StaleWrite,
            CoreCode::AlreadyExists => Self::AlreadyExists,
            CoreCode::WrongState => Self::WrongState,
            CoreCode::AllOrNone => Self::AllOrNone,
            CoreCode::WorkerDraining => Self::WorkerDraining,
            CoreCode::SpaceFull => Self::SpaceFull,
            CoreCode::TooManyDependents => Self::TooManyDependents,
            CoreCode::RequestIdReused => Self::RequestIdReused,
            CoreCode::RequestForgotten => Self::RequestForgotten,
            CoreCode::NotActivated => Self::NotActivated,
            CoreCode::RestoreRefused => Self::RestoreRefused,
            CoreCode::RateLimited => Self::RateLimited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_of_the_rules_is_on_the_list_under_its_own_name() {
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
    fn a_code_is_written_as_it_is_named_and_its_status_is_one_of_a_failure() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{}\"", code.name()));
            assert!((400..600).contains(&code.status()), "{code:?}");
        }
        let unknown: Vec<&str> =
            Code::ALL.iter().filter(|code| code.took_effect() == TookEffect::Unknown).map(|code| code.name()).collect();
        assert_eq!(unknown, ["request_forgotten", "unknown", "internal"]);
    }
}
