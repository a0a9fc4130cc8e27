//! Followers of events, grouped by interest: an event wakes only the followers that are interested in it, however many
//! others there are.

use lease::event::Event;
use lease::names::{ItemId, QueueName, SpaceName};
use lease::numbers::EventNumber;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Receiver, Sender};

/// Which events a follower gets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interest {
    Space(SpaceName),
    Queue(SpaceName, QueueName),
    Item(SpaceName, ItemId),
}

impl Interest {
    /// How many chunks a follower may fall behind before it must read missed events from disk. The room is allocated at
    /// once, and as many items may be followed as there are streams.
    fn chunks_kept(&self) -> usize {
        match self {
            Self::Space(_) => 1_024,
            Self::Queue(..) => 64,
            Self::Item(..) => 8,
        }
    }

    fn of(event: &Event) -> impl Iterator<Item = Self> {
        let queue = event.queue.clone().map(|queue| Self::Queue(event.space.clone(), queue));
        let item = event.item.clone().map(|item| Self::Item(event.space.clone(), item));
        [Some(Self::Space(event.space.clone())), queue, item].into_iter().flatten()
    }
}

/// What a follower gets for a chunk.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// The events, in order.
    Events(Arc<[Event]>),
    /// A snapshot skipped events: read them from disk.
    Jump,
}

#[derive(Debug, Default)]
pub struct Followers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by_interest: BTreeMap<Interest, Sender<Delivery>>,
    /// The last event of each space that was sent while there was a follower.
    told: BTreeMap<SpaceName, EventNumber>,
}

impl Followers {
    /// Follows all events of interest that are applied from now on.
    pub fn follow(self: &Arc<Self>, interest: Interest) -> Follower {
        let mut state = self.lock();
        let sender = state.by_interest.entry(interest.clone());
        let heard = sender.or_insert_with_key(|interest| broadcast::channel(interest.chunks_kept()).0).subscribe();
        Follower { followers: self.clone(), interest, heard: Some(heard) }
    }

    pub fn tell(&self, events: &[Event]) {
        let mut state = self.lock();
        if state.by_interest.is_empty() {
            return;
        }
        let mut wanted: BTreeMap<Interest, Vec<Event>> = BTreeMap::new();
        for event in events {
            for interest in Interest::of(event).filter(|interest| state.by_interest.contains_key(interest)) {
                wanted.entry(interest).or_default().push(event.clone());
            }
        }
        for (interest, events) in wanted {
            // A follower that has just left is not an error.
            let _ = state.by_interest[&interest].send(Delivery::Events(events.into()));
        }
        // After all events were sent: a follower that has received all of them has seen everything up to these numbers.
        for event in events {
            state.told.insert(event.space.clone(), event.number);
        }
    }

    pub fn jump(&self) {
        let mut state = self.lock();
        state.told.clear();
        for sender in state.by_interest.values() {
            let _ = sender.send(Delivery::Jump);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A follower. It stops following when it is dropped.
#[derive(Debug)]
pub struct Follower {
    followers: Arc<Followers>,
    interest: Interest,
    /// None only during its drop.
    heard: Option<Receiver<Delivery>>,
}

impl Follower {
    /// The next chunk.
    ///
    /// # Errors
    /// When the follower is too far behind and must read from disk.
    pub async fn next(&mut self) -> Result<Delivery, RecvError> {
        match &mut self.heard {
            Some(heard) => heard.recv().await,
            None => Err(RecvError::Closed),
        }
    }

    /// The event of the space up to which this follower has received everything, if nothing is pending.
    pub fn has_heard_all_up_to(&self, space: &SpaceName) -> Option<EventNumber> {
        let state = self.followers.lock();
        let is_through = self.heard.as_ref().is_some_and(Receiver::is_empty);
        state.told.get(space).copied().filter(|_| is_through)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.heard = None;
        let mut state = self.followers.lock();
        if state.by_interest.get(&self.interest).is_some_and(|sender| sender.receiver_count() == 0) {
            state.by_interest.remove(&self.interest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lease::event::What;
    use lease::numbers::{Epoch, Time, Wall};

    fn space() -> SpaceName {
        SpaceName::fallback()
    }

    fn created(seq: u64, queue: &str, item: &str) -> Event {
        Event {
            space: space(),
            number: EventNumber { epoch: Epoch(0), seq },
            at: Time(0),
            wall: Wall(0),
            by: None,
            queue: Some(QueueName::new(queue).unwrap()),
            item: Some(ItemId::new(item).unwrap()),
            local_to: None,
            what: What::Created,
        }
    }

    async fn seqs(follower: &mut Follower) -> Vec<u64> {
        match follower.next().await.unwrap() {
            Delivery::Events(events) => events.iter().map(|event| event.number.seq).collect(),
            Delivery::Jump => vec![],
        }
    }

    #[tokio::test]
    async fn a_follower_gets_the_events_of_its_interest_and_no_others() {
        let followers = Arc::new(Followers::default());
        let queue = |name: &str| Interest::Queue(space(), QueueName::new(name).unwrap());
        let mut all = followers.follow(Interest::Space(space()));
        let mut ops = followers.follow(queue("ops"));
        let mut disk = followers.follow(Interest::Item(space(), ItemId::new("disk").unwrap()));
        let quiet = followers.follow(queue("quiet"));
        followers.tell(&[created(1, "ops", "disk"), created(2, "build", "x"), created(3, "ops", "tape")]);
        assert_eq!(seqs(&mut all).await, [1, 2, 3]);
        assert_eq!(seqs(&mut ops).await, [1, 3]);
        assert_eq!(disk.has_heard_all_up_to(&space()), None, "it has not listened yet");
        assert_eq!(seqs(&mut disk).await, [1]);
        let last = |follower: &Follower| follower.has_heard_all_up_to(&space()).map(|number| number.seq);
        assert_eq!([last(&disk), last(&quiet)], [Some(3), Some(3)]);
        followers.jump();
        assert!(matches!(ops.next().await, Ok(Delivery::Jump)));
        assert_eq!(last(&ops), None, "skipped events were not received");
    }

    #[tokio::test]
    async fn unused_interests_are_removed_and_slow_followers_get_lagged() {
        let followers = Arc::new(Followers::default());
        let interest = Interest::Item(space(), ItemId::new("disk").unwrap());
        let (mut first, second) = (followers.follow(interest.clone()), followers.follow(interest));
        drop(second);
        assert_eq!(followers.lock().by_interest.len(), 1);
        for seq in 1..=20 {
            followers.tell(&[created(seq, "ops", "disk")]);
        }
        assert!(matches!(first.next().await, Err(RecvError::Lagged(_))));
        drop(first);
        assert_eq!(followers.lock().by_interest.len(), 0);
    }
}
