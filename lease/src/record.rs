//! The records of a store and their keys. Keys sort in the order of their numbers, so that a store can scan a kind of
//! records, an item's parts or the retention list in order.

use crate::caller::Holder;
use crate::encoding::{DecodeError, decode, encode_into};
use crate::item::{Content, Part};
use crate::line::PlaceNo;
use crate::names::ItemId;
use crate::numbers::{EventNumber, ItemNo, QueueNo, SpaceNo, Time};
use crate::remembered::RequestKey;
use crate::standing::Standing;
use serde::{Deserialize, Serialize};

/// The key of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    Meta,
    Space(SpaceNo),
    Queue(QueueNo),
    /// The usage of a queue. Queues created before this kind of record existed have none.
    QueueUsage(QueueNo),
    /// The content of a live item.
    Content(ItemNo),
    /// The standing of a live item.
    Standing(ItemNo),
    /// When the lease on a live item ends.
    Expiry(ItemNo),
    Place(ItemNo, PlaceNo),
    Body(ItemNo, Part),
    /// The last activities of an item, in a ring.
    Activity(ItemNo, u32),
    Worker(SpaceNo, Holder),
    Request(RequestKey),
    Wake(u64),
    /// A terminal item.
    Archived(SpaceNo, ItemId),
    /// When an archived item is purged.
    Retention(Time, ItemNo),
    Event(SpaceNo, EventNumber),
}

pub const META: u8 = b'M';
pub const SPACE: u8 = b'S';
pub const QUEUE: u8 = b'Q';
pub const QUEUE_USAGE: u8 = b'U';
pub const CONTENT: u8 = b'C';
pub const STANDING: u8 = b'I';
pub const EXPIRY: u8 = b'X';
pub const PLACE: u8 = b'L';
pub const BODY: u8 = b'B';
pub const ACTIVITY: u8 = b'A';
pub const WORKER: u8 = b'W';
pub const REQUEST: u8 = b'R';
pub const WAKE: u8 = b'K';
pub const ARCHIVED: u8 = b'Z';
pub const RETENTION: u8 = b'T';
pub const EVENT: u8 = b'E';

/// The kinds of records that are held in memory, in loading order. The others are read from the store.
pub const LIVE: [u8; 11] = [META, SPACE, QUEUE, QUEUE_USAGE, CONTENT, STANDING, EXPIRY, PLACE, WORKER, REQUEST, WAKE];

impl Key {
    pub fn encode_into(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Meta => bytes.push(META),
            Self::Space(no) => put(bytes, SPACE, &no.0.to_be_bytes()),
            Self::Queue(no) => put(bytes, QUEUE, &no.0.to_be_bytes()),
            Self::QueueUsage(no) => put(bytes, QUEUE_USAGE, &no.0.to_be_bytes()),
            Self::Content(no) => put(bytes, CONTENT, &no.0.to_be_bytes()),
            Self::Standing(no) => put(bytes, STANDING, &no.0.to_be_bytes()),
            Self::Expiry(no) => put(bytes, EXPIRY, &no.0.to_be_bytes()),
            Self::Place(no, place) => {
                put(bytes, PLACE, &no.0.to_be_bytes());
                bytes.extend_from_slice(&(place.0 ^ i64::MIN).to_be_bytes());
            }
            Self::Body(no, part) => {
                put(bytes, BODY, &no.0.to_be_bytes());
                bytes.push(*part as u8);
            }
            Self::Activity(no, slot) => {
                put(bytes, ACTIVITY, &no.0.to_be_bytes());
                bytes.extend_from_slice(&slot.to_be_bytes());
            }
            Self::Worker(space, worker) => {
                put(bytes, WORKER, &space.0.to_be_bytes());
                encode_into(bytes, worker);
            }
            Self::Request(key) => put(bytes, REQUEST, &key.0.to_be_bytes()),
            Self::Wake(seq) => put(bytes, WAKE, &seq.to_be_bytes()),
            Self::Archived(space, id) => {
                put(bytes, ARCHIVED, &space.0.to_be_bytes());
                bytes.extend_from_slice(id.as_str().as_bytes());
            }
            Self::Retention(time, no) => {
                put(bytes, RETENTION, &time.0.to_be_bytes());
                bytes.extend_from_slice(&no.0.to_be_bytes());
            }
            Self::Event(space, number) => {
                put(bytes, EVENT, &space.0.to_be_bytes());
                bytes.extend_from_slice(&number.epoch.0.to_be_bytes());
                bytes.extend_from_slice(&number.seq.to_be_bytes());
            }
        }
    }

    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24);
        self.encode_into(&mut bytes);
        bytes
    }

    /// # Errors
    /// When the bytes are not a valid key.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (tag, rest) = bytes.split_first().ok_or(DecodeError::Empty)?;
        let mut rest = Rest(rest);
        let key = match *tag {
            META => Self::Meta,
            SPACE => Self::Space(SpaceNo(rest.u32()?)),
            QUEUE => Self::Queue(QueueNo(rest.u32()?)),
            QUEUE_USAGE => Self::QueueUsage(QueueNo(rest.u32()?)),
            CONTENT => Self::Content(ItemNo(rest.u64()?)),
            STANDING => Self::Standing(ItemNo(rest.u64()?)),
            EXPIRY => Self::Expiry(ItemNo(rest.u64()?)),
            PLACE => Self::Place(ItemNo(rest.u64()?), PlaceNo(i64::from_be_bytes(rest.take()?) ^ i64::MIN)),
            BODY => {
                let no = ItemNo(rest.u64()?);
                let [part] = rest.take()?;
                let part = Part::ALL.get(usize::from(part)).ok_or(DecodeError::Malformed("body part".into()))?;
                Self::Body(no, *part)
            }
            ACTIVITY => Self::Activity(ItemNo(rest.u64()?), rest.u32()?),
            WORKER => Self::Worker(SpaceNo(rest.u32()?), decode(rest.all())?),
            REQUEST => Self::Request(RequestKey(u128::from_be_bytes(rest.take()?))),
            WAKE => Self::Wake(rest.u64()?),
            ARCHIVED => {
                let space = SpaceNo(rest.u32()?);
                let id = std::str::from_utf8(rest.all()).map_err(|e| DecodeError::Malformed(e.to_string()))?;
                Self::Archived(space, ItemId::new(id).map_err(|e| DecodeError::Malformed(e.to_string()))?)
            }
            RETENTION => Self::Retention(Time(rest.u64()?), ItemNo(rest.u64()?)),
            EVENT => {
                let space = SpaceNo(rest.u32()?);
                let epoch = crate::numbers::Epoch(rest.u32()?);
                Self::Event(space, EventNumber { epoch, seq: rest.u64()? })
            }
            other => return Err(DecodeError::Malformed(format!("record kind {other}"))),
        };
        if rest.0.is_empty() { Ok(key) } else { Err(DecodeError::Trailing(rest.0.len())) }
    }
}

fn put(bytes: &mut Vec<u8>, tag: u8, rest: &[u8]) {
    bytes.push(tag);
    bytes.extend_from_slice(rest);
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, tail) = self.0.split_first_chunk().ok_or(DecodeError::Malformed("short key".into()))?;
        self.0 = tail;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        self.take().map(u64::from_be_bytes)
    }

    fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

/// The value of a live item's content record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredContent {
    pub id: ItemId,
    pub space: SpaceNo,
    pub queue: QueueNo,
    pub content: std::sync::Arc<Content>,
}

/// A terminal item in the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archived {
    pub no: ItemNo,
    pub queue: QueueNo,
    pub content: std::sync::Arc<Content>,
    pub standing: Standing,
    pub purge_at: Time,
}

/// One line of the retention list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retained {
    pub purge_at: Time,
    pub no: ItemNo,
    pub space: SpaceNo,
    pub id: ItemId,
}
