//! Where what was applied is told: how far the state is, and who waited for this very event.

use lease::caller::Holder;
use lease::event::{Event, What};
use lease::names::{ItemId, QueueName, SpaceName};
use openraft::type_config::TypeConfigExt;
use raft_store::state::{AppliedChunk, Observer, Progress};
use raft_store::types::Types;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// What a caller on this node may wait for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// A place in the line of an item has ended: granted, or gone.
    Place(SpaceName, ItemId, Holder),
    /// Anything about an item.
    Item(SpaceName, ItemId),
    /// Something became available in a queue: one waiter is woken by one such event.
    Work(SpaceName, QueueName),
    /// Any event of a space.
    Space(SpaceName),
}

/// Told by the one who applies; asked by everyone else. Plain mutexes, never held over an await.
#[derive(Debug)]
pub struct Hub {
    progress: watch::Sender<Progress>,
    waiters: Mutex<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    last: u64,
    by_topic: BTreeMap<Topic, BTreeMap<u64, oneshot::Sender<()>>>,
}

impl Hub {
    pub fn new(progress: Progress) -> Arc<Self> {
        Arc::new(Self { progress: watch::Sender::new(progress), waiters: Mutex::default() })
    }

    /// How far this node's state is, and a way to await the next change.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub fn current(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Waits until the state has applied this index.
    pub async fn has_applied(&self, index: u64) {
        let is_there = |progress: &Progress| progress.applied.is_some_and(|applied| applied.index >= index);
        // The sender is this hub: it cannot be gone.
        let _ = self.progress().wait_for(is_there).await;
    }

    /// Begins to wait. Begin before looking whether there is anything to wait for, or the event may pass between.
    pub fn wait_for(self: &Arc<Self>, topic: Topic) -> Waiter {
        let (sender, woken) = oneshot::channel();
        let mut waiters = self.lock();
        waiters.last += 1;
        let number = waiters.last;
        waiters.by_topic.entry(topic.clone()).or_default().insert(number, sender);
        Waiter { hub: self.clone(), topic, number, woken }
    }

    /// How many callers wait here.
    pub fn waiting(&self) -> usize {
        self.lock().by_topic.values().map(BTreeMap::len).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiters {
    fn wake_all(&mut self, topic: &Topic) {
        for (_, waiter) in self.by_topic.remove(topic).into_iter().flatten() {
            let _ = waiter.send(());
        }
    }

    /// The one who has waited longest: one piece of work needs one worker.
    fn wake_one(&mut self, topic: &Topic) {
        let Some(waiting) = self.by_topic.get_mut(topic) else { return };
        while let Some((_, waiter)) = waiting.pop_first() {
            if waiter.send(()).is_ok() {
                break;
            }
        }
        if waiting.is_empty() {
            self.by_topic.remove(topic);
        }
    }

    fn tell(&mut self, event: &Event) {
        if self.by_topic.is_empty() {
            return;
        }
        self.wake_all(&Topic::Space(event.space.clone()));
        if let Some(item) = &event.item {
            self.wake_all(&Topic::Item(event.space.clone(), item.clone()));
            if let What::Granted { holder, .. } | What::LeftLine { holder, .. } = &event.what {
                self.wake_all(&Topic::Place(event.space.clone(), item.clone(), holder.clone()));
            }
        }
        if let Some(queue) = &event.queue
            && frees_work(&event.what)
        {
            self.wake_one(&Topic::Work(event.space.clone(), queue.clone()));
        }
    }
}

/// Whether an item may have become free to be handed out.
fn frees_work(what: &What) -> bool {
    !matches!(what, What::Granted { .. } | What::PickedUp { .. } | What::Extended { .. } | What::Joined { .. })
}

impl Observer for Hub {
    fn applied(&self, chunk: &AppliedChunk<'_>) {
        {
            let mut waiters = self.lock();
            for event in chunk.events {
                waiters.tell(event);
            }
            if chunk.events.is_empty() && chunk.is_jump {
                // A snapshot skipped what happened: everyone looks for himself.
                for topic in waiters.by_topic.keys().cloned().collect::<Vec<_>>() {
                    waiters.wake_all(&topic);
                }
            }
        }
        self.progress.send_replace(chunk.progress);
    }
}

/// One who waits. Dropped, it waits no more.
#[derive(Debug)]
pub struct Waiter {
    hub: Arc<Hub>,
    topic: Topic,
    number: u64,
    woken: oneshot::Receiver<()>,
}

impl Waiter {
    /// Returns when the event came, or the time is over.
    pub async fn woken_within<C: Types>(mut self, time: Duration) -> bool {
        C::timeout(time, &mut self.woken).await.is_ok_and(|woken| woken.is_ok())
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiters = self.hub.lock();
        if let Some(waiting) = waiters.by_topic.get_mut(&self.topic) {
            waiting.remove(&self.number);
            if waiting.is_empty() {
                waiters.by_topic.remove(&self.topic);
            }
        }
    }
}
