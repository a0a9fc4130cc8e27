//! Notifications about applied entries: the progress of the state, and wake-ups for callers that wait for an event.

use crate::replica::followers::{Follower, Followers, Interest};
use lease::Opening;
use lease::caller::Holder;
use lease::event::{Event, What};
use lease::names::{ItemId, QueueName, SpaceName};
use openraft::type_config::TypeConfigExt;
use raft_store::state::{AppliedChunk, Observer, Progress};
use raft_store::types::{LogId, Types};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// What a caller on this node can wait for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// A place in the line of an item has ended: granted, or gone.
    Place(SpaceName, ItemId, Holder),
    /// Anything about an item.
    Item(SpaceName, ItemId),
    /// An item that `next` could hand out may be ready. Wakes one waiter per item; if it cannot use the item, it wakes
    /// the next.
    Ready(SpaceName, QueueName),
}

/// Gets every applied chunk and notifies waiters and followers. Plain mutexes, never held over an await.
#[derive(Debug)]
pub struct Hub {
    progress: watch::Sender<Progress>,
    followers: Arc<Followers>,
    waiters: Mutex<Waiters>,
    counts: HubCounts,
}

/// Counters since this node started, for metrics.
#[derive(Debug)]
pub struct HubCounts {
    /// In the order of [`What::KINDS`].
    events: [AtomicU64; What::KINDS.len()],
    pub snapshots_taken: AtomicU64,
    pub snapshots_installed: AtomicU64,
}

static KIND_NUMBERS: LazyLock<BTreeMap<&'static str, usize>> =
    LazyLock::new(|| What::KINDS.into_iter().zip(0..).collect());

impl HubCounts {
    fn new() -> Self {
        Self {
            events: std::array::from_fn(|_| AtomicU64::new(0)),
            snapshots_taken: AtomicU64::new(0),
            snapshots_installed: AtomicU64::new(0),
        }
    }

    /// How many events of each kind this node has applied.
    pub fn events(&self) -> impl Iterator<Item = (&'static str, u64)> {
        What::KINDS.into_iter().zip(&self.events).map(|(kind, count)| (kind, count.load(Ordering::Relaxed)))
    }

    fn count(&self, events: &[Event]) {
        for event in events {
            if let Some(number) = KIND_NUMBERS.get(event.what.kind()) {
                self.events[*number].fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Waiters {
    last: u64,
    by_topic: BTreeMap<Topic, BTreeMap<u64, oneshot::Sender<Wake>>>,
}

/// The number of the last waiter when a wake-up began. The wake-up passes only among waiters up to this number: later
/// ones have checked the queue themselves.
type Wake = u64;

impl Hub {
    pub fn new(progress: Progress) -> Arc<Self> {
        Arc::new(Self {
            progress: watch::Sender::new(progress),
            followers: Arc::default(),
            waiters: Mutex::default(),
            counts: HubCounts::new(),
        })
    }

    /// A receiver of the progress of this node's state.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub fn current(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Waits until the state has applied this index.
    pub async fn has_applied(&self, index: u64) {
        let is_there = |progress: &Progress| progress.applied.is_some_and(|applied| applied.index >= index);
        // The sender lives in this hub, so this cannot fail.
        let _ = self.progress().wait_for(is_there).await;
    }

    /// Subscribes to a topic. Subscribe before checking whether waiting is needed, or the event may be missed in
    /// between.
    pub fn wait_for(self: &Arc<Self>, topic: Topic) -> Waiter {
        let (sender, woken) = oneshot::channel();
        let mut waiters = self.lock();
        waiters.last += 1;
        let number = waiters.last;
        waiters.by_topic.entry(topic.clone()).or_default().insert(number, sender);
        Waiter { hub: self.clone(), topic, number, woken }
    }

    /// Follows every event of interest that is applied from now on.
    pub fn follow(&self, interest: Interest) -> Follower {
        self.followers.follow(interest)
    }

    /// How many callers wait on this node.
    pub fn waiting(&self) -> usize {
        self.lock().by_topic.values().map(BTreeMap::len).sum()
    }

    #[must_use]
    pub fn counts(&self) -> &HubCounts {
        &self.counts
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiters {
    fn wake_all(&mut self, topic: &Topic) {
        let wake = self.last;
        for (_, waiter) in self.by_topic.remove(topic).into_iter().flatten() {
            let _ = waiter.send(wake);
        }
    }

    /// Wakes the waiter that has waited longest, of those up to `wake`.
    fn wake_one(&mut self, topic: &Topic, wake: Wake) {
        let Some(waiting) = self.by_topic.get_mut(topic) else { return };
        while let Some(first) = waiting.first_entry().filter(|first| *first.key() <= wake) {
            // A waiter that is gone is skipped.
            if first.remove().send(wake).is_ok() {
                break;
            }
        }
        if waiting.is_empty() {
            self.by_topic.remove(topic);
        }
    }

    fn tell(&mut self, event: &Event) {
        let Some(item) = event.item.as_ref().filter(|_| !self.by_topic.is_empty()) else { return };
        self.wake_all(&Topic::Item(event.space.clone(), item.clone()));
        if let What::Granted { holder, .. } | What::LeftLine { holder, .. } = &event.what {
            self.wake_all(&Topic::Place(event.space.clone(), item.clone(), holder.clone()));
        }
    }

    /// Wakes as many waiters as may find an item, longest waiting first.
    fn open(&mut self, opening: &Opening) {
        if self.by_topic.is_empty() {
            return;
        }
        let topic = Topic::Ready(opening.space.clone(), opening.queue.clone());
        let waiting = self.by_topic.get(&topic).map_or(0, BTreeMap::len);
        for _ in 0..waiting.min(opening.callers as usize) {
            self.wake_one(&topic, self.last);
        }
    }
}

impl Observer for Hub {
    fn applied(&self, chunk: &AppliedChunk<'_>) {
        self.counts.count(chunk.events);
        if chunk.is_jump {
            self.counts.snapshots_installed.fetch_add(1, Ordering::Relaxed);
            tracing::info!(index = chunk.progress.applied.map(|last| last.index), "a snapshot was installed");
        }
        if chunk.is_jump {
            self.followers.jump();
        } else if !chunk.events.is_empty() {
            self.followers.tell(chunk.events);
        }
        {
            let mut waiters = self.lock();
            for event in chunk.events {
                waiters.tell(event);
            }
            for opening in chunk.openings {
                waiters.open(opening);
            }
            if chunk.events.is_empty() && chunk.is_jump {
                // A snapshot skipped events: every waiter checks again.
                for topic in waiters.by_topic.keys().cloned().collect::<Vec<_>>() {
                    waiters.wake_all(&topic);
                }
            }
        }
        self.progress.send_replace(chunk.progress);
    }

    fn took_snapshot(&self, last: Option<LogId>) {
        self.counts.snapshots_taken.fetch_add(1, Ordering::Relaxed);
        tracing::info!(index = last.map(|last| last.index), "a snapshot was taken");
    }
}

/// A subscription to a topic. It ends when it is dropped.
#[derive(Debug)]
pub struct Waiter {
    hub: Arc<Hub>,
    topic: Topic,
    number: u64,
    woken: oneshot::Receiver<Wake>,
}

impl Waiter {
    /// Returns when the event came, or the time is over.
    pub async fn woken_within<C: Types>(mut self, time: Duration) -> Option<Woken> {
        let wake = C::timeout(time, &mut self.woken).await.ok()?.ok()?;
        Some(Woken { hub: self.hub.clone(), topic: self.topic.clone(), wake, is_used: false })
    }
}

/// A received wake-up. When it is dropped unused, it passes to the next waiter.
#[derive(Debug)]
pub struct Woken {
    hub: Arc<Hub>,
    topic: Topic,
    wake: Wake,
    is_used: bool,
}

impl Woken {
    pub fn used(mut self) {
        self.is_used = true;
    }
}

impl Drop for Woken {
    fn drop(&mut self) {
        if !self.is_used && matches!(self.topic, Topic::Ready(..)) {
            self.hub.lock().wake_one(&self.topic, self.wake);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiters = self.hub.lock();
        // The wake-up was sent but never received: pass it on.
        if let Ok(wake) = self.woken.try_recv()
            && matches!(self.topic, Topic::Ready(..))
        {
            waiters.wake_one(&self.topic, wake);
        }
        if let Some(waiting) = waiters.by_topic.get_mut(&self.topic) {
            waiting.remove(&self.number);
            if waiting.is_empty() {
                waiters.by_topic.remove(&self.topic);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lease::names::ActorId;
    use lease::numbers::{EventNumber, Time, Token, Wall};
    use raft_store::types::OnTokio;

    fn item(id: &str) -> ItemId {
        ItemId::new(id).unwrap()
    }

    fn holder(actor: &str) -> Holder {
        Holder::new(ActorId::new(actor).unwrap(), None)
    }

    fn event(id: &str, what: What) -> Event {
        Event {
            space: SpaceName::fallback(),
            number: EventNumber::default(),
            at: Time(0),
            wall: Wall(0),
            by: None,
            queue: None,
            item: Some(item(id)),
            local_to: None,
            what,
        }
    }

    fn tell(hub: &Hub, events: &[Event], is_jump: bool) {
        hub.applied(&AppliedChunk { progress: Progress::default(), events, openings: &[], is_jump });
    }

    fn open(hub: &Hub, queues: &[(&str, u32)]) {
        let opening = |(queue, callers): &(&str, u32)| Opening {
            space: SpaceName::fallback(),
            queue: QueueName::new(queue).unwrap(),
            callers: *callers,
        };
        let openings: Vec<_> = queues.iter().map(opening).collect();
        hub.applied(&AppliedChunk { progress: Progress::default(), events: &[], openings: &openings, is_jump: false });
    }

    async fn is_woken(waiter: Waiter) -> bool {
        waiter.woken_within::<OnTokio>(Duration::from_millis(1)).await.is_some()
    }

    #[tokio::test]
    async fn an_event_wakes_waiters_for_its_item_and_its_place() {
        let hub = Hub::new(Progress::default());
        let space = SpaceName::fallback();
        let place = |id: &str, who| hub.wait_for(Topic::Place(space.clone(), item(id), holder(who)));
        let (bobs, cys, elsewhere) = (place("a", "bob"), place("a", "cy"), place("b", "bob"));
        let on_item = hub.wait_for(Topic::Item(space.clone(), item("a")));
        let on_other = hub.wait_for(Topic::Item(space.clone(), item("b")));
        let granted = What::Granted {
            holder: holder("bob"),
            token: Token(1),
            expires_at: Time(1),
            from_line: true,
            was_assigned_to: None,
        };
        tell(&hub, &[event("a", granted)], false);
        assert!(is_woken(bobs).await && is_woken(on_item).await);
        assert!(!is_woken(cys).await && !is_woken(elsewhere).await && !is_woken(on_other).await);
        assert_eq!(hub.waiting(), 0, "woken and dropped waiters are removed");
    }

    #[tokio::test]
    async fn a_place_that_ended_without_a_grant_wakes_its_waiter_and_a_snapshot_wakes_all() {
        let hub = Hub::new(Progress::default());
        let place = || hub.wait_for(Topic::Place(SpaceName::fallback(), item("a"), holder("bob")));
        let (first, second) = (place(), place());
        tell(&hub, &[event("a", What::LeftLine { holder: holder("bob"), answer: None })], false);
        assert!(is_woken(first).await && is_woken(second).await);
        let third = place();
        tell(&hub, &[], false);
        assert!(!is_woken(third).await, "nothing happened");
        let fourth = place();
        tell(&hub, &[], true);
        assert!(is_woken(fourth).await);
    }

    fn ready(hub: &Arc<Hub>) -> Waiter {
        hub.wait_for(Topic::Ready(SpaceName::fallback(), QueueName::new("ops").unwrap()))
    }

    async fn woken(waiter: Waiter) -> Option<Woken> {
        waiter.woken_within::<OnTokio>(Duration::from_millis(1)).await
    }

    #[tokio::test]
    async fn one_waiter_is_woken_per_item_in_order_of_waiting() {
        let hub = Hub::new(Progress::default());
        let (first, second, third, fourth) = (ready(&hub), ready(&hub), ready(&hub), ready(&hub));
        open(&hub, &[("ops", 2), ("home", 7)]);
        for waiter in [first, second] {
            woken(waiter).await.unwrap().used();
        }
        assert!(woken(third).await.is_none());
        open(&hub, &[("ops", u32::MAX)]);
        woken(fourth).await.unwrap().used();
    }

    #[tokio::test]
    async fn an_unused_wake_up_passes_to_the_next_waiter_and_wakes_nobody_twice() {
        let hub = Hub::new(Progress::default());
        let (first, second) = (ready(&hub), ready(&hub));
        open(&hub, &[("ops", 1)]);
        let in_vain = woken(first).await.unwrap();
        let again = ready(&hub);
        drop(in_vain);
        drop(woken(second).await.unwrap());
        assert!(woken(again).await.is_none(), "it subscribed after the wake-up began");
        let (gone, left) = (ready(&hub), ready(&hub));
        open(&hub, &[("ops", 1)]);
        drop(gone);
        assert!(woken(left).await.is_some(), "a wake-up that was not received is not lost");
        assert_eq!(hub.waiting(), 0);
    }

    #[test]
    fn events_are_counted_by_their_kind_and_a_jump_as_an_installed_snapshot() {
        let hub = Hub::new(Progress::default());
        tell(&hub, &[event("a", What::Created), event("a", What::Activated), event("b", What::Created)], false);
        tell(&hub, &[], true);
        hub.took_snapshot(None);
        let counted: Vec<_> = hub.counts().events().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [("created", 2), ("activated", 1)]);
        let counts = hub.counts();
        assert_eq!(
            (counts.snapshots_taken.load(Ordering::Relaxed), counts.snapshots_installed.load(Ordering::Relaxed)),
            (1, 1)
        );
    }
}
