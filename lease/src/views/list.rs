//! The live items of a space, in the order of creation.

use super::ItemView;
use crate::archive::Archive;
use crate::bounds::EXAMINED_PER_NEXT;
use crate::caller::Caller;
use crate::item::Content;
use crate::names::{ItemId, Label, QueueName, SpaceName};
use crate::numbers::{ItemNo, QueueNo, SpaceNo};
use crate::standing::StateKind;
use crate::state::State;
use crate::state::items::ItemKey;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Bound;

/// Which items a list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub queue: Option<QueueName>,
    pub state: Option<StateKind>,
    pub labels: Vec<Label>,
    pub parent: Option<ItemId>,
    pub claim: Option<ClaimStatus>,
    /// Part of the id or of the title, without regard to ASCII case.
    pub text: Option<String>,
    /// Items after this one, in the order of creation.
    pub after: Option<ItemNo>,
    pub limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimStatus {
    Claimed,
    Unclaimed,
    /// Its lease lapsed and nobody has taken it since.
    Expired,
}

/// A part of a list; `next` is where to go on, which stays true whatever changes meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<ItemNo>,
    /// What it took: items, what they refer to, and queues that were examined.
    pub steps: usize,
}

/// Items that one look examines at most.
const EXAMINED: usize = EXAMINED_PER_NEXT as usize;

impl State {
    /// Live items in the order of creation, as far as one look goes: a page may have fewer items than were asked for,
    /// and still say where to go on. Terminal items are in the store's archive.
    #[must_use]
    pub fn list(&self, archive: &dyn Archive, viewer: &Caller, space: &SpaceName, query: &Query) -> Page<ItemView> {
        let mut page = Page { items: Vec::new(), next: None, steps: 0 };
        let Some(space) = self.space_numbers.get(space).copied() else { return page };
        // Of what is below an item that the viewer may not see it must not learn that it is there.
        if query.parent.as_ref().is_some_and(|parent| !self.may_name(archive, viewer, space, parent)) {
            return page;
        }
        let behind = Bound::Excluded(query.after.map_or(ItemKey::FIRST, ItemKey::position));
        let runs = self.queues_listed(viewer, space, query);
        let mut runs: Vec<_> = runs.map(|no| self.queue(no).items.range(behind, Bound::Unbounded)).collect();
        page.steps = runs.len();
        // The next item of each queue, the oldest first.
        let next = runs.iter_mut().enumerate().filter_map(|(at, run)| Some(Reverse((run.next()?, at))));
        let mut next: BinaryHeap<_> = next.collect();
        let mut examined = 0;
        while examined < EXAMINED {
            if page.items.len() >= query.limit.max(1) {
                break;
            }
            let Some(Reverse((key, at))) = next.pop() else { break };
            next.extend(runs[at].next().map(|key| Reverse((key, at))));
            page.next = Some(key.no);
            examined += 1;
            if self.is_shown(viewer, key) && query.matches_item(self, key) {
                page.items.extend(self.show_naming(viewer, key, |id| {
                    examined += 1;
                    self.may_name(archive, viewer, space, id)
                }));
            }
        }
        page.steps += examined;
        if next.is_empty() {
            page.next = None;
        }
        page
    }

    /// The queues that a list goes through.
    fn queues_listed<'a>(
        &'a self,
        viewer: &'a Caller,
        space: SpaceNo,
        query: &'a Query,
    ) -> Box<dyn Iterator<Item = QueueNo> + 'a> {
        if let Some(name) = &query.queue {
            let no = self.queue_numbers.get(&(space, name.clone())).copied();
            return Box::new(no.into_iter().filter(|_| viewer.can_see(name)));
        }
        let all =
            self.queue_numbers.range((space, QueueName::before_all())..).take_while(move |((of, _), _)| *of == space);
        Box::new(all.filter(|((_, name), _)| viewer.can_see(name)).map(|(_, no)| *no))
    }
}

impl Query {
    /// Whether any item may be passed over: what is asked for may be far from where the list begins.
    #[must_use]
    pub fn is_selective(&self) -> bool {
        let Self { queue: _, state, labels, parent, claim, text, after: _, limit: _ } = self;
        state.is_some() || !labels.is_empty() || parent.is_some() || claim.is_some() || text.is_some()
    }

    /// As [`Query::matches`], before a view is made.
    fn matches_item(&self, state: &State, key: ItemKey) -> bool {
        let item = state.item(key);
        let standing = &item.standing;
        self.is_met_by(&Examined {
            id: &item.id,
            state: standing.state.kind(),
            is_claimed: standing.lease.is_some(),
            content: &item.content,
        })
    }

    /// Whether a view belongs in the list; the store uses it for archived items, too.
    #[must_use]
    pub fn matches(&self, view: &ItemView) -> bool {
        let is_of_queue = self.queue.as_ref().is_none_or(|queue| *queue == view.queue);
        let examined = Examined { id: &view.id, state: view.state, is_claimed: view.claimed, content: &view.content };
        is_of_queue && self.is_met_by(&examined)
    }

    fn is_met_by(&self, item: &Examined<'_>) -> bool {
        self.state.is_none_or(|state| state == item.state)
            && self.labels.iter().all(|label| item.content.label_sets.labels.contains(label))
            && (self.parent.is_none() || self.parent.as_ref() == item.content.parent())
            && self.claim.is_none_or(|status| match status {
                ClaimStatus::Claimed => item.is_claimed,
                ClaimStatus::Unclaimed => !item.is_claimed && item.state != StateKind::Stale,
                ClaimStatus::Expired => item.state == StateKind::Stale,
            })
            && self
                .text
                .as_ref()
                .is_none_or(|text| contains(item.id.as_str(), text) || contains(&item.content.title, text))
    }
}

/// What decides whether an item belongs in a list.
struct Examined<'a> {
    id: &'a ItemId,
    state: StateKind,
    is_claimed: bool,
    content: &'a Content,
}

/// Without regard to ASCII case.
fn contains(text: &str, part: &str) -> bool {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    part.is_empty() || text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}
