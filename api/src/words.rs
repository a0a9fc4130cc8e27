//! The closed sets of words, each as it stands in JSON. One to one with the rules' own.

use lease::caller::{ActorKind as CoreActorKind, Role as CoreRole, Verified as CoreVerified};
use lease::command::Order as CoreOrder;
use lease::event::MirrorSkip as CoreMirrorSkip;
use lease::item::{ActivityKind as CoreActivityKind, RunsIn as CoreRunsIn};
use lease::outcome::EmptyReason as CoreEmptyReason;
use lease::policy::{
    AtMaxLeases as CoreAtMaxLeases, Disclosure as CoreDisclosure, IdentityPolicy as CoreIdentityPolicy,
    OnDependencyFailed as CoreOnDependencyFailed, RequireLease as CoreRequireLease,
};
use lease::queue::Flow as CoreFlow;
use lease::standing::{BlockedBy as CoreBlockedBy, StateKind as CoreStateKind, Transition as CoreTransition};
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
    /// What kind of actor it is.
    ActorKind = CoreActorKind { User, Agent, System }
}
words! {
    /// How the node came to believe the caller's identity.
    Verified = CoreVerified { Checked, FromCache, SelfReported }
}
/// What a caller lacks: a role in the space and the queue, or a right for the whole cluster (`admin`, `backup`,
/// `metrics`). No role implies another; each sees the items of its queues. `admin` implies the other rights for the
/// cluster.
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
    /// Whether it is given for the whole cluster.
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
    /// `priority`: highest first, then oldest.
    Order = CoreOrder { Priority, Oldest, Newest }
}
words! {
    /// Why a step of an item did not move its target.
    MirrorSkip = CoreMirrorSkip { Held, Terminal, Missing, NoSuchPhase }
}
words! {
    /// What an observer sees of an item's progress.
    ActivityKind = CoreActivityKind {
        Progress, PlanUpdated, ExternalUrlUpdated, AwaitingInput, Completed, Failed, PolicyDecision,
    }
}
words! {
    /// Where a worker runs, or what a caller wants.
    RunsIn = CoreRunsIn { Any, Cloud, Local }
}
words! {
    /// Why `next` has nothing. `examined_enough`: ask again with the cursor.
    EmptyReason = CoreEmptyReason {
        NothingQueued, NothingEligible, ExaminedEnough, QueuePaused, QueueFull, TooManyLeases, WorkerDraining,
    }
}
words! {
    /// What happens to an actor that has as many leases as it may.
    AtMaxLeases = CoreAtMaxLeases { Reject, ReleaseOldest }
}
words! {
    /// `if_held`: an item that nobody holds may be updated with `read_at`.
    RequireLease = CoreRequireLease { IfHeld, Always }
}
words! {
    /// Who may see who holds what.
    Disclosure = CoreDisclosure { Open, Fleet, CrossOrg }
}
words! {
    /// What happens to an item whose dependency can no longer complete.
    OnDependencyFailed = CoreOnDependencyFailed { Block, Ignore }
}
words! {
    /// Whose commands a space takes.
    IdentityPolicy = CoreIdentityPolicy { AcceptSelfReported, AcceptCached, RequireChecked }
}
words! {
    /// Whether a queue grants.
    Flow = CoreFlow { Open, Paused, Draining, Drained }
}
words! {
    /// What keeps an item blocked.
    BlockedBy = CoreBlockedBy { Attempts, Dependency }
}
words! {
    /// Where an item stands.
    ItemState = CoreStateKind {
        Pending, Queued, Active, AwaitingInput, Stale, Reserved, Blocked, Complete, Error, Cancelled,
    }
}
words! {
    /// A step of an item that its target's phase may follow.
    Transition = CoreTransition { Claimed, Completed, AwaitingInput, AttemptsExhausted }
}
words! {
    /// `expired`: its lease lapsed and nobody has taken it since.
    ClaimStatus = CoreClaimStatus { Claimed, Unclaimed, Expired }
}
words! {
    /// Whether a worker was heard of in time.
    Liveness = CoreLiveness { Alive, Quiet, Gone }
}
