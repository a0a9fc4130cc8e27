//! What one actor has in one space: leases, assignments, and the ready items that are its own first.

use crate::names::SessionId;
use crate::numbers::{QueueNo, Token};
use crate::state::items::ItemKey;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
pub(crate) struct Holdings {
    /// By session, then in the order of granting.
    pub(crate) leases: BTreeMap<(Option<SessionId>, Token), (ItemKey, QueueNo)>,
    pub(crate) leases_per_queue: BTreeMap<QueueNo, u32>,
    pub(crate) assigned: BTreeSet<ItemKey>,
    /// Reserved for it, or assigned to it and free: offered to it before all others.
    pub(crate) own: BTreeSet<(QueueNo, Reverse<u8>, ItemKey)>,
}

impl Holdings {
    pub(crate) fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.assigned.is_empty() && self.own.is_empty()
    }

    pub(crate) fn leases_in(&self, queue: QueueNo) -> u32 {
        self.leases_per_queue.get(&queue).copied().unwrap_or(0)
    }

    /// The leases of one session, in the order of granting.
    pub(crate) fn of_session(&self, session: &Option<SessionId>) -> impl Iterator<Item = (Token, ItemKey, QueueNo)> {
        self.leases
            .range((session.clone(), Token(0))..=(session.clone(), Token(u64::MAX)))
            .map(|((_, token), (key, queue))| (*token, *key, *queue))
    }

    /// The oldest lease of a session in a queue that the test lets through.
    pub(crate) fn oldest_of(
        &self,
        session: &Option<SessionId>,
        queue: QueueNo,
        is_wanted: impl Fn(&ItemKey) -> bool,
    ) -> Option<ItemKey> {
        self.of_session(session).find(|(_, key, of)| *of == queue && is_wanted(key)).map(|(_, key, _)| key)
    }
}
