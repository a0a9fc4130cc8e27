//! Policies of queues and spaces, mostly tight.

use super::{World, small};
use crate::random::Random;
use lease::command::{Command, SetPolicy};
use lease::names::Phase;
use lease::numbers::Span;
use lease::policy::{
    AtMaxLeases, Backoff, Disclosure, IdentityPolicy, OnDependencyFailed, RequireLease, Setting, SpacePolicy,
};

impl World {
    pub(super) fn set_policy(&mut self) -> Command {
        let queue = self.queue();
        let mut settings = Vec::new();
        if self.random.percent(60) {
            let lease_for = self.random.between(2, 20_000);
            settings.push(Setting::LeaseFor(Span(lease_for)));
            settings.push(Setting::LeaseMin(Span(self.random.between(1, lease_for))));
            let lease_max = lease_for + self.random.below(40_000);
            settings.push(Setting::LeaseMax(Span(lease_max)));
            settings.push(Setting::Pickup(Span(self.random.between(1, lease_max.min(6_000)))));
        }
        if self.random.percent(25) {
            settings.push(Setting::MaxLeases(u32::from(small(self.random.between(1, 3)))));
            settings.push(Setting::AtMaxLeases(AtMaxLeases::ReleaseOldest));
        }
        let few = |random: &mut Random, most| u32::try_from(random.below(most)).expect("small");
        for _ in 0..self.random.between(1, 6) {
            let random = &mut self.random;
            settings.push(match random.below(16) {
                0..2 => Setting::LockDelay(Span(*random.pick(&[0, 0, 1_000, 5_000, 15_000]))),
                2 => Setting::LineMax(few(random, 5)),
                3 => Setting::AttemptsMax(few(random, 4)),
                4 => Setting::Backoff(Backoff {
                    first: Span(random.below(3_000)),
                    factor_percent: 100 + few(random, 200),
                    max: Span(3_000 + random.below(10_000)),
                }),
                5..7 => Setting::Retention(Span(random.between(1, 120_000))),
                7..9 => Setting::MaxLeases(few(random, 4)),
                9 => Setting::AtMaxLeases(*random.pick(&[AtMaxLeases::Reject, AtMaxLeases::ReleaseOldest])),
                10 => Setting::RequireLease(*random.pick(&[
                    RequireLease::IfHeld,
                    RequireLease::IfHeld,
                    RequireLease::Always,
                ])),
                11 => {
                    Setting::OnDependencyFailed(*random.pick(&[OnDependencyFailed::Block, OnDependencyFailed::Ignore]))
                }
                12..14 => Setting::Concurrency(few(random, 5)),
                14 => {
                    let names: &[&str] =
                        if random.percent(60) { &[] } else { &["work", "review", "in_progress", "blocked"] };
                    Setting::Phases(names.iter().map(|name| Phase::new(name).expect("a name")).collect())
                }
                _ => match random.below(3) {
                    0 => {
                        Setting::Disclosure(*random.pick(&[Disclosure::Open, Disclosure::Fleet, Disclosure::CrossOrg]))
                    }
                    1 => Setting::ReservationMax(Span(random.between(1_000, 60_000))),
                    _ => Setting::Mirrors(Vec::new()),
                },
            });
        }
        let version = self.random.maybe(10, |random| random.below(5));
        Command::SetPolicy(SetPolicy { queue, settings, version })
    }

    pub(super) fn space_policy(&mut self) -> SpacePolicy {
        let identity = match self.random.below(100) {
            0..70 => IdentityPolicy::AcceptSelfReported,
            70..90 => IdentityPolicy::AcceptCached,
            _ => IdentityPolicy::RequireChecked,
        };
        SpacePolicy {
            items_max: *self.random.pick(&[0, 0, 30, 8]),
            body_bytes_max: *self.random.pick(&[0, 0, 40]),
            identity,
        }
    }
}
