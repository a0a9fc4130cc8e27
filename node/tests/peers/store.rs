//! A log and a state in memory, for tests of the transport: the log can delay its durability, and the state records
//! what was applied and installed.

use futures_util::{Stream, StreamExt};
use openraft::entry::RaftEntry;
use openraft::storage::{EntryResponder, IOFlushed, RaftLogStorage, RaftStateMachine};
use openraft::{LogState, OptionalSend, RaftLogReader, RaftSnapshotBuilder, Snapshot};
use raft_store::snapshot::SnapshotDir;
use raft_store::types::{
    Answer, LeaderId, LogEntry, LogId, Member, NodeId, OnTokio, Payload, SnapshotMeta, StoredMembership, Vote,
};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{self, Read};
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<LogInner>>);

#[derive(Default)]
struct LogInner {
    vote: Option<Vote>,
    entries: BTreeMap<u64, LogEntry>,
    purged: Option<LogId>,
    /// Some: entries become durable only when it is released.
    held: Option<Vec<IOFlushed<OnTokio>>>,
}

impl Log {
    pub(crate) fn hold(&self) {
        self.0.lock().unwrap().held.get_or_insert_default();
    }

    pub(crate) fn let_go(&self) {
        let held = self.0.lock().unwrap().held.take();
        for callback in held.into_iter().flatten() {
            callback.io_completed(Ok(()));
        }
    }

    pub(crate) fn last_index(&self) -> Option<u64> {
        self.0.lock().unwrap().entries.keys().last().copied()
    }
}

impl RaftLogReader<OnTokio> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<LogEntry>> {
        Ok(self.0.lock().unwrap().entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.0.lock().unwrap().vote)
    }
}

impl RaftLogStorage<OnTokio> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<OnTokio>> {
        let inner = self.0.lock().unwrap();
        let last = inner.entries.values().last().map(|entry| entry.log_id());
        Ok(LogState { last_purged_log_id: inner.purged, last_log_id: last.or(inner.purged) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.0.lock().unwrap().vote = Some(*vote);
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<OnTokio>) -> io::Result<()>
    where
        I: IntoIterator<Item = LogEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut inner = self.0.lock().unwrap();
        inner.entries.extend(entries.into_iter().map(|entry| (entry.log_id.index, entry)));
        match &mut inner.held {
            Some(held) => held.push(callback),
            None => callback.io_completed(Ok(())),
        }
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let first_gone = last.map_or(0, |last| last.index + 1);
        self.0.lock().unwrap().entries.split_off(&first_gone);
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        inner.entries = inner.entries.split_off(&(upto.index + 1));
        inner.purged = Some(upto);
        Ok(())
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct State(Arc<Mutex<StateInner>>);

#[derive(Debug, Default)]
struct StateInner {
    last: Option<LogId>,
    membership: StoredMembership,
    /// The payloads that were applied, in their order.
    applied: Vec<Vec<u8>>,
    installed: Vec<BTreeMap<String, Vec<u8>>>,
}

impl State {
    pub(crate) fn applied(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().applied.clone()
    }

    /// The files of each snapshot that was installed.
    pub(crate) fn installed(&self) -> Vec<BTreeMap<String, Vec<u8>>> {
        self.0.lock().unwrap().installed.clone()
    }
}

pub(crate) fn content(snapshot: &SnapshotDir) -> BTreeMap<String, Vec<u8>> {
    let files = snapshot.files().unwrap().into_iter();
    files
        .map(|(name, _)| {
            let mut bytes = Vec::new();
            snapshot.open_file(&name).unwrap().read_to_end(&mut bytes).unwrap();
            (name, bytes)
        })
        .collect()
}

impl RaftStateMachine<OnTokio> for State {
    type SnapshotData = SnapshotDir;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let inner = self.0.lock().unwrap();
        Ok((inner.last, inner.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<OnTokio>>> + Unpin + OptionalSend,
    {
        while let Some(entry) = entries.next().await {
            let (entry, responder) = entry?;
            {
                let mut inner = self.0.lock().unwrap();
                inner.last = Some(entry.log_id);
                match entry.payload {
                    Payload::Blank => {}
                    Payload::Normal(proposal) => inner.applied.push(proposal.as_bytes().to_vec()),
                    Payload::Membership(membership) => {
                        inner.membership = StoredMembership::new(Some(entry.log_id), membership);
                    }
                }
            }
            if let Some(responder) = responder {
                responder.send(Answer::default());
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: SnapshotDir) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        inner.last = meta.last_log_id;
        inner.membership = meta.last_membership.clone();
        inner.installed.push(content(&snapshot));
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot<LeaderId, NodeId, Member, SnapshotDir>>> {
        Ok(None)
    }
}

impl RaftSnapshotBuilder<OnTokio> for State {
    type SnapshotData = SnapshotDir;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot<LeaderId, NodeId, Member, SnapshotDir>> {
        Err(io::Error::other("no test takes a snapshot"))
    }
}
