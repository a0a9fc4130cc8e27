//! Questions to one peer, many at a time, on one connection.
//!
//! One task owns the connection: it connects when a question comes, writes questions as they come, passes each reply to
//! its asker, and after a loss fails all sent questions. It never sends a question twice, and never one that was
//! reported as not sent.

use super::PeerError;
use super::connection::{Connection, Dialer, Expected, Reading, Writing};
use super::frame::{FrameReader, FrameWriter};
use super::wire::{CallFrame, Purpose, Question, Reply, ReplyFrame};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

/// Unanswered questions to one peer; further ones wait for a place.
pub(crate) const IN_FLIGHT_MAX: usize = 256;

/// The link for questions to one peer. The connection ends with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct QuestionLink(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    queue: mpsc::Sender<PendingQuestion>,
    places: Semaphore,
    _driver: AbortOnDropHandle<()>,
}

impl QuestionLink {
    pub(crate) fn start(dialer: Dialer, expected: Expected) -> Self {
        let (queue, asked) = mpsc::channel(IN_FLIGHT_MAX);
        let driver = AbortOnDropHandle::new(tokio::spawn(drive(dialer, expected, asked)));
        Self(Arc::new(Inner { queue, places: Semaphore::new(IN_FLIGHT_MAX), _driver: driver }))
    }

    /// Returns the reply, or an error that tells whether the question may have been received.
    pub(crate) async fn ask(&self, question: Question, limit: Duration) -> Result<Reply, PeerError> {
        let deadline = Instant::now() + limit;
        let busy = || PeerError::unreachable("too many unanswered questions to this node");
        let gone = || PeerError::unreachable("this node's transport has stopped");
        let _place = timeout_at(deadline, self.0.places.acquire()).await.map_err(|_| busy())?.map_err(|_| gone())?;
        let stage = Arc::new(Stage::default());
        let (answer, answered) = oneshot::channel();
        let pending = PendingQuestion { question, stage: stage.clone(), answer };
        timeout_at(deadline, self.0.queue.send(pending)).await.map_err(|_| busy())?.map_err(|_| gone())?;
        match timeout_at(deadline, answered).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) if stage.give_up() => Err(gone()),
            Ok(Err(_)) => Err(PeerError::lost("this node's transport has stopped")),
            Err(_) if stage.give_up() => Err(PeerError::unreachable(format_args!("not sent within {limit:?}"))),
            Err(_) => Err(PeerError::TimedOut { limit }),
        }
    }
}

struct PendingQuestion {
    question: Question,
    stage: Arc<Stage>,
    answer: oneshot::Sender<Result<Reply, PeerError>>,
}

/// Decides between an asker that gives up and the task that is about to send: only one of them wins.
#[derive(Debug, Default)]
struct Stage(AtomicU8);

const WAITING: u8 = 0;
const SENT: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Stage {
    /// Returns false if the asker has given up: then it must not be sent.
    fn send(&self) -> bool {
        self.leave_waiting_for(SENT)
    }

    /// Returns false if it has been sent or is about to be.
    fn give_up(&self) -> bool {
        self.leave_waiting_for(GIVEN_UP)
    }

    fn leave_waiting_for(&self, next: u8) -> bool {
        self.0.compare_exchange(WAITING, next, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

async fn drive(dialer: Dialer, expected: Expected, mut asked: mpsc::Receiver<PendingQuestion>) {
    while let Some(first) = asked.recv().await {
        if first.answer.is_closed() {
            continue;
        }
        match dialer.connect(&expected, Purpose::Calls).await {
            Ok(connection) => talk(connection, first, &mut asked).await,
            Err(error) => {
                // Sending fails only if the asker is gone.
                let _ = first.answer.send(Err(error.clone()));
                while let Ok(pending) = asked.try_recv() {
                    let _ = pending.answer.send(Err(error.clone()));
                }
            }
        }
    }
}

type InFlight = Mutex<BTreeMap<u64, oneshot::Sender<Result<Reply, PeerError>>>>;

/// Runs until the connection is lost. Questions that were not sent by then stay in the queue.
async fn talk(connection: Connection, first: PendingQuestion, asked: &mut mpsc::Receiver<PendingQuestion>) {
    let Connection { mut reader, mut writer } = connection;
    let in_flight = InFlight::default();
    // Concurrently: if replies were not read while questions are written, both ends could block each other.
    let why = tokio::select! {
        why = write(&mut writer, first, asked, &in_flight) => why,
        why = read(&mut reader, &in_flight) => why,
    };
    for answer in in_flight.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
        let _ = answer.send(Err(PeerError::lost(&why)));
    }
}

async fn write(
    writer: &mut FrameWriter<Writing>,
    first: PendingQuestion,
    asked: &mut mpsc::Receiver<PendingQuestion>,
    in_flight: &InFlight,
) -> String {
    let mut sequence = 0;
    let mut next = Some(first);
    while let Some(pending) = next {
        sequence += 1;
        push(writer, sequence, pending, in_flight);
        // Questions that already wait are sent together with it.
        while !writer.is_full()
            && let Ok(pending) = asked.try_recv()
        {
            sequence += 1;
            push(writer, sequence, pending, in_flight);
        }
        if let Err(error) = writer.flush().await {
            return error.to_string();
        }
        next = asked.recv().await;
    }
    "this node's transport has stopped".to_owned()
}

fn push(writer: &mut FrameWriter<Writing>, sequence: u64, pending: PendingQuestion, in_flight: &InFlight) {
    let PendingQuestion { question, stage, answer } = pending;
    if !stage.send() {
        return;
    }
    if let Err(error) = writer.push(&CallFrame { sequence, question }) {
        let _ = answer.send(Err(PeerError::Refused { why: error.to_string() }));
        return;
    }
    let mut in_flight = in_flight.lock().unwrap_or_else(PoisonError::into_inner);
    if in_flight.len() >= IN_FLIGHT_MAX {
        // Remove questions whose askers gave up, since the peer may never answer them. At most this many others are
        // left.
        in_flight.retain(|_, answer| !answer.is_closed());
    }
    in_flight.insert(sequence, answer);
}

async fn read(reader: &mut FrameReader<Reading>, in_flight: &InFlight) -> String {
    loop {
        match reader.next::<ReplyFrame>().await {
            Ok(Some(ReplyFrame { sequence, reply })) => {
                let answer = in_flight.lock().unwrap_or_else(PoisonError::into_inner).remove(&sequence);
                if let Some(answer) = answer {
                    let _ = answer.send(Ok(reply));
                }
            }
            Ok(None) => return "the peer closed the connection".to_owned(),
            Err(error) => {
                if error.is_rubbish() {
                    tracing::warn!("a connection for calls was closed: {error}");
                }
                return error.to_string();
            }
        }
    }
}
