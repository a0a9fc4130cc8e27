//! Loading a state from records, and dumping it.

use crate::bounds::RULES_VERSION;
use crate::changes::Changes;
use crate::encoding::{DecodeError, decode};
use crate::hash::StateHash;
use crate::item::Content;
use crate::line::{Line, Place};
use crate::names::ItemId;
use crate::numbers::{ItemNo, QueueNo, SpaceNo, Time};
use crate::queue::Usage;
use crate::record::{Key, StoredContent};
use crate::space::Space;
use crate::standing::Standing;
use crate::state::item_key::ItemKey;
use crate::state::items::{Item, Touched};
use crate::state::openings::Openings;
use crate::state::{LiveQueue, Meta, State};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Why records do not form a valid state. The store is damaged or has a later version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    Decode {
        key: Vec<u8>,
        error: DecodeError,
    },
    /// The records are not in the order of [`crate::record::LIVE`], or one that others need is missing.
    Missing(String),
    /// The state was written under later rules than this build supports.
    Rules {
        version: u32,
        known: u32,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode { key, error } => write!(f, "record {key:02x?}: {error}"),
            Self::Missing(what) => write!(f, "missing or out of order: {what}"),
            Self::Rules { version, known } => {
                write!(f, "written under rules {version}; this build knows {known}: upgrade this node")
            }
        }
    }
}

impl std::error::Error for LoadError {}

impl State {
    /// Loads a state from the live records of a store, in the order of [`crate::record::LIVE`]. `hash` is the value of
    /// [`State::hash`] when they were written.
    ///
    /// # Errors
    /// When a record cannot be decoded or the set is incomplete.
    pub fn load<Bytes: AsRef<[u8]>>(
        records: impl IntoIterator<Item = (Bytes, Bytes)>,
        hash: StateHash,
    ) -> Result<Self, LoadError> {
        Self::load_knowing(records, hash, RULES_VERSION)
    }

    /// Like [`State::load`], for a build that supports the rules up to this version.
    ///
    /// # Errors
    /// As [`State::load`].
    pub fn load_knowing<Bytes: AsRef<[u8]>>(
        records: impl IntoIterator<Item = (Bytes, Bytes)>,
        hash: StateHash,
        known: u32,
    ) -> Result<Self, LoadError> {
        let mut state: Option<Self> = None;
        let mut contents: BTreeMap<ItemNo, StoredContent> = BTreeMap::new();
        let mut keys: BTreeMap<ItemNo, ItemKey> = BTreeMap::new();
        for (key_bytes, value) in records {
            let (key_bytes, value) = (key_bytes.as_ref(), value.as_ref());
            let bad = |error| LoadError::Decode { key: key_bytes.to_vec(), error };
            let key = Key::decode(key_bytes).map_err(bad)?;
            if key == Key::Meta {
                let meta: Meta = decode(value).map_err(bad)?;
                if meta.rules_version > known {
                    return Err(LoadError::Rules { version: meta.rules_version, known });
                }
                state = Some(Self::from_meta(meta).knowing(known));
                continue;
            }
            let state = state.as_mut().ok_or_else(|| LoadError::Missing("the meta record".into()))?;
            match key {
                Key::Space(no) => {
                    state.expect(no.0 as usize == state.spaces.len(), "a space")?;
                    let space: Space = decode(value).map_err(bad)?;
                    state.space_numbers.insert(space.name.clone(), no);
                    state.spaces.push(space);
                }
                Key::Queue(no) => {
                    let queue: crate::queue::Queue = decode(value).map_err(bad)?;
                    state.queue_numbers.insert((queue.space, queue.name.clone()), no);
                    state.queues.insert(LiveQueue::new(queue, None));
                }
                Key::QueueUsage(no) => {
                    state.expect(state.queues.find(no).is_some(), "a queue")?;
                    let usage: Usage = decode(value).map_err(bad)?;
                    let space = state.queue(no).queue.space;
                    state.makers.change(space, &usage.made_by, |made| made.queues += 1);
                    state.queue_mut(no).usage = Some(usage);
                }
                Key::Content(no) => {
                    contents.insert(no, decode(value).map_err(bad)?);
                }
                Key::Standing(no) => {
                    let StoredContent { id, space, queue, content } =
                        contents.remove(&no).ok_or_else(|| LoadError::Missing(format!("the content of item {no}")))?;
                    state.expect(state.queues.find(queue).is_some(), "an item's queue")?;
                    let standing = decode(value).map_err(bad)?;
                    keys.insert(no, state.items.insert(Item::new(no, id, space, queue, content, standing)));
                }
                Key::Expiry(no) => {
                    let key = *keys.get(&no).ok_or_else(|| LoadError::Missing(format!("item {no}")))?;
                    let lease = state.items.get_mut(key).standing.lease.as_mut();
                    let lease = lease.ok_or_else(|| LoadError::Missing(format!("the lease of item {no}")))?;
                    lease.expires_at = decode(value).map_err(bad)?;
                }
                Key::Place(no, place_no) => {
                    let key = *keys.get(&no).ok_or_else(|| LoadError::Missing(format!("item {no}")))?;
                    let place: Place = decode(value).map_err(bad)?;
                    state.deadlines.places.insert((place.ends_at(), key, place_no));
                    let space = state.items.get(key).space;
                    state.holdings.change(space, &place.holder.actor, |holdings| holdings.places += 1);
                    state.items.get_mut(key).line.get_or_insert_default().insert(place_no, place);
                }
                Key::Worker(space, who) => {
                    let worker: crate::worker::Worker = decode(value).map_err(bad)?;
                    state.deadlines.workers.insert((worker.due_at(), space, who.clone()));
                    state.workers.insert((space, who), worker);
                }
                Key::Request(request) => state.requests.insert(request, decode(value).map_err(bad)?),
                Key::Wake(seq) => {
                    state.wakes.insert(seq, decode(value).map_err(bad)?);
                }
                Key::Meta
                | Key::Body(..)
                | Key::Activity(..)
                | Key::Archived(..)
                | Key::Retention(..)
                | Key::Event(..) => {}
            }
        }
        let mut state = state.ok_or_else(|| LoadError::Missing("the meta record".into()))?;
        if let Some((no, _)) = contents.first_key_value() {
            return Err(LoadError::Missing(format!("the standing of item {no}")));
        }
        for key in keys.into_values() {
            let item = state.items.get(key);
            if item.standing.lease.as_ref().is_some_and(|lease| lease.expires_at == Time(0)) {
                return Err(LoadError::Missing(format!("the expiry of item {}", item.no)));
            }
            state.index(key);
        }
        for queue in state.queues.numbers() {
            state.note_work(queue);
            state.note_blank(queue);
        }
        state.check_queues()?;
        // Nobody was waiting for what was available before.
        state.openings = Openings::default();
        state.hash = hash;
        Ok(state)
    }

    fn expect(&self, holds: bool, what: &str) -> Result<(), LoadError> {
        if holds { Ok(()) } else { Err(LoadError::Missing(what.into())) }
    }

    /// Checks the number of queues, which the space stores because the queue numbers have gaps.
    fn check_queues(&self) -> Result<(), LoadError> {
        let mut counts: BTreeMap<SpaceNo, u64> = BTreeMap::new();
        for queue in self.queues.iter() {
            *counts.entry(queue.queue.space).or_default() += 1;
        }
        let count = |space: &Space| counts.get(&space.no).copied().unwrap_or(0);
        self.expect(self.spaces.iter().all(|space| count(space) == space.counts.queues), "a queue")
    }

    /// Every live record. [`State::load`] builds the same state from them.
    #[must_use]
    pub fn dump(&self) -> Changes {
        let mut records = Changes::default();
        records.put(&Key::Meta, &self.meta);
        for space in &self.spaces {
            records.put(&Key::Space(space.no), space);
        }
        for queue in self.queues.iter() {
            records.put(&Key::Queue(queue.queue.no), &queue.queue);
        }
        for queue in self.queues.iter() {
            if let Some(usage) = &queue.usage {
                records.put(&Key::QueueUsage(queue.queue.no), usage);
            }
        }
        let mut items: Vec<_> = self.items.iter().collect();
        items.sort_unstable_by_key(|(key, _)| *key);
        for (key, item) in &items {
            records.put(&Key::Content(key.no), &item.stored_content());
        }
        for (key, item) in &items {
            records.put(&Key::Standing(key.no), &item.standing);
        }
        for (key, item) in &items {
            if let Some(lease) = &item.standing.lease {
                records.put(&Key::Expiry(key.no), &lease.expires_at);
            }
        }
        for (key, item) in &items {
            for (place_no, place) in item.line.iter().flat_map(|line| line.iter()) {
                records.put(&Key::Place(key.no, place_no), place);
            }
        }
        for ((space, who), worker) in &self.workers {
            records.put(&Key::Worker(*space, who.clone()), worker);
        }
        for (key, remembered) in self.requests.iter() {
            records.put(&Key::Request(key), remembered);
        }
        for (seq, wake) in &self.wakes {
            records.put(&Key::Wake(*seq), wake);
        }
        records
    }
}

impl Item {
    pub(crate) fn new(
        no: ItemNo,
        id: ItemId,
        space: SpaceNo,
        queue: QueueNo,
        content: Arc<Content>,
        standing: Standing,
    ) -> Self {
        Self {
            no,
            id,
            space,
            queue,
            content,
            standing,
            line: None::<Box<Line>>,
            class: crate::state::ready::ClassNo::default(),
            indexed_due: Time::NEVER,
            touched: Touched::default(),
        }
    }

    pub(crate) fn stored_content(&self) -> StoredContent {
        StoredContent { id: self.id.clone(), space: self.space, queue: self.queue, content: Arc::clone(&self.content) }
    }
}
