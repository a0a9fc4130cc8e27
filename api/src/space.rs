//! Spaces: policy and counts.

use crate::answer::answer;
use crate::names;
use crate::words::IdentityPolicy;
use lease::Command;
use lease::names::SpaceName;
use lease::outcome::Outcome;
use lease::policy::SpacePolicy as CoreSpacePolicy;
use lease::views::SpaceStats;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The policy of a space. An operator always sets all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SpacePolicy {
    /// Live items at a time; 0: unlimited. Default: 1,000,000. The last quarter is kept for actors that created few of
    /// them: less than a sixty-fourth of `items_max`, or 100.
    pub items_max: u64,
    /// Bytes of bodies of live items; 0: unlimited. Default: 8 GiB. The last quarter is kept for actors that created
    /// few of them: less than a sixty-fourth of `body_bytes_max`, or 1 MiB.
    pub body_bytes_max: u64,
    pub identity: IdentityPolicy,
}

impl SpacePolicy {
    #[must_use]
    pub fn into_command(self) -> Command {
        Command::SetSpacePolicy(CoreSpacePolicy {
            items_max: self.items_max,
            body_bytes_max: self.body_bytes_max,
            identity: self.identity.into(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpacePolicySet {
    pub version: u64,
}

answer! { SpacePolicySet: Outcome::SpacePolicySet { version } => Self { version } }

/// The counts of a space. Always `created = live + terminal + purged`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Space {
    #[schema(value_type = names::SpaceName)]
    pub space: SpaceName,
    pub version: u64,
    pub policy: SpacePolicy,
    pub created: u64,
    pub live: u64,
    pub terminal: u64,
    pub purged: u64,
    pub body_bytes: u64,
    pub queues: u64,
    pub workers: u64,
}

impl From<SpaceStats> for Space {
    fn from(stats: SpaceStats) -> Self {
        Self {
            space: stats.space,
            version: stats.version,
            policy: SpacePolicy {
                items_max: stats.policy.items_max,
                body_bytes_max: stats.policy.body_bytes_max,
                identity: stats.policy.identity.into(),
            },
            created: stats.counts.created,
            live: stats.counts.live,
            terminal: stats.counts.terminal,
            purged: stats.counts.purged,
            body_bytes: stats.counts.body_bytes,
            queues: stats.counts.queues,
            workers: stats.counts.workers,
        }
    }
}

impl Space {
    /// A space in which nothing has happened yet.
    #[must_use]
    pub fn untouched(space: SpaceName) -> Self {
        Self::from(SpaceStats {
            space,
            counts: lease::space::SpaceCounts::default(),
            policy: CoreSpacePolicy::default(),
            version: 0,
        })
    }
}
