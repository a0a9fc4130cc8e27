//! A minimal state machine, enough to run openraft's suite on the log.

use futures_util::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine, Snapshot};
use openraft::{EntryPayload, OptionalSend};
use raft_store::types::{Answer, LogId, OnTokio, SnapshotMeta, StoredMembership};
use std::io;
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub(super) struct Machine {
    applied: Applied,
    snapshot: Arc<Mutex<Option<SnapshotMeta>>>,
}

#[derive(Clone, Default)]
struct Applied {
    last: Option<LogId>,
    membership: StoredMembership,
}

/// Contains the entries that were applied when it was built.
pub(super) struct Builder {
    applied: Applied,
    snapshot: Arc<Mutex<Option<SnapshotMeta>>>,
}

type Built = Snapshot<raft_store::types::LeaderId, u64, raft_store::types::Member, ()>;

impl RaftSnapshotBuilder<OnTokio> for Builder {
    type SnapshotData = ();

    async fn build_snapshot(&mut self) -> io::Result<Built> {
        let meta = SnapshotMeta { last_log_id: self.applied.last, last_membership: self.applied.membership.clone() };
        *self.snapshot.lock().unwrap() = Some(meta.clone());
        Ok(Snapshot { meta, snapshot: () })
    }
}

impl RaftStateMachine<OnTokio> for Machine {
    type SnapshotData = ();
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.applied.last, self.applied.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<OnTokio>>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            self.applied.last = Some(entry.log_id);
            if let EntryPayload::Membership(membership) = entry.payload {
                self.applied.membership = StoredMembership::new(Some(entry.log_id), membership);
            }
            if let Some(responder) = responder {
                responder.send(Answer::default());
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder { applied: self.applied.clone(), snapshot: self.snapshot.clone() }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, (): ()) -> io::Result<()> {
        self.applied = Applied { last: meta.last_log_id, membership: meta.last_membership.clone() };
        *self.snapshot.lock().unwrap() = Some(meta.clone());
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Built>> {
        Ok(self.snapshot.lock().unwrap().clone().map(|meta| Snapshot { meta, snapshot: () }))
    }
}
