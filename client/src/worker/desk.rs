//! The items that a worker has in hand.

use super::job::Job;
use crate::clock::Moment;
use crate::lease::state::LeaseState;
use crate::lease::{Lease, RenewedBy};
use crate::{Client, Lost};
use api::claim::Grant;
use lease::names::ItemId;
use lease::numbers::Token;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(super) struct Desk {
    pub(super) client: Client,
    progress_within: Option<Duration>,
    /// The leases of running work, by token.
    kept: Mutex<BTreeMap<u64, Kept>>,
    /// Leases that have ended by this machine's clock, but maybe not by the cluster's, which stops without a quorum.
    /// Nobody works under them, but a renewal of the whole session would keep them for ever.
    adrift: Mutex<BTreeMap<u64, ItemId>>,
    /// Notifies when an item was taken, or a lease is adrift.
    pub(super) changed: Notify,
    /// Fires when an operator drains the worker.
    pub(super) drain: CancellationToken,
    /// Fires when work that still runs has to stop.
    pub(super) kill: CancellationToken,
}

#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) lease: Arc<LeaseState>,
    progress: Arc<Mutex<Moment>>,
}

impl Desk {
    pub(super) fn new(client: Client, progress_within: Option<Duration>) -> Self {
        Self {
            client,
            progress_within,
            kept: Mutex::default(),
            adrift: Mutex::default(),
            changed: Notify::new(),
            drain: CancellationToken::new(),
            kill: CancellationToken::new(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<u64, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self, grant: Grant, sent_at: Moment) -> Job {
        let lease = Lease::kept(&self.client, grant, sent_at, RenewedBy::Worker);
        let progress = Arc::new(Mutex::new(self.client.clock().now()));
        let kept = Kept { lease: lease.state().clone(), progress: progress.clone() };
        self.kept().insert(lease.token().0, kept);
        self.changed.notify_one();
        Job::new(lease, progress, self.client.clock().clone())
    }

    pub(super) fn put_away(&self, lease: &Lease) {
        if lease.lost() == Some(Lost::Lapsed) {
            self.lock_adrift().insert(lease.token().0, lease.item().clone());
            self.changed.notify_one();
        }
        self.kept().remove(&lease.token().0);
    }

    fn lock_adrift(&self) -> MutexGuard<'_, BTreeMap<u64, ItemId>> {
        self.adrift.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn adrift(&self) -> Vec<(ItemId, Token)> {
        self.lock_adrift().iter().map(|(token, item)| (item.clone(), Token(*token))).collect()
    }

    /// Removes an adrift lease that has certainly ended.
    pub(super) fn forget(&self, token: Token) {
        self.lock_adrift().remove(&token.0);
    }

    pub(super) fn has(&self, token: Token) -> bool {
        self.kept().contains_key(&token.0)
    }

    /// The leases to renew: those that are neither lost nor without progress.
    pub(super) fn alive(&self) -> Vec<Arc<LeaseState>> {
        let now = self.client.clock().now();
        let is_alive = |kept: &&Kept| !kept.lease.remaining().is_zero() && !self.is_stalled(kept, now);
        self.kept().values().filter(is_alive).map(|kept| kept.lease.clone()).collect()
    }

    /// Whether one renewal of the whole session is enough: it must renew no lease that should end, and its answer must
    /// suffice for each lease.
    pub(super) fn is_of_one_kind(&self) -> bool {
        let now = self.client.clock().now();
        let differs = |kept: &Kept| {
            let is_held = !matches!(kept.lease.lost(), Some(Lost::GivenBack));
            let is_over = kept.lease.valid_until() <= now;
            is_held && (is_over || self.is_stalled(kept, now) || kept.lease.wind_down.is_cancelled())
        };
        !self.kept().values().any(differs) && self.lock_adrift().is_empty()
    }

    fn is_stalled(&self, kept: &Kept, now: Moment) -> bool {
        let last = *kept.progress.lock().unwrap_or_else(PoisonError::into_inner);
        self.progress_within.is_some_and(|within| last.after(within) <= now)
    }
}
