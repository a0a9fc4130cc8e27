//! Cancelling: at once if nobody holds the item, else as soon as its holder has stopped its work.

use super::{Sender, Step};
use crate::command::Cancel;
use crate::event::What;
use crate::outcome::Outcome;
use crate::refusal::Refusal;
use crate::standing::{self, ItemState, StateKind};
use crate::state::item_key::ItemKey;

impl Step<'_> {
    pub(super) fn cancel(&mut self, sender: Sender<'_>, cancel: &Cancel) -> Result<Outcome, Refusal> {
        let key = self.find_live(sender, &cancel.item)?;
        let is_held = self.item(key).standing.lease.is_some();
        if !is_held || cancel.force {
            self.cancel_now(key, cancel.reason.clone());
            return Ok(Outcome::Cancelled { item: cancel.item.clone(), state: StateKind::Cancelled, ends_by: None });
        }
        if self.item(key).standing.cancel.is_none() {
            let asked = standing::Cancel { reason: cancel.reason.as_str().into(), shown_at: None };
            self.change(key, |item| item.standing.cancel = Some(Box::new(asked)));
            self.emit_of(key, What::CancelRequested { reason: cancel.reason.clone() });
        }
        let item = self.item(key);
        Ok(Outcome::Cancelled {
            item: cancel.item.clone(),
            state: item.standing.state.kind(),
            ends_by: Some(item.standing.due_at()),
        })
    }

    /// Ends the item and the lease on it.
    pub(super) fn cancel_now(&mut self, key: ItemKey, reason: String) {
        let is_held = self.item(key).standing.lease.is_some();
        let lease = is_held.then(|| self.end_lease(key));
        let (holder, token) = lease.map(|lease| (lease.holder, lease.token)).unzip();
        self.emit_of(key, What::Cancelled { reason, holder, token });
        self.end_item(key, ItemState::Cancelled);
    }
}
