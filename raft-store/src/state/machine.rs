//! The state machine as Raft requires it: applies committed entries, returns answers, takes and installs snapshots.

use super::chunk::Chunk;
use super::disk::StateDisk;
use super::lookups::{FirstRetained, Lookups};
use super::{AppliedChunk, Live, Observer, StateStore, is_poisoned};
use crate::codec::records::{SnapshotMetaRecord, StoredMembershipRecord};
use crate::types::{Answer, LogEntry, LogId, Payload, SnapshotMeta, StoredMembership, Types};
use futures_util::{Stream, StreamExt};
use lease::{Command, Entry};
use openraft::OptionalSend;
use openraft::async_runtime::AsyncRuntime;
use openraft::storage::{ApplyResponder, EntryResponder, RaftSnapshotBuilder, RaftStateMachine, Snapshot};
use openraft::type_config::alias::AsyncRuntimeOf;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

/// The maximum chunk, applied under one lock and in one write: enough to share the cost, small enough not to make
/// readers wait.
const CHUNK_ENTRIES: usize = 256;
const CHUNK_BYTES: usize = 1024 * 1024;

/// The part that applies entries.
pub struct Machine<C, D> {
    store: Arc<StateStore<D>>,
    observer: Arc<dyn Observer>,
    types: PhantomData<fn() -> C>,
}

impl<C, D> fmt::Debug for Machine<C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Machine")
    }
}

impl<C: Types, D: StateDisk> Machine<C, D> {
    pub fn new(store: Arc<StateStore<D>>, observer: Arc<dyn Observer>) -> Self {
        Self { store, observer, types: PhantomData }
    }

    fn apply_chunk(&self, entries: Vec<(LogEntry, Option<ApplyResponder<C>>)>) -> io::Result<()> {
        let mut steps = Vec::with_capacity(entries.len());
        let next = self.store.live.read().map_err(is_poisoned)?.applied.last.map_or(0, |last| last.index + 1);
        for ((entry, responder), next) in entries.into_iter().zip(next..) {
            check_follows(entry.log_id.index, next)?;
            steps.push((entry.log_id, open(entry.payload, self.store.known_rules)?, responder));
        }
        let mut answers = Vec::with_capacity(steps.len());
        let (mut events, mut openings) = (Vec::new(), Vec::new());
        let progress = {
            let mut live = self.store.live.write().map_err(is_poisoned)?;
            let live = &mut *live;
            let mut chunk = Chunk::default();
            let mut lookups = Lookups::new(&self.store.disk, std::mem::take(&mut live.first_retained));
            for (id, step, responder) in steps {
                let answer = match step {
                    Step::Nothing => Answer::default(),
                    Step::Membership(membership) => {
                        // Also removed members: an older build may not have stored them when they joined.
                        chunk.members.extend(live.applied.membership.membership.members.keys());
                        chunk.members.extend(membership.nodes().map(|(id, _)| *id));
                        live.applied.membership =
                            StoredMembershipRecord { log_id: Some(id.into()), membership: (&membership).into() };
                        Answer::default()
                    }
                    Step::Lease(entry) => {
                        let applied = live.state.apply(&entry, &lookups);
                        lookups.check()?;
                        lookups.note(&applied.changes);
                        chunk.changes.push(applied.changes);
                        events.extend(applied.events);
                        openings.extend(applied.openings);
                        Answer { outcomes: applied.outcomes }
                    }
                };
                live.note_applied(id);
                answers.push((responder, answer));
            }
            live.first_retained = lookups.into_first_retained();
            self.store.disk.write(&chunk, &live.applied)?;
            self.store.progress_of(live)
        };
        self.observer.applied(&AppliedChunk { progress, events: &events, openings: &openings, is_jump: false });
        for (responder, answer) in answers {
            if let Some(responder) = responder {
                responder.send(answer);
            }
        }
        Ok(())
    }
}

/// A decoded entry of the log.
enum Step {
    Nothing,
    Membership(crate::types::Membership),
    Lease(Entry),
}

/// Raft checks this only in development builds. A state with a repeated or missing entry must not answer anyone.
fn check_follows(index: u64, next: u64) -> io::Result<()> {
    if index == next {
        return Ok(());
    }
    let why = format!(
        "entry {index} of the log would be applied, but the state needs entry {next} next: the log and the state of this \
         node do not belong together. Keep its directory, remove this node from the cluster and add a new one"
    );
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Rejects entries that this build must not apply: a mixed cluster would diverge.
fn open(payload: Payload, known_rules: u32) -> io::Result<Step> {
    match payload {
        Payload::Blank => Ok(Step::Nothing),
        Payload::Membership(membership) => Ok(Step::Membership(membership)),
        Payload::Normal(proposal) => {
            let entry = proposal.open().map_err(|error| {
                io::Error::new(io::ErrorKind::InvalidData, format!("an entry of the log is invalid: {error}"))
            })?;
            for request in &entry.commands {
                if let Command::RaiseRules { version } = request.command
                    && version > known_rules
                    && request.caller.is_admin()
                {
                    return Err(io::Error::new(
                        io::ErrorKind::Unsupported,
                        format!(
                            "the cluster moves to rules {version}, but this build knows only up to {known_rules}: upgrade this node"
                        ),
                    ));
                }
            }
            Ok(Step::Lease(entry))
        }
    }
}

impl<C: Types, D: StateDisk> RaftStateMachine<C> for Machine<C, D> {
    type SnapshotData = D::Snapshot;
    type SnapshotBuilder = Builder<C, D>;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let live = self.store.live();
        let membership = live.applied.membership.clone().try_into()?;
        Ok((live.applied.last.map(Into::into), membership))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<C>>> + Unpin + OptionalSend,
    {
        let mut chunk = Vec::new();
        let mut bytes = 0;
        while let Some(entry) = entries.next().await {
            let (entry, responder) = entry?;
            if let Payload::Normal(proposal) = &entry.payload {
                bytes += proposal.as_bytes().len();
            }
            chunk.push((entry, responder));
            if chunk.len() >= CHUNK_ENTRIES || bytes >= CHUNK_BYTES {
                self.apply_chunk(std::mem::take(&mut chunk))?;
                bytes = 0;
            }
        }
        if chunk.is_empty() { Ok(()) } else { self.apply_chunk(chunk) }
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        Builder { store: self.store.clone(), observer: self.observer.clone(), types: PhantomData }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: D::Snapshot) -> io::Result<()> {
        let store = self.store.clone();
        let meta = SnapshotMetaRecord::from(meta);
        let progress = aside::<C, D, _>(move || {
            let _alone = store.alone();
            // Nobody may read while memory and disk are of different moments.
            let mut live = store.live.write().map_err(is_poisoned)?;
            store.disk.install(&meta, snapshot)?;
            let (state, applied) = store.disk.load(store.salt)?;
            *live = Live { state, applied, first_retained: FirstRetained::default() };
            Ok(store.progress_of(&live))
        })
        .await?;
        self.observer.applied(&AppliedChunk { progress, events: &[], openings: &[], is_jump: true });
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> io::Result<Option<Snapshot<crate::types::LeaderId, u64, crate::types::Member, D::Snapshot>>> {
        match self.store.disk.newest_snapshot()? {
            Some((meta, snapshot)) => Ok(Some(Snapshot { meta: meta.try_into()?, snapshot })),
            None => Ok(None),
        }
    }
}

/// Takes snapshots while entries are applied. The snapshot's metadata states its content.
pub struct Builder<C, D> {
    store: Arc<StateStore<D>>,
    observer: Arc<dyn Observer>,
    types: PhantomData<fn() -> C>,
}

impl<C, D> fmt::Debug for Builder<C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Builder")
    }
}

impl<C: Types, D: StateDisk> RaftSnapshotBuilder<C> for Builder<C, D> {
    type SnapshotData = D::Snapshot;

    async fn build_snapshot(
        &mut self,
    ) -> io::Result<Snapshot<crate::types::LeaderId, u64, crate::types::Member, D::Snapshot>> {
        let store = self.store.clone();
        // If it waited for an install, the state is the installed one, and so is the snapshot.
        let taking = move || {
            let _alone = store.alone();
            store.disk.take_snapshot()
        };
        let (meta, snapshot) = aside::<C, D, _>(taking).await?;
        self.observer.took_snapshot(meta.last.map(Into::into));
        Ok(Snapshot { meta: meta.try_into()?, snapshot })
    }
}

/// Blocking work runs on its own thread; a simulation has only one thread, and nothing blocks.
async fn aside<C: Types, D: StateDisk, T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    if D::BLOCKS { AsyncRuntimeOf::<C>::spawn_blocking(work).await? } else { work() }
}
