//! The claims on an item and its descendants.

use super::ClaimSummary;
use crate::bounds::{ANCESTORS, EXAMINED_PER_NEXT};
use crate::caller::Caller;
use crate::names::{ItemId, SpaceName};
use crate::numbers::SpaceNo;
use crate::refusal::Refusal;
use crate::standing::ItemState;
use crate::state::State;
use crate::state::item_key::ItemKey;
use std::ops::Bound;

/// A walk through a live item and its live descendants. The walk is made in parts, between which items may change: each
/// item is counted as it is when the walk reaches it.
#[derive(Debug)]
pub struct ClaimWalk {
    space: SpaceNo,
    /// The path from the root: each item whose children are being counted, and the last child counted.
    path: Vec<(ItemId, ItemKey)>,
    summary: ClaimSummary,
}

impl State {
    /// # Errors
    /// `not_found`.
    pub fn begin_claim_walk(&self, viewer: &Caller, space: &SpaceName, root: &ItemId) -> Result<ClaimWalk, Refusal> {
        let space = self.space_numbers.get(space).copied().ok_or(Refusal::NotFound)?;
        let key = self.items.find(space, root).filter(|key| self.is_shown(viewer, *key)).ok_or(Refusal::NotFound)?;
        let path = vec![(root.clone(), ItemKey::FIRST)];
        let mut walk = ClaimWalk { space, path, summary: ClaimSummary::default() };
        self.count_claim(key, &mut walk.summary);
        Ok(walk)
    }

    /// Does one part of a walk. The last part returns the claims that the viewer may see.
    pub fn walk_claims(&self, viewer: &Caller, walk: &mut ClaimWalk) -> Option<ClaimSummary> {
        for _ in 0..EXAMINED_PER_NEXT {
            let Some((of, after)) = walk.path.last_mut() else { return Some(walk.summary) };
            let family = (walk.space, of.clone());
            let children = self.children.get(&family);
            let Some(key) = children
                .and_then(|children| children.range((Bound::Excluded(*after), Bound::Unbounded)).next().copied())
            else {
                walk.path.pop();
                continue;
            };
            *after = key;
            if self.is_shown(viewer, key) {
                self.count_claim(key, &mut walk.summary);
            }
            if walk.path.len() < ANCESTORS {
                walk.path.push((self.item(key).id.clone(), ItemKey::FIRST));
            }
        }
        None
    }

    /// The claims on an item and its descendants, counted in one part.
    ///
    /// # Errors
    /// `not_found`.
    pub fn claims_under(&self, viewer: &Caller, space: &SpaceName, root: &ItemId) -> Result<ClaimSummary, Refusal> {
        let mut walk = self.begin_claim_walk(viewer, space, root)?;
        loop {
            if let Some(summary) = self.walk_claims(viewer, &mut walk) {
                return Ok(summary);
            }
        }
    }

    fn count_claim(&self, key: ItemKey, summary: &mut ClaimSummary) {
        let standing = &self.item(key).standing;
        match standing.state {
            _ if standing.lease.is_some() => summary.active += 1,
            ItemState::Stale => summary.expired += 1,
            _ => summary.unclaimed += 1,
        }
    }
}
