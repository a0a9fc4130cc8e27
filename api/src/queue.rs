//! Queues: policy, flow and statistics.

use crate::answer::answer;
use crate::dates::{Calendar, Date};
use crate::item::ClaimSummary;
use crate::names;
use crate::words::{AtMaxLeases, Disclosure, Flow, OnDependencyFailed, RequireLease, Transition};
use lease::Command;
use lease::command::SetPolicy;
use lease::names::{Phase, QueueName};
use lease::numbers::Span;
use lease::outcome::Outcome;
use lease::policy::{Backoff as CoreBackoff, Policy as CorePolicy, Setting};
use lease::views::QueueStats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    pub first_ms: u64,
    /// 200 doubles the wait at each attempt.
    #[schema(minimum = 100)]
    pub factor_percent: u32,
    pub max_ms: u64,
}

/// The phase to which a transition of an item moves its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Mirror {
    pub transition: Transition,
    #[schema(value_type = names::Phase)]
    pub phase: Phase,
}

/// The policy of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    pub lease_for_ms: u64,
    pub lease_max_ms: u64,
    pub lease_min_ms: u64,
    pub pickup_ms: u64,
    pub lock_delay_ms: u64,
    /// Places in the wait line of an item. The last quarter is kept for actors that have few places in the line: less
    /// than a sixty-fourth of `line_max`, or 8.
    pub line_max: u32,
    /// 0: unlimited.
    pub attempts_max: u32,
    pub backoff: Backoff,
    pub retention_ms: u64,
    /// Leases of one actor in this queue; 0: unlimited. Default: 10,000.
    pub max_leases: u32,
    pub at_max_leases: AtMaxLeases,
    pub require_lease: RequireLease,
    pub disclosure: Disclosure,
    pub on_dependency_failed: OnDependencyFailed,
    /// Leases in this queue at a time; 0: unlimited.
    pub concurrency: u32,
    pub reservation_max_ms: u64,
    /// Empty: any phase.
    #[schema(value_type = Vec<names::Phase>)]
    pub phases: Vec<Phase>,
    pub mirrors: Vec<Mirror>,
}

impl From<CorePolicy> for Policy {
    fn from(policy: CorePolicy) -> Self {
        Self {
            lease_for_ms: policy.lease_for.0,
            lease_max_ms: policy.lease_max.0,
            lease_min_ms: policy.lease_min.0,
            pickup_ms: policy.pickup.0,
            lock_delay_ms: policy.lock_delay.0,
            line_max: policy.line_max,
            attempts_max: policy.attempts_max,
            backoff: Backoff {
                first_ms: policy.backoff.first.0,
                factor_percent: policy.backoff.factor_percent,
                max_ms: policy.backoff.max.0,
            },
            retention_ms: policy.retention.0,
            max_leases: policy.max_leases,
            at_max_leases: policy.at_max_leases.into(),
            require_lease: policy.require_lease.into(),
            disclosure: policy.disclosure.into(),
            on_dependency_failed: policy.on_dependency_failed.into(),
            concurrency: policy.concurrency,
            reservation_max_ms: policy.reservation_max.0,
            phases: policy.phases,
            mirrors: policy
                .mirrors
                .into_iter()
                .map(|(transition, phase)| Mirror { transition: transition.into(), phase })
                .collect(),
        }
    }
}

/// Changes to a queue's policy. Settings that are not named keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyChange {
    /// The version of the policy that the operator has read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Millis>)]
    pub lease_for_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Millis>)]
    pub lease_max_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Millis>)]
    pub lease_min_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Millis>)]
    pub pickup_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_delay_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10000)]
    pub line_max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Millis>)]
    pub retention_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_leases: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_max_leases: Option<AtMaxLeases>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_lease: Option<RequireLease>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disclosure: Option<Disclosure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_dependency_failed: Option<OnDependencyFailed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Millis>)]
    pub reservation_max_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<names::Phase>>, max_items = 32)]
    pub phases: Option<Vec<Phase>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 4)]
    pub mirrors: Option<Vec<Mirror>>,
}

impl PolicyChange {
    #[must_use]
    pub fn into_command(self, queue: QueueName) -> Command {
        let mut settings = Vec::new();
        let span = |ms: Option<u64>| ms.map(Span);
        settings.extend(span(self.lease_for_ms).map(Setting::LeaseFor));
        settings.extend(span(self.lease_max_ms).map(Setting::LeaseMax));
        settings.extend(span(self.lease_min_ms).map(Setting::LeaseMin));
        settings.extend(span(self.pickup_ms).map(Setting::Pickup));
        settings.extend(span(self.lock_delay_ms).map(Setting::LockDelay));
        settings.extend(self.line_max.map(Setting::LineMax));
        settings.extend(self.attempts_max.map(Setting::AttemptsMax));
        settings.extend(self.backoff.map(|backoff| {
            Setting::Backoff(CoreBackoff {
                first: Span(backoff.first_ms),
                factor_percent: backoff.factor_percent,
                max: Span(backoff.max_ms),
            })
        }));
        settings.extend(span(self.retention_ms).map(Setting::Retention));
        settings.extend(self.max_leases.map(Setting::MaxLeases));
        settings.extend(self.at_max_leases.map(|what| Setting::AtMaxLeases(what.into())));
        settings.extend(self.require_lease.map(|when| Setting::RequireLease(when.into())));
        settings.extend(self.disclosure.map(|disclosure| Setting::Disclosure(disclosure.into())));
        settings.extend(self.on_dependency_failed.map(|what| Setting::OnDependencyFailed(what.into())));
        settings.extend(self.concurrency.map(Setting::Concurrency));
        settings.extend(span(self.reservation_max_ms).map(Setting::ReservationMax));
        settings.extend(self.phases.map(Setting::Phases));
        settings.extend(self.mirrors.map(|mirrors| {
            Setting::Mirrors(mirrors.into_iter().map(|mirror| (mirror.transition.into(), mirror.phase)).collect())
        }));
        Command::SetPolicy(SetPolicy { queue, settings, version: self.version })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicySet {
    #[schema(value_type = names::QueueName)]
    pub queue: QueueName,
    pub version: u64,
}

answer! { PolicySet: Outcome::PolicySet { queue, version } => Self { queue, version } }

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowSet {
    #[schema(value_type = names::QueueName)]
    pub queue: QueueName,
    pub flow: Flow,
}

answer! { FlowSet: Outcome::FlowSet { queue, flow } => Self { queue, flow: flow.into() } }

/// A queue, its policy and its statistics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    #[schema(value_type = names::QueueName)]
    pub queue: QueueName,
    pub flow: Flow,
    /// The version of the policy.
    pub version: u64,
    pub policy: Policy,
    /// Live items by state.
    pub by_state: BTreeMap<String, u64>,
    pub leases: u32,
    /// Items that `next` could grant.
    pub ready: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ready_since_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ready_since: Option<Date>,
    pub items_with_line: u64,
    /// Free items whose line waits until the queue may grant.
    pub unsettled: u64,
    pub claims: ClaimSummary,
}

impl Queue {
    #[must_use]
    pub fn new(stats: QueueStats, calendar: Calendar) -> Self {
        Self {
            queue: stats.queue,
            flow: stats.flow.into(),
            version: stats.version,
            policy: stats.policy.into(),
            by_state: stats.by_state.into_iter().map(|(state, count)| (state.name().to_owned(), count)).collect(),
            leases: stats.leases,
            ready: stats.ready,
            oldest_ready_since_ms: stats.oldest_ready_since.map(|time| time.0),
            oldest_ready_since: stats.oldest_ready_since.map(|time| calendar.date(time)),
            items_with_line: stats.items_with_line,
            unsettled: stats.unsettled,
            claims: stats.claims.into(),
        }
    }
}

/// Queues in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueuePage {
    pub queues: Vec<Queue>,
    /// Where the next page starts. Omitted on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
