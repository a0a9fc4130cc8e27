//! The policies of queues and spaces. They are replicated, versioned and changed by commands.

use crate::bounds;
use crate::item::Transition;
use crate::names::Phase;
use crate::numbers::Span;
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The lease length of a claim that names none.
    pub lease_for: Span,
    pub lease_max: Span,
    pub lease_min: Span,
    /// How long a grant from the wait line waits for its holder's first request.
    pub pickup: Span,
    /// After a lease ended uncleanly, only its holder may claim the item for this long.
    pub lock_delay: Span,
    /// The last quarter of a line is kept for actors that have few places in it.
    pub line_max: u32,
    /// 0: unlimited.
    pub attempts_max: u32,
    pub backoff: Backoff,
    /// How long a terminal item is kept.
    pub retention: Span,
    /// Leases of one actor in this queue; 0: unlimited.
    pub max_leases: u32,
    pub at_max_leases: AtMaxLeases,
    pub require_lease: RequireLease,
    pub disclosure: Disclosure,
    pub on_dependency_failed: OnDependencyFailed,
    /// Leases in this queue at a time; 0: unlimited.
    pub concurrency: u32,
    pub reservation_max: Span,
    /// Empty: any phase.
    pub phases: Vec<Phase>,
    /// Which transitions of an item move its target, and to which phase.
    pub mirrors: Vec<(Transition, Phase)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    pub first: Span,
    /// In percent: 200 doubles the wait at each attempt.
    pub factor_percent: u32,
    pub max: Span,
}

impl Backoff {
    /// The wait before the attempt after `attempts` failed ones.
    #[must_use]
    pub fn after(&self, attempts: u32) -> Span {
        let mut wait = self.first.0;
        for _ in 1..attempts.min(64) {
            if wait >= self.max.0 {
                break;
            }
            wait = wait.saturating_mul(u64::from(self.factor_percent)) / 100;
        }
        Span(wait.min(self.max.0))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AtMaxLeases {
    Reject,
    /// The oldest lease of the same session in this queue is released once the new one is certain.
    ReleaseOldest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequireLease {
    /// An item that nobody holds may be updated with `read_at`.
    IfHeld,
    Always,
}

/// Who may see the holders of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Disclosure {
    Open,
    Fleet,
    CrossOrg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDependencyFailed {
    Block,
    Ignore,
}

impl Default for Policy {
    fn default() -> Self {
        let phase = |name: &str| Phase::new(name).expect("a constant name");
        Self {
            lease_for: Span::secs(900),
            lease_max: Span::secs(24 * 3600),
            lease_min: Span::secs(1),
            pickup: Span::secs(10),
            lock_delay: Span(0),
            line_max: 1_000,
            attempts_max: 5,
            backoff: Backoff { first: Span::secs(1), factor_percent: 200, max: Span::secs(3600) },
            retention: Span::secs(7 * 24 * 3600),
            max_leases: bounds::MAX_LEASES_DEFAULT,
            at_max_leases: AtMaxLeases::Reject,
            require_lease: RequireLease::IfHeld,
            disclosure: Disclosure::Fleet,
            on_dependency_failed: OnDependencyFailed::Block,
            concurrency: 0,
            reservation_max: Span::secs(2 * 24 * 3600),
            phases: Vec::new(),
            mirrors: vec![
                (Transition::Claimed, phase("in_progress")),
                (Transition::Completed, phase("review")),
                (Transition::AwaitingInput, phase("blocked")),
                (Transition::AttemptsExhausted, phase("blocked")),
            ],
        }
    }
}

/// One setting's new value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Setting {
    LeaseFor(Span),
    LeaseMax(Span),
    LeaseMin(Span),
    Pickup(Span),
    LockDelay(Span),
    LineMax(u32),
    AttemptsMax(u32),
    Backoff(Backoff),
    Retention(Span),
    MaxLeases(u32),
    AtMaxLeases(AtMaxLeases),
    RequireLease(RequireLease),
    Disclosure(Disclosure),
    OnDependencyFailed(OnDependencyFailed),
    Concurrency(u32),
    ReservationMax(Span),
    Phases(Vec<Phase>),
    Mirrors(Vec<(Transition, Phase)>),
}

impl Policy {
    /// This policy with the settings changed, or the reason why the result is invalid.
    pub(crate) fn with(&self, settings: &[Setting]) -> Result<Self, Refusal> {
        let mut policy = self.clone();
        for setting in settings {
            match setting {
                Setting::LeaseFor(span) => policy.lease_for = *span,
                Setting::LeaseMax(span) => policy.lease_max = *span,
                Setting::LeaseMin(span) => policy.lease_min = *span,
                Setting::Pickup(span) => policy.pickup = *span,
                Setting::LockDelay(span) => policy.lock_delay = *span,
                Setting::LineMax(max) => policy.line_max = *max,
                Setting::AttemptsMax(max) => policy.attempts_max = *max,
                Setting::Backoff(backoff) => policy.backoff = *backoff,
                Setting::Retention(span) => policy.retention = *span,
                Setting::MaxLeases(max) => policy.max_leases = *max,
                Setting::AtMaxLeases(what) => policy.at_max_leases = *what,
                Setting::RequireLease(when) => policy.require_lease = *when,
                Setting::Disclosure(disclosure) => policy.disclosure = *disclosure,
                Setting::OnDependencyFailed(what) => policy.on_dependency_failed = *what,
                Setting::Concurrency(max) => policy.concurrency = *max,
                Setting::ReservationMax(span) => policy.reservation_max = *span,
                Setting::Phases(phases) => policy.phases.clone_from(phases),
                Setting::Mirrors(mirrors) => policy.mirrors.clone_from(mirrors),
            }
        }
        policy.check().map(|()| policy)
    }

    /// Whether the settings fit one another.
    fn check(&self) -> Result<(), Refusal> {
        let sane = |ok: bool, field: &'static str, why: &'static str| {
            if ok { Ok(()) } else { Err(Refusal::invalid(field, why)) }
        };
        sane(self.lease_min <= self.lease_for, "lease_min", "must not exceed lease_for")?;
        sane(self.lease_for <= self.lease_max, "lease_for", "must not exceed lease_max")?;
        sane(self.pickup <= self.lease_max, "pickup", "must not exceed lease_max")?;
        sane(self.line_max <= bounds::LINE_MAX, "line_max", "must not exceed 10000")?;
        sane(self.backoff.factor_percent >= 100, "backoff.factor", "must not shrink the wait (100 percent or more)")?;
        sane(self.backoff.first <= self.backoff.max, "backoff.first", "must not exceed backoff.max")?;
        sane(self.phases.len() <= bounds::PHASES, "phases", "must have at most 32 entries")?;
        let mut phases = self.phases.clone();
        phases.sort();
        phases.dedup();
        sane(phases.len() == self.phases.len(), "phases", "has a duplicate phase")?;
        let mut transitions: Vec<_> = self.mirrors.iter().map(|(transition, _)| transition).collect();
        transitions.sort();
        transitions.dedup();
        sane(transitions.len() == self.mirrors.len(), "mirrors", "has a duplicate transition")
    }

    /// The lease length within the limits of the policy, for the requested length or the default, and whether it was
    /// cut.
    #[must_use]
    pub fn lease_length(&self, asked: Option<Span>) -> (Span, bool) {
        let asked = asked.unwrap_or(self.lease_for);
        (asked.max(self.lease_min).min(self.lease_max), asked > self.lease_max)
    }

    #[must_use]
    pub fn mirror_of(&self, transition: Transition) -> Option<&Phase> {
        self.mirrors.iter().find(|(of, _)| *of == transition).map(|(_, phase)| phase)
    }

    #[must_use]
    pub fn has_phase(&self, phase: &Phase) -> bool {
        self.phases.is_empty() || self.phases.contains(phase)
    }
}

/// The policy of a whole space, set by an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpacePolicy {
    /// Live items at a time; 0: unlimited. The last quarter is kept for actors that have few of them.
    pub items_max: u64,
    /// Bytes of bodies of live items; 0: unlimited. The last quarter is kept for actors that have few of them.
    pub body_bytes_max: u64,
    /// Which callers' commands are accepted.
    pub identity: IdentityPolicy,
}

impl Default for SpacePolicy {
    fn default() -> Self {
        Self {
            items_max: bounds::ITEMS_DEFAULT,
            body_bytes_max: bounds::BODY_BYTES_DEFAULT,
            identity: IdentityPolicy::AcceptSelfReported,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdentityPolicy {
    AcceptSelfReported,
    /// Only callers checked just now, or with cached keys.
    AcceptCached,
    /// Only callers checked just now.
    RequireChecked,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_by_its_factor_up_to_its_maximum() {
        let backoff = Backoff { first: Span(1_000), factor_percent: 200, max: Span(5_000) };
        assert_eq!([1, 2, 3, 4, 5, 1_000_000].map(|n| backoff.after(n).0), [1_000, 2_000, 4_000, 5_000, 5_000, 5_000]);
        let slow = Backoff { first: Span(1_000), factor_percent: 150, max: Span(10_000) };
        assert_eq!([1, 2, 3].map(|n| slow.after(n).0), [1_000, 1_500, 2_250]);
        let flat = Backoff { first: Span(700), factor_percent: 100, max: Span(10_000) };
        assert_eq!([0, 1, 90].map(|n| flat.after(n).0), [700, 700, 700]);
        let none = Backoff { first: Span(0), factor_percent: 200, max: Span(10_000) };
        assert_eq!(none.after(9), Span(0));
    }

    #[test]
    fn lease_length_is_the_requested_one_within_the_policy() {
        let policy = Policy::default();
        assert_eq!(policy.lease_length(None), (Span::secs(900), false));
        assert_eq!(policy.lease_length(Some(Span(1))), (Span::secs(1), false), "raised to the minimum");
        assert_eq!(policy.lease_length(Some(Span::secs(86_400))), (Span::secs(86_400), false));
        assert_eq!(policy.lease_length(Some(Span::secs(86_401))), (Span::secs(86_400), true), "cut to the ceiling");
    }

    #[test]
    fn conflicting_settings_are_refused_with_the_field_name() {
        let refused = |settings: &[Setting]| match Policy::default().with(settings) {
            Err(Refusal::Invalid { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        let phase = |name: &str| Phase::new(name).unwrap();
        assert_eq!(refused(&[Setting::LeaseFor(Span::secs(86_401))]), "lease_for");
        assert_eq!(refused(&[Setting::LeaseMin(Span::secs(901))]), "lease_min");
        assert_eq!(refused(&[Setting::Pickup(Span::secs(86_401))]), "pickup");
        assert_eq!(refused(&[Setting::LineMax(10_001)]), "line_max");
        let backoff = |first, factor_percent, max| {
            Setting::Backoff(Backoff { first: Span(first), factor_percent, max: Span(max) })
        };
        assert_eq!(refused(&[backoff(1, 99, 2)]), "backoff.factor");
        assert_eq!(refused(&[backoff(3, 100, 2)]), "backoff.first");
        assert_eq!(refused(&[Setting::Phases(vec![phase("a"), phase("b"), phase("a")])]), "phases");
        assert_eq!(refused(&[Setting::Phases((0..33).map(|n| phase(&n.to_string())).collect())]), "phases");
        let twice = vec![(Transition::Claimed, phase("a")), (Transition::Claimed, phase("b"))];
        assert_eq!(refused(&[Setting::Mirrors(twice)]), "mirrors");
        let at_the_bounds = [
            Setting::LeaseMax(Span::secs(900)),
            Setting::LeaseMin(Span::secs(900)),
            Setting::Pickup(Span::secs(900)),
            Setting::LineMax(10_000),
            backoff(2, 100, 2),
            Setting::Phases((0..32).map(|n| phase(&n.to_string())).collect()),
        ];
        assert!(Policy::default().with(&at_the_bounds).is_ok());
    }
}
