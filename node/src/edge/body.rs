//! Reads the whole body of a request before its handler runs, with limits on size, time and memory.
//!
//! Checks that need only the head, such as authentication, run first. A body takes room in memory only as it arrives,
//! not by the length that its head announces. A caller that sends much, however slowly, takes no room from other
//! callers, and large bodies take none from small ones, such as renewals.

mod room;

use crate::edge::answer::Failure;
use api::{Code, Problem};
use axum::body::Body;
use axum::http::header;
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use room::{Full, Room};

pub use room::Taken;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// `retry_after_ms` of a caller whose body finds no room. Other bodies leave within milliseconds, at most within
/// [`BodyLimits::within`].
const ROOM_AGAIN: Duration = Duration::from_millis(500);

/// A body that is too large is still read and dropped up to this many bytes: a caller that is disconnected while it
/// sends would not read the response.
const DROPPED_MAX: u64 = 16 * 1024 * 1024;
const DROPPED_WITHIN: Duration = Duration::from_secs(1);

/// Limits for bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Bytes of one body. Default 1 MiB.
    pub bytes_max: usize,
    /// Time from the start of the reading to the end of the body. Default 30 s.
    pub within: Duration,
    /// Bytes of all bodies that are read or worked on at the same time, over all connections. Default 256 MiB.
    pub all_bytes_max: usize,
    /// The same limit for the bodies of one owner. Default 32 MiB.
    pub owner_bytes_max: usize,
    /// Larger bodies may fill only three quarters of the room. Default 16 KiB.
    pub small_bytes_max: usize,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            bytes_max: 1024 * 1024,
            within: Duration::from_secs(30),
            all_bytes_max: 256 * 1024 * 1024,
            owner_bytes_max: 32 * 1024 * 1024,
            small_bytes_max: 16 * 1024,
        }
    }
}

/// Why a body was rejected. The handler did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRefusal {
    TooLarge {
        bytes_max: usize,
    },
    TooSlow {
        within: Duration,
    },
    /// All bodies together, or those of this owner, have reached their limit.
    NoRoom {
        retry_after: Duration,
        is_owners_own: bool,
    },
    /// It ended early or was not valid HTTP.
    Broken,
}

impl BodyRefusal {
    /// Whether the same body may be accepted later.
    #[must_use]
    pub fn is_for_room(&self) -> bool {
        matches!(self, Self::NoRoom { .. })
    }
}

impl From<BodyRefusal> for Failure {
    fn from(refusal: BodyRefusal) -> Self {
        match refusal {
            BodyRefusal::TooLarge { bytes_max } => Problem::new(Code::TooLarge)
                .with_detail(format!("the body exceeds the maximum of {bytes_max} bytes"))
                .into(),
            BodyRefusal::TooSlow { within } => {
                let why = format!("the body did not arrive within {} s", within.as_secs());
                Problem::new(Code::TooSlow).with_detail(why).into()
            }
            BodyRefusal::NoRoom { retry_after, is_owners_own } => {
                let code = if is_owners_own { Code::RateLimited } else { Code::Overloaded };
                let mut problem =
                    Problem::new(code).with_detail("too many bytes of request bodies at the same time; retry later");
                problem.retry_after_ms = u64::try_from(retry_after.as_millis()).ok();
                problem.into()
            }
            BodyRefusal::Broken => Problem::invalid("body", "ended early or is not valid HTTP").into(),
        }
    }
}

/// Reads bodies. Clones share the room for all bodies.
#[derive(Clone, Debug)]
pub struct WholeBody {
    limits: BodyLimits,
    room: Arc<Room>,
}

impl WholeBody {
    #[must_use]
    pub fn new(limits: BodyLimits) -> Self {
        let room = Arc::new(Room::new(&limits));
        Self { limits, room }
    }

    /// Sets another size limit, with the same shared room.
    #[must_use]
    pub fn with_bytes_max(mut self, bytes_max: usize) -> Self {
        self.limits.bytes_max = bytes_max;
        self
    }

    /// A request's body, and the room that it takes until `Taken` is dropped.
    ///
    /// # Errors
    /// Why the body was rejected. If the caller could not read the response otherwise, the rest of the body has been
    /// read and dropped.
    pub async fn take_whole(
        &self,
        owner: Option<&str>,
        head: &Parts,
        body: &mut Body,
    ) -> Result<(Bytes, Taken), BodyRefusal> {
        let taken = self.take(owner, body).await;
        let waits_to_be_asked = head.headers.contains_key(header::EXPECT);
        if matches!(taken, Err(BodyRefusal::TooLarge { .. })) && !waits_to_be_asked {
            let_go(body).await;
        }
        taken
    }

    async fn take(&self, owner: Option<&str>, body: &mut Body) -> Result<(Bytes, Taken), BodyRefusal> {
        let BodyLimits { bytes_max, within, .. } = self.limits;
        let claimed = body.size_hint().lower();
        if claimed > u64::try_from(bytes_max).unwrap_or(u64::MAX) {
            return Err(BodyRefusal::TooLarge { bytes_max });
        }
        timeout(within, self.read(owner, claimed, body)).await.unwrap_or(Err(BodyRefusal::TooSlow { within }))
    }

    async fn read(&self, owner: Option<&str>, claimed: u64, body: &mut Body) -> Result<(Bytes, Taken), BodyRefusal> {
        let bytes_max = self.limits.bytes_max;
        let mut taken = self.room.clone().enter(owner, usize::try_from(claimed).unwrap_or(usize::MAX));
        let mut first = Bytes::new();
        let mut whole = BytesMut::new();
        let mut length = 0_usize;
        while let Some(frame) = body.frame().await {
            // Trailers are ignored.
            let Ok(data) = frame.map_err(|_| BodyRefusal::Broken)?.into_data() else { continue };
            length += data.len();
            if length > bytes_max {
                return Err(BodyRefusal::TooLarge { bytes_max });
            }
            taken.grow(data.len()).map_err(|full| BodyRefusal::NoRoom {
                retry_after: ROOM_AGAIN,
                is_owners_own: full == Full::OfOwner,
            })?;
            // Most bodies arrive in one piece, which needs no copy.
            if whole.is_empty() && first.is_empty() {
                first = data;
            } else {
                if whole.is_empty() {
                    whole.extend_from_slice(&first);
                }
                whole.extend_from_slice(&data);
            }
        }
        Ok((if whole.is_empty() { first } else { whole.freeze() }, taken))
    }
}

/// Reads and drops the rest of a body for a while, so that a caller that still sends reads the response.
pub(crate) async fn let_go(body: &mut Body) {
    let _ = timeout(DROPPED_WITHIN, drop_rest(body)).await;
}

async fn drop_rest(body: &mut Body) {
    if body.size_hint().lower() > DROPPED_MAX {
        return;
    }
    let mut dropped = 0;
    while let Some(Ok(frame)) = body.frame().await {
        dropped += frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX));
        if dropped > DROPPED_MAX {
            return;
        }
    }
}
