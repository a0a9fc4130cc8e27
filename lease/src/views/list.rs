//! The live items of a space, in the order of creation.

use super::ItemView;
use super::item::{seen_assignee, seen_lease};
use crate::archive::Archive;
use crate::bounds::EXAMINED_PER_NEXT;
use crate::caller::{Caller, Holder};
use crate::item::Content;
use crate::names::{ActorId, ItemId, Label, QueueName, SessionId, SpaceName};
use crate::numbers::{ItemNo, QueueNo, SpaceNo};
use crate::standing::StateKind;
use crate::state::State;
use crate::state::item_key::ItemKey;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Bound;

/// The items to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub queue: Option<QueueName>,
    pub state: Option<StateKind>,
    pub labels: Vec<Label>,
    pub parent: Option<ItemId>,
    pub claim: Option<ClaimStatus>,
    /// The actor that the item is assigned to, as far as the viewer may see it.
    pub assignee: Option<ActorId>,
    /// The actor that holds the item, as far as the viewer may see it.
    pub holder: Option<ActorId>,
    /// The session that holds the item, as far as the viewer may see it.
    pub session: Option<SessionId>,
    /// A part of the id or of the title, ignoring ASCII case.
    pub text: Option<String>,
    /// Only items after this one, in the order of creation.
    pub after: Option<ItemNo>,
    pub limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimStatus {
    Claimed,
    Unclaimed,
    /// Its lease expired and nobody has claimed it since.
    Expired,
}

/// A page of a list. `next` is where the next page starts. It stays valid whatever changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<ItemNo>,
    /// The cost: how many items, their links and queues were examined.
    pub steps: usize,
}

/// The most items that one call examines.
const EXAMINED: usize = EXAMINED_PER_NEXT as usize;

impl State {
    /// Live items in the order of creation. One call examines a bounded number of items, so a page may have fewer items
    /// than requested and still have a `next`. Terminal items are in the store's archive.
    #[must_use]
    pub fn list(&self, archive: &dyn Archive, viewer: &Caller, space: &SpaceName, query: &Query) -> Page<ItemView> {
        let mut page = Page { items: Vec::new(), next: None, steps: 0 };
        let Some(space) = self.space_numbers.get(space).copied() else { return page };
        // A viewer that may not see an item must not learn that the item has children.
        if query.parent.as_ref().is_some_and(|parent| !self.may_name(archive, viewer, space, parent)) {
            return page;
        }
        let behind = Bound::Excluded(query.after.map_or(ItemKey::FIRST, ItemKey::position));
        let runs = self.queues_listed(viewer, space, query);
        let mut runs: Vec<_> = runs.map(|no| self.queue(no).items.range(behind, Bound::Unbounded)).collect();
        page.steps = runs.len();
        // The next item of each queue, oldest first.
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
            if self.is_shown(viewer, key) && query.matches_item(self, viewer, key) {
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

    /// The queues in a list.
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
    /// Whether the list may skip items, so that the first match may be far from its start.
    #[must_use]
    pub fn is_selective(&self) -> bool {
        let Self { queue: _, state, labels, parent, claim, assignee, holder, session, text, after: _, limit: _ } = self;
        let is_of_someone = assignee.is_some() || holder.is_some() || session.is_some();
        state.is_some() || !labels.is_empty() || parent.is_some() || claim.is_some() || is_of_someone || text.is_some()
    }

    /// Like [`Query::matches`], but before a view is built.
    fn matches_item(&self, state: &State, viewer: &Caller, key: ItemKey) -> bool {
        let item = state.item(key);
        let standing = &item.standing;
        let queue = &state.queue(item.queue).queue;
        self.is_met_by(&Examined {
            id: &item.id,
            state: standing.state.kind(),
            is_claimed: standing.lease.is_some(),
            holder: seen_lease(viewer, queue, standing).map(|lease| &lease.holder),
            assignee: seen_assignee(viewer, queue, standing),
            content: &item.content,
        })
    }

    /// Whether a view belongs in the list. The store also uses it for archived items.
    #[must_use]
    pub fn matches(&self, view: &ItemView) -> bool {
        let is_of_queue = self.queue.as_ref().is_none_or(|queue| *queue == view.queue);
        let named = view.holder.as_ref().and_then(|holder| holder.named.as_ref());
        let examined = Examined {
            id: &view.id,
            state: view.state,
            is_claimed: view.claimed,
            holder: named.map(|named| &named.holder),
            assignee: view.assignee.as_ref(),
            content: &view.content,
        };
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
            && (self.assignee.is_none() || self.assignee.as_ref() == item.assignee)
            && (self.holder.is_none() || self.holder.as_ref() == item.holder.map(|holder| &holder.actor))
            && (self.session.is_none() || self.session.as_ref() == item.holder.and_then(|of| of.session.as_ref()))
            && self
                .text
                .as_ref()
                .is_none_or(|text| contains(item.id.as_str(), text) || contains(&item.content.title, text))
    }
}

/// The facts that decide whether an item belongs in a list.
struct Examined<'a> {
    id: &'a ItemId,
    state: StateKind,
    is_claimed: bool,
    /// Holder and assignee, as far as the viewer may see them.
    holder: Option<&'a Holder>,
    assignee: Option<&'a ActorId>,
    content: &'a Content,
}

/// Whether `text` contains `part`, ignoring ASCII case.
fn contains(text: &str, part: &str) -> bool {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    part.is_empty() || text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}
