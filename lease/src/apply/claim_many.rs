//! Several claims and releases in one step, each with its own outcome.

use super::claim::{Decision, Plan};
use super::{Sender, Step};
use crate::command::{ClaimMany, OnConflict, Release};
use crate::outcome::Outcome;
use crate::refusal::Refusal;
use crate::rights::Need;
use crate::state::item_key::ItemKey;
use crate::state::items::Item;

impl Decision {
    pub(super) fn key(self) -> ItemKey {
        match self {
            Self::Renew { key, .. } | Self::Join(key) | Self::Grant { key, .. } | Self::TakeOver { key, .. } => key,
        }
    }
}

impl Plan {
    /// Notes the decision for an entry, for the entries after it. `is_ahead`: the entry has not been executed yet.
    fn note(&mut self, item: &Item, decision: Decision, is_ahead: bool) {
        let (key, price) = match decision {
            Decision::Join(_) => return,
            Decision::Renew { key, price } | Decision::TakeOver { key, price } => (key, price),
            Decision::Grant { key, evict } => (key, evict),
        };
        let is_new = self.kept.insert(key);
        self.evicted.extend(price);
        if !is_ahead {
            return;
        }
        if let Decision::TakeOver { .. } = decision {
            self.granted.insert(key);
        }
        if let Decision::Grant { .. } = decision {
            self.granted.insert(key);
            *self.taken.entry(item.queue).or_default() += u32::from(price.is_none());
        } else if is_new && item.is_offered() {
            *self.taken_up.entry(item.queue).or_default() += u32::from(price.is_none());
        }
    }
}

impl Step<'_> {
    /// The claims run first and may use the capacity that the releases free. So the caller loses no lease before it is
    /// certain what it gets for it.
    pub(super) fn claim_many(&mut self, sender: Sender<'_>, many: &ClaimMany) -> Result<Outcome, Refusal> {
        // Several claims cannot share the remembered waiting state of one request, so each is polled by a separate
        // claim.
        let sender = Sender { request: None, ..sender };
        if many.all_or_none {
            return Ok(self.claim_all_or_none(sender, many));
        }
        let mut plan = self.plan_of_releases(sender, &many.releases);
        let mut claims = Vec::with_capacity(many.claims.len());
        for claim in &many.claims {
            let decided =
                self.check_right(sender, Need::of_claim(claim)).and_then(|()| self.decide_claim(sender, claim, &plan));
            let outcome = decided.and_then(|decision| {
                plan.note(self.item(decision.key()), decision, false);
                self.carry_out_claim(sender, claim, decision)
            });
            claims.push(outcome.into());
        }
        Ok(Outcome::ClaimedMany { claims, releases: self.release_many(sender, &many.releases) })
    }

    fn claim_all_or_none(&mut self, sender: Sender<'_>, many: &ClaimMany) -> Outcome {
        let mut plan = self.plan_of_releases(sender, &many.releases);
        let mut decisions = Vec::with_capacity(many.claims.len());
        for claim in &many.claims {
            debug_assert_eq!(claim.on_conflict, OnConflict::Fail, "validated");
            let right = self.check_right(sender, Need::of_claim(claim));
            let mut decision = right.and_then(|()| self.decide_claim(sender, claim, &plan));
            if let Ok(decided) = decision {
                let key = decided.key();
                if plan.evicted.contains(&key) {
                    // This batch claims the item, but an earlier entry gave up its lease.
                    decision = Err(Refusal::TooManyLeases { max: self.policy(key).max_leases });
                } else {
                    plan.note(self.item(key), decided, true);
                }
            }
            decisions.push(decision);
        }
        if decisions.iter().any(Result::is_err) {
            let refused = |decision: Result<_, Refusal>| Outcome::Refused(decision.err().unwrap_or(Refusal::AllOrNone));
            let none = || Outcome::Refused(Refusal::AllOrNone);
            return Outcome::ClaimedMany {
                claims: decisions.into_iter().map(refused).collect(),
                releases: many.releases.iter().map(|_| none()).collect(),
            };
        }
        let claims = many.claims.iter().zip(decisions).map(|(claim, decision)| {
            decision.and_then(|decision| self.carry_out_claim(sender, claim, decision)).into()
        });
        let claims = claims.collect();
        Outcome::ClaimedMany { claims, releases: self.release_many(sender, &many.releases) }
    }

    fn release_many(&mut self, sender: Sender<'_>, releases: &[Release]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(releases.len());
        for release in releases {
            let right = self.check_right(sender, Need::of_release(release));
            outcomes.push(right.and_then(|()| self.release(sender, release)).into());
        }
        outcomes
    }

    /// Only leases that the caller really holds free capacity, and each only once.
    fn plan_of_releases(&self, sender: Sender<'_>, releases: &[Release]) -> Plan {
        let mut plan = Plan::default();
        for release in releases {
            if let Some(key) = self.held_for_release(sender, release)
                && plan.kept.insert(key)
            {
                *plan.given_back.entry(self.item(key).queue).or_default() += 1;
            }
        }
        plan
    }

    fn held_for_release(&self, sender: Sender<'_>, release: &Release) -> Option<ItemKey> {
        self.check_right(sender, Need::of_release(release)).ok()?;
        let key = self.find_live(sender, &release.item).ok()?;
        let lease = self.item(key).standing.lease.as_ref()?;
        let names_it = release.token.is_none_or(|token| token == lease.token);
        (lease.holder.is(sender.caller) && names_it).then_some(key)
    }
}
