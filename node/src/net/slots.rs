//! Limits the number of connections. When all slots are taken, the oldest connection without a valid credential loses
//! its slot, so that silent connections cannot keep others out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// An evicted connection closes within microseconds. If it does not, the new one is rejected.
const GONE_WITHIN: Duration = Duration::from_secs(1);

/// The slots for connections. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionSlots(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    free: Arc<Semaphore>,
    max: usize,
    address_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// Number of connections of each address that has any.
    by_address: BTreeMap<IpAddr, usize>,
    /// Connections without a credential, oldest first, each with the token that evicts it.
    newcomers: BTreeMap<u64, (IpAddr, CancellationToken)>,
    newcomers_of: BTreeSet<(IpAddr, u64)>,
}

impl ConnectionSlots {
    /// `max` slots in total, and `address_max` for one IPv4 address or one IPv6 /64 network.
    pub(crate) fn new(max: usize, address_max: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        let free = Arc::new(Semaphore::new(max));
        Self(Arc::new(Inner { free, max, address_max, taken: Mutex::default() }))
    }

    pub(crate) fn taken(&self) -> usize {
        self.0.max - self.0.free.available_permits()
    }

    /// Takes a slot for a connection, if necessary from the oldest newcomer: from one of the same address if that
    /// address has its share. None: all are taken by connections that have shown a credential.
    pub(crate) async fn take(&self, address: IpAddr) -> Option<ConnectionSlot> {
        let address = network(address);
        let is_at_share = self.0.lock().by_address.get(&address).copied().unwrap_or(0) >= self.0.address_max;
        if is_at_share && !self.0.evict(Some(address)) {
            return None;
        }
        let permit = match self.0.free.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) if is_at_share || self.0.evict(None) => {
                timeout(GONE_WITHIN, self.0.free.clone().acquire_owned()).await.ok()?.ok()?
            }
            Err(_) => return None,
        };
        let evicted = CancellationToken::new();
        let mut taken = self.0.lock();
        let no = taken.next;
        taken.next += 1;
        *taken.by_address.entry(address).or_default() += 1;
        taken.newcomers.insert(no, (address, evicted.clone()));
        taken.newcomers_of.insert((address, no));
        drop(taken);
        Some(ConnectionSlot(Arc::new(Held {
            slots: self.0.clone(),
            no,
            address,
            evicted,
            is_known: AtomicBool::new(false),
            _permit: permit,
        })))
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Evicts the oldest newcomer, of this address or of any. It stops being a newcomer at once; its slot is free when
    /// it is closed.
    fn evict(&self, of: Option<IpAddr>) -> bool {
        let mut taken = self.lock();
        let no = match of {
            None => taken.newcomers.keys().next().copied(),
            Some(of) => taken.newcomers_of.range((of, 0)..=(of, u64::MAX)).next().map(|(_, no)| *no),
        };
        let Some((_, evicted)) = no.and_then(|no| taken.forget(no)) else { return false };
        evicted.cancel();
        true
    }
}

impl Taken {
    fn forget(&mut self, no: u64) -> Option<(IpAddr, CancellationToken)> {
        let newcomer = self.newcomers.remove(&no)?;
        self.newcomers_of.remove(&(newcomer.0, no));
        Some(newcomer)
    }
}

/// A slot for one connection. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct ConnectionSlot(Arc<Held>);

/// The connection of a request, in the extensions of every request. It does not keep the slot taken.
#[derive(Clone, Debug)]
pub(crate) struct SlotHandle(Weak<Held>);

impl SlotHandle {
    /// The connection has shown a credential: it keeps its slot.
    pub(crate) fn is_known(&self) {
        if let Some(held) = self.0.upgrade() {
            held.is_known();
        }
    }

    pub(crate) fn has_shown_credential(&self) -> bool {
        self.0.upgrade().is_some_and(|held| held.is_known.load(Ordering::Relaxed))
    }
}

#[derive(Debug)]
struct Held {
    slots: Arc<Inner>,
    no: u64,
    address: IpAddr,
    evicted: CancellationToken,
    is_known: AtomicBool,
    _permit: OwnedSemaphorePermit,
}

impl Held {
    fn is_known(&self) {
        // Every request of the connection calls this; only the first call has an effect.
        if !self.is_known.swap(true, Ordering::Relaxed) {
            self.slots.lock().forget(self.no);
        }
    }
}

impl ConnectionSlot {
    pub(crate) fn is_known(&self) {
        self.0.is_known();
    }

    pub(crate) fn handle(&self) -> SlotHandle {
        SlotHandle(Arc::downgrade(&self.0))
    }

    /// Returns when another connection needs this slot.
    pub(crate) async fn evicted(&self) {
        self.0.evicted.cancelled().await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
        taken.forget(self.no);
        if let Some(count) = taken.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

/// The IPv4 address or the IPv6 /64 network: a caller with one IPv6 address usually has the 2^64 of its network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Holds a slot until it is evicted.
    fn hold(slot: ConnectionSlot) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move { slot.evicted().await })
    }

    #[tokio::test]
    async fn the_oldest_newcomer_is_evicted_and_known_connections_stay() {
        let slots = ConnectionSlots::new(2, 2);
        let known = slots.take(at("10.0.0.1")).await.unwrap();
        known.is_known();
        let silent = hold(slots.take(at("10.0.0.2")).await.unwrap());
        let third = slots.take(at("10.0.0.3")).await.unwrap();
        silent.await.unwrap();
        assert_eq!(slots.taken(), 2);
        third.is_known();
        assert!(slots.take(at("10.0.0.4")).await.is_none(), "both are known");
        drop(third);
        assert!(slots.take(at("10.0.0.4")).await.is_some());
    }

    #[tokio::test]
    async fn an_address_at_its_share_takes_the_place_of_its_own_oldest_newcomer() {
        let slots = ConnectionSlots::new(10, 1);
        let other = slots.take(at("2001:db8:0:1::1")).await.unwrap();
        let silent = hold(slots.take(at("2001:db8::1")).await.unwrap());
        let same_network = slots.take(at("2001:db8::2")).await.unwrap();
        silent.await.unwrap();
        same_network.is_known();
        assert!(slots.take(at("2001:db8::3")).await.is_none());
        drop((other, same_network));
        let taken = slots.0.lock();
        assert!(taken.by_address.is_empty() && taken.newcomers.is_empty() && taken.newcomers_of.is_empty());
    }
}
