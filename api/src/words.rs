//! Enumerations and their names in JSON. Each matches an enumeration of the rules one to one.

use lease::caller::{ActorKind as CoreActorKind, Role as CoreRole, Verified as CoreVerified};
use lease::command::Order as CoreOrder;
use lease::item::{
    ActivityKind as CoreActivityKind, MirrorSkip as CoreMirrorSkip, RunsIn as CoreRunsIn, Transition as CoreTransition,
};
use lease::outcome::EmptyReason as CoreEmptyReason;
use lease::policy::{
    AtMaxLeases as CoreAtMaxLeases, Disclosure as CoreDisclosure, IdentityPolicy as CoreIdentityPolicy,
    OnDependencyFailed as CoreOnDependencyFailed, RequireLease as CoreRequireLease,
};
use lease::queue::Flow as CoreFlow;
use lease::standing::{BlockedBy as CoreBlockedBy, StateKind as CoreStateKind};
use lease::views::ClaimStatus as CoreClaimStatus;
use lease::worker::Liveness as CoreLiveness;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident = $core:ident { $($variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($variant),+
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
        }

        impl From<$core> for $name {
            fn from(core: $core) -> Self {
                match core {
                    $($core::$variant => Self::$variant),+
                }
            }
        }

        impl From<$name> for $core {
            fn from(word: $name) -> Self {
                match word {
                    $($name::$variant => Self::$variant),+
                }
            }
        }
    };
}

words! {
    /// The kind of an actor.
    ActorKind = CoreActorKind { User, Agent, System }
}
words! {
    /// How the node established the caller's identity.
    Verified = CoreVerified { Checked, FromCache, SelfReported }
}
/// What a caller lacks: a role in the space and the queue, or a right for the whole cluster (`admin`, `backup`,
/// `metrics`). No role implies another, but every role may see the items of its queues. `admin` implies the other
/// rights for the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    Reader,
    Worker,
    Dispatcher,
    Operator,
    Admin,
    Backup,
    Metrics,
}

impl Need {
    /// Whether this is a right for the whole cluster.
    #[must_use]
    pub fn is_of_cluster(self) -> bool {
        matches!(self, Self::Admin | Self::Backup | Self::Metrics)
    }
}

impl From<CoreRole> for Need {
    fn from(role: CoreRole) -> Self {
        match role {
            CoreRole::Reader => Self::Reader,
            CoreRole::Worker => Self::Worker,
            CoreRole::Dispatcher => Self::Dispatcher,
            CoreRole::Operator => Self::Operator,
            CoreRole::Admin => Self::Admin,
        }
    }
}
words! {
    /// The order in which `next` considers items. `priority`: highest priority first, then oldest.
    Order = CoreOrder { Priority, Oldest, Newest }
}
words! {
    /// Why a transition of an item did not move the phase of its target.
    MirrorSkip = CoreMirrorSkip { Held, Terminal, Missing, NoSuchPhase }
}
words! {
    /// The kind of an activity, with which observers follow the work on an item.
    ActivityKind = CoreActivityKind {
        Progress, PlanUpdated, ExternalUrlUpdated, AwaitingInput, Completed, Failed, PolicyDecision,
    }
}
words! {
    /// Where an item may run, where a worker runs, or which items a caller wants.
    RunsIn = CoreRunsIn { Any, Cloud, Local }
}
words! {
    /// Why `next` granted nothing. `examined_enough`: call `next` again with the cursor.
    EmptyReason = CoreEmptyReason {
        NothingQueued, NothingEligible, ExaminedEnough, QueuePaused, QueueFull, TooManyLeases, WorkerDraining,
    }
}
words! {
    /// What happens when an actor that has `max_leases` leases claims another item.
    AtMaxLeases = CoreAtMaxLeases { Reject, ReleaseOldest }
}
words! {
    /// Whether an update needs a lease. `if_held`: an item that nobody holds may be updated with `read_at`.
    RequireLease = CoreRequireLease { IfHeld, Always }
}
words! {
    /// Who may see the holders of items.
    Disclosure = CoreDisclosure { Open, Fleet, CrossOrg }
}
words! {
    /// What happens to an item whose dependency can no longer complete.
    OnDependencyFailed = CoreOnDependencyFailed { Block, Ignore }
}
words! {
    /// Which callers' commands a space accepts.
    IdentityPolicy = CoreIdentityPolicy { AcceptSelfReported, AcceptCached, RequireChecked }
}
words! {
    /// Whether a queue grants leases.
    Flow = CoreFlow { Open, Paused, Draining, Drained }
}
words! {
    /// Why an item is blocked.
    BlockedBy = CoreBlockedBy { Attempts, Dependency }
}
words! {
    /// The state of an item.
    ItemState = CoreStateKind {
        Pending, Queued, Active, AwaitingInput, Stale, Reserved, Blocked, Complete, Error, Cancelled,
    }
}
words! {
    /// A transition of an item that may move the phase of its target.
    Transition = CoreTransition { Claimed, Completed, AwaitingInput, AttemptsExhausted }
}
words! {
    /// Whether an item is held. `expired`: its lease expired and nobody has claimed the item since.
    ClaimStatus = CoreClaimStatus { Claimed, Unclaimed, Expired }
}
words! {
    /// Whether a worker has sent its heartbeats in time.
    Liveness = CoreLiveness { Alive, Quiet, Gone }
}
