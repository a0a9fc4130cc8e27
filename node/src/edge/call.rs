//! One call: its caller, its time limits and its outcome. Every API goes through here.

use crate::edge::Edge;
use crate::edge::answer::{Age, Failure, Reply, Viewed};
use crate::edge::extract::RequestHead;
use crate::edge::gate::{Admitted, Class, Cost, Entry, Parked, Parking, Shed};
use crate::edge::identity::{ClusterRight, Identity, check_cluster_right};
use crate::edge::repeat::Repeat;
use crate::edge::stopping::Stopping;
use crate::replica::disk_space::RETRY_AFTER;
use crate::replica::hub::{Waiter, Woken};
use crate::replica::no_outcome::NoOutcome;
use api::answer::{Answer, Context};
use api::body::Body;
use api::names::Number;
use api::problem::Holder;
use api::query::Consistency;
use api::{Calendar, Code, Problem};
use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use lease::caller::{Caller, QueueScope, Right, Role};
use lease::command::Purpose;
use lease::disclose::ContentView;
use lease::item::Content;
use lease::names::{ActorId, ItemId};
use lease::numbers::{ItemNo, Revision};
use lease::outcome::{Grant, ItemSnapshot};
use lease::views::IfClaimed;
use lease::{Archive, Attempt, Command, Outcome, Refusal, Request, State};
use raft_store::types::OnTokio;
use std::fmt;
use std::time::{Duration, Instant};

/// Time limit of a call, without its long poll.
pub(super) const CALL_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for a last look at a claim's place in line.
const PLACE_WITHIN: Duration = Duration::from_millis(500);
/// A repeat that no leader accepted after this long is submitted again with its new age: it must not be on its way
/// while the answer to its first attempt is forgotten.
pub(super) const REPEAT_TAKEN_WITHIN: Duration = Duration::from_secs(2);
/// Pause between two attempts to learn the outcome of a command.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Bytes of body that were read, which may differ from what the request head said.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyBytes(pub(super) usize);

/// A request of an identified caller.
#[derive(Debug)]
pub struct Call {
    pub edge: Edge,
    pub head: RequestHead,
    pub caller: Caller,
    /// None: the server does not signal that it stops.
    pub stopping: Option<Stopping>,
    /// Length of its body.
    bytes: usize,
}

impl FromRequestParts<Edge> for Call {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Failure> {
        let head = match parts.extensions.get::<RequestHead>() {
            Some(head) => head.clone(),
            None => RequestHead::from_request_parts(parts, edge).await?,
        };
        let caller = head.identity.caller(&head.space, head.session.clone());
        let stopping = parts.extensions.get::<Stopping>().cloned();
        let bytes = parts.extensions.get::<BodyBytes>().map_or(0, |read| read.0);
        Ok(Self { edge: edge.clone(), head, caller, stopping, bytes })
    }
}

impl Call {
    #[must_use]
    pub fn actor(&self) -> &ActorId {
        &self.caller.actor
    }

    #[must_use]
    pub fn calendar(&self) -> Calendar {
        self.edge.calendar()
    }

    /// The call with the admin role, which cluster commands require.
    ///
    /// # Errors
    /// When the caller lacks the cluster right `admin`.
    pub fn as_admin(mut self) -> Result<Self, Failure> {
        self.check_cluster_right(ClusterRight::Admin)?;
        self.caller.rights = vec![Right { role: Role::Admin, queues: QueueScope::every() }];
        Ok(self)
    }

    /// Like [`Call::as_admin`], for a change of the cluster. Logs the caller and the change.
    ///
    /// # Errors
    /// When the caller lacks the cluster right `admin`.
    pub fn as_admin_to(self, what: impl fmt::Display) -> Result<Self, Failure> {
        let call = self.as_admin()?;
        call.log_asked(what);
        Ok(call)
    }

    pub(super) fn check_cluster_right(&self, right: ClusterRight) -> Result<(), Failure> {
        Ok(check_cluster_right(&self.head.identity, right)?)
    }

    /// Logs who asked this node to change the cluster. The outcome is logged later.
    pub(super) fn log_asked(&self, what: impl fmt::Display) {
        let Identity { actor, kind, parent, .. } = &*self.head.identity;
        let parent = parent.as_ref().map(ActorId::as_str);
        tracing::info!(actor = actor.as_str(), ?kind, parent, "caller asked to {what}");
    }

    /// Checks that the caller may see anything in its space.
    ///
    /// # Errors
    /// `forbidden`, whether or not the space exists.
    pub(super) fn check_sees_space(&self) -> Result<(), Failure> {
        if self.caller.rights.is_empty() {
            return Err(self.refused(Refusal::Forbidden { needs: Role::Reader }));
        }
        Ok(())
    }

    /// The revision that a write is based on, from the body or `If-Match`.
    ///
    /// # Errors
    /// When both are given and differ.
    pub fn read_at(&self, in_body: Option<Number>) -> Result<Option<Number>, Failure> {
        match (in_body, self.head.if_match) {
            (Some(body), Some(header)) if body != header => {
                Err(Problem::invalid("read_at", "differs from If-Match; send only one of them").into())
            }
            (body, header) => Ok(body.or(header)),
        }
    }

    /// Checks a command without running it.
    ///
    /// # Errors
    /// `invalid`.
    pub fn check(&self, command: Command) -> Result<(), Failure> {
        let request = self.request(command);
        lease::validate(&request)
            .and_then(|()| lease::check_new_names(&request))
            .map_err(|refusal| self.refused(refusal))
    }

    fn request(&self, command: Command) -> Request {
        Request {
            space: self.head.space.clone(),
            caller: self.caller.clone(),
            request_id: self.head.request_id.clone(),
            attempt: self.head.repeat.map_or(Attempt::First, Repeat::attempt),
            command,
        }
    }

    /// Runs a command and returns its answer.
    ///
    /// # Errors
    /// The same as for [`Call::run`].
    pub async fn reply<T: Answer>(&self, command: Command) -> Reply<T> {
        let outcome = self.run(command).await?;
        self.answer(outcome).await.map(Json)
    }

    /// Runs a command and returns its outcome.
    ///
    /// # Errors
    /// When the command is refused, when it did not happen (`unavailable`), or when it may have happened (`unknown`).
    pub async fn run(&self, command: Command) -> Result<Outcome, Failure> {
        self.run_polling(command, Duration::ZERO).await
    }

    /// Like [`Call::run`], but waits up to `poll`, counted from the call, for a claim in line to be granted. The
    /// command itself still has the usual time limit, however short the poll.
    ///
    /// # Errors
    /// The same as for [`Call::run`].
    pub async fn run_polling(&self, command: Command, poll: Duration) -> Result<Outcome, Failure> {
        let request = self.request(command);
        let checked = lease::validate(&request).and_then(|()| lease::check_new_names(&request));
        checked.map_err(|refusal| self.refused(refusal))?;
        let leaders = self.edge.node.role_changes().leaders();
        let mut admitted = self.admit_command(&request).map_err(|failure| self.in_doubt(failure))?;
        // A caller that waits in line does no work meanwhile.
        if request.command.waits_for().is_some() {
            let place = admitted.parked(self.actor().as_str(), Parking::Waiter).map_err(|shed| self.sent_away(shed));
            let _place = place.map_err(|failure| self.in_doubt(failure))?;
            return self.answered(request, poll).await;
        }
        let answered = self.answered(request, poll).await;
        // While the leader changes, calls wait on an idle node, too.
        if self.edge.node.role_changes().leaders() != leaders {
            admitted.ignore_latency();
        }
        // The gate measures the node's speed only by calls that ended.
        let has_ended = |code| !matches!(code, Code::Unavailable | Code::Unknown | Code::Overloaded);
        if answered.as_ref().err().is_none_or(|Failure(problem)| has_ended(problem.code)) {
            admitted.done();
        }
        answered
    }

    async fn answered(&self, mut request: Request, poll: Duration) -> Result<Outcome, Failure> {
        let poll_by = Instant::now() + poll;
        let by = Instant::now() + poll.max(CALL_WITHIN);
        // An earlier attempt may have happened, whatever the outcome of a later attempt.
        let (mut repeat, begun) = (self.head.repeat, Repeat::after(Duration::ZERO));
        let mut doubt = repeat.map(|_| String::from("the outcome of the previous attempt could not be looked up"));
        loop {
            let left = by.saturating_duration_since(Instant::now());
            let within = if repeat.is_some() { left.min(REPEAT_TAKEN_WITHIN) } else { left };
            request.attempt = repeat.map_or(Attempt::First, Repeat::attempt);
            match self.outcome(&request, within, poll_by.saturating_duration_since(Instant::now())).await {
                Ok(Outcome::Refused(refusal)) => return Err(self.refused(refusal)),
                Ok(outcome) => return Ok(outcome),
                Err(NoOutcome::Unknown(why)) => {
                    doubt = Some(why);
                    repeat.get_or_insert(begun);
                }
                Err(NoOutcome::Unavailable(why)) if doubt.is_none() => {
                    return Err(Problem::new(Code::Unavailable).with_detail(why).into());
                }
                Err(NoOutcome::LowOnDisk(why)) if doubt.is_none() => return Err(self.low_on_disk(why)),
                Err(NoOutcome::Unavailable(_) | NoOutcome::LowOnDisk(_)) => {}
                Err(NoOutcome::InDoubt(why)) => return Err(Problem::new(Code::Unknown).with_detail(why).into()),
                Err(NoOutcome::TooLarge { what, bytes, max }) => {
                    let why = format!("{what} of {bytes} bytes; the maximum is {max} bytes");
                    return Err(Problem::new(Code::TooLarge).with_detail(why).into());
                }
            }
            if left <= ASK_AGAIN {
                return Err(Problem::new(Code::Unknown).with_detail(doubt.unwrap_or_default()).into());
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    /// Takes room for a read.
    pub(super) fn admit(&self, class: Class, commands: u32) -> Result<Admitted, Failure> {
        let cost = Cost { commands, bytes: self.bytes };
        self.edge.gate.admit(self.actor().as_str(), class, cost).map_err(|shed| self.sent_away(shed))
    }

    /// Takes room for a command. A batch weighs as much here as in the memory of requests.
    fn admit_command(&self, request: &Request) -> Result<Admitted, Failure> {
        let commands = u32::try_from(request.command.weight()).unwrap_or(u32::MAX);
        let bytes = lease::encoding::encoded_len(request);
        let entry = Entry { space: request.space.as_str(), bytes };
        let (class, cost) = (class_of(&request.command), Cost { commands, bytes: self.bytes });
        let admitted = self.edge.gate.admit_entry(self.actor().as_str(), class, cost, Some(entry));
        self.edge.metrics.command_bytes(if admitted.is_ok() { bytes as u64 } else { 0 });
        admitted.map_err(|shed| self.sent_away(shed))
    }

    /// Takes a place to wait without working.
    ///
    /// # Errors
    /// When too many callers wait.
    pub fn park(&self, parking: Parking) -> Result<Parked, Failure> {
        self.edge.gate.park(self.actor().as_str(), parking).map_err(|shed| self.sent_away(shed))
    }

    /// Checks that this node may make lists and event pages for the caller now.
    ///
    /// # Errors
    /// `rate_limited`.
    pub(super) fn check_reading(&self) -> Result<(), Failure> {
        self.edge.gate.check_reading(self.actor().as_str()).map_err(|shed| self.sent_away(shed))
    }

    fn sent_away(&self, shed: Shed) -> Failure {
        sent_away(&self.edge, shed)
    }

    fn low_on_disk(&self, why: String) -> Failure {
        self.edge.metrics.shed("disk_space");
        let mut problem = Problem::new(Code::Overloaded).with_detail(why);
        problem.retry_after_ms = u64::try_from(RETRY_AFTER.as_millis()).ok();
        problem.into()
    }

    fn in_doubt(&self, sent_away: Failure) -> Failure {
        if self.head.repeat.is_none() { sent_away } else { in_doubt(sent_away) }
    }

    /// Reads the state with `look`.
    ///
    /// # Errors
    /// When no leader confirmed the read in time, or when `look` returns a refusal.
    pub async fn view<R>(
        &self,
        consistency: Consistency,
        look: impl FnOnce(&State, &dyn Archive, Calendar) -> Result<R, Refusal>,
    ) -> Result<Viewed<R>, Failure> {
        let admitted = self.admit(Class::Bulk, 1)?;
        let wall = (self.edge.wall)();
        let look = |state: &State, archive: &dyn Archive| {
            let calendar = Calendar { now: state.now(), wall };
            look(state, archive, calendar)
        };
        let (seen, age) = match consistency {
            Consistency::Linearizable => {
                let seen = self.edge.node.read(CALL_WITHIN, look).await.map_err(unread)?;
                (seen, None)
            }
            Consistency::Local => {
                let (value, seen) = self.edge.node.read_local(look).map_err(failed_disk)?;
                let applied = seen.progress.applied.map_or(0, |applied| applied.index);
                (value, Some(Age { applied, in_step_within: seen.in_step_within }))
            }
        };
        admitted.done();
        let value = seen.map_err(|refusal| self.refused(refusal))?;
        Ok(Viewed { value, age, revision: None })
    }

    /// Waits up to `within` for the event that `waiter` subscribed to. Ends early when the node stops.
    pub async fn woken(&self, waiter: Waiter, within: Duration) -> Option<Woken> {
        let waking = waiter.woken_within::<OnTokio>(within);
        match &self.stopping {
            None => waking.await,
            Some(stopping) => tokio::select! {
                woken = waking => woken,
                () = stopping.begun() => None,
            },
        }
    }

    /// Whether this node is stopping, so that waiting callers must move to another node.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.as_ref().is_some_and(Stopping::has_begun)
    }

    /// A command's outcome. When the node stops, a claim that waits in line gets its place instead.
    async fn outcome(&self, request: &Request, within: Duration, poll: Duration) -> Result<Outcome, NoOutcome> {
        let calling = self.edge.node.call(request.clone(), within, poll);
        match &self.stopping {
            Some(stopping) if request.command.waits_for().is_some() => {
                tokio::select! {
                    outcome = calling => outcome,
                    () = stopping.begun() => {
                        self.edge.node.call(request.clone(), PLACE_WITHIN.min(within), Duration::ZERO).await
                    }
                }
            }
            _ => calling.await,
        }
    }

    /// The parts of an item's body that this node has.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn body(&self, no: ItemNo, content: &Content) -> Result<Option<Body>, Failure> {
        let mut body = Body::default();
        let mut is_any = false;
        for (part, _) in content.parts.iter() {
            let found = self.edge.node.store().body(no, part).map_err(failed_disk)?;
            let text = found.and_then(|bytes| lease::encoding::decode::<String>(&bytes).ok());
            is_any |= text.is_some();
            *body.part_mut(part) = text;
        }
        Ok(is_any.then_some(body))
    }

    /// The revision of an item on this node now. None: the caller may not see the item.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn revision_of(&self, id: &ItemId) -> Result<Option<Revision>, Failure> {
        let look = |state: &State, archive: &dyn Archive| {
            let view = state.view_item(archive, &self.caller, &self.head.space, id, IfClaimed::Return);
            view.ok().map(|view| view.revision)
        };
        self.edge.node.store().read(look).map_err(failed_disk)
    }

    /// The answer to a command that had this outcome. Leases are shown with the bodies of their items. A lease whose body
    /// cannot be read now is shown without it: the caller holds it, and can read the body later.
    ///
    /// # Errors
    /// When the outcome belongs to another command.
    pub async fn answer<T: Answer>(&self, outcome: Outcome) -> Result<T, Failure> {
        for refusal in refused_entries(&outcome) {
            self.edge.metrics.entry_refused(refusal.code());
        }
        // The leader has applied its answer. This node may not have yet, and would not know the bodies and links.
        let is_simple = |grant: &Grant| {
            grant.snapshot.as_ref().is_none_or(|snapshot| {
                let content = &snapshot.content;
                content.parts.iter().next().is_none() && content.links.is_none() && self.content(snapshot).is_some()
            })
        };
        if !self.edge.node.raft().is_leader() && !outcome.grants().into_iter().all(is_simple) {
            let _ = self.edge.node.read(CALL_WITHIN, |_, _| ()).await;
        }
        let mut show = |snapshot: &ItemSnapshot| {
            let content = self.content(snapshot)?;
            let body = self.body(snapshot.no, &content).ok().flatten();
            Some((content, body))
        };
        let request_id = self.head.request_id.as_str();
        let mut holder = |item: &ItemId| self.holder(item);
        let mut with = Context { calendar: self.calendar(), request_id, show: &mut show, holder: &mut holder };
        T::new(outcome, &mut with).map_err(|other| unfitting(&other))
    }

    /// What a grant shows of its item. None: this node does not know the item's queue yet, or the disk fails.
    fn content(&self, snapshot: &ItemSnapshot) -> Option<ContentView> {
        let ItemSnapshot { queue, content, .. } = snapshot;
        let look = |state: &State, archive: &dyn Archive| {
            state.view_content(archive, &self.caller, &self.head.space, queue, content)
        };
        self.edge.node.store().read(look).ok().flatten()
    }

    /// The holder of an item, as far as the caller may see it. None: nobody holds it, or this node cannot tell now.
    fn holder(&self, item: &ItemId) -> Option<Holder> {
        let look = |state: &State, archive: &dyn Archive| {
            state.view_item(archive, &self.caller, &self.head.space, item, IfClaimed::Fail)
        };
        match self.edge.node.store().read(look).ok()? {
            Err(Refusal::AlreadyClaimed(conflict)) => Some(Holder::new(conflict.holder?, self.calendar())),
            _ => None,
        }
    }

    #[must_use]
    pub fn refused(&self, refusal: Refusal) -> Failure {
        let mut problem = Problem::of(refusal, self.calendar());
        let holder = problem.holder.as_ref().and_then(|holder| holder.actor.as_ref());
        if problem.code == Code::AlreadyClaimed && holder == Some(self.actor()) && problem.detail.is_none() {
            problem.detail = Some("you hold this item: send the fencing token of your lease".into());
        }
        problem.into()
    }
}

/// The failure for a call that the gate rejected.
pub(super) fn sent_away(edge: &Edge, shed: Shed) -> Failure {
    edge.metrics.shed(shed.reason);
    let code = if shed.is_actors_own { Code::RateLimited } else { Code::Overloaded };
    let mut problem = Problem::new(code).with_detail(shed_detail(shed.reason));
    let millis = u64::try_from(shed.retry_after.as_millis()).unwrap_or(u64::MAX);
    problem.retry_after_ms = Some(millis.max(1));
    problem.into()
}

/// What a reason of the gate means. The metric `tenure_requests_shed_total` counts by the reason itself.
fn shed_detail(reason: &'static str) -> &'static str {
    match reason {
        "too_many_actors" => "this node already serves its maximum number of active actors",
        "actor_in_flight" => "this actor has too many commands in flight",
        "actor_bytes" => "the commands of this actor that are in flight have too many bytes",
        "in_flight" => "this node has too many commands in flight",
        "bytes" => "the commands that are in flight on this node have too many bytes",
        "actor_rate" => "this actor sends more commands per second than its rate limit",
        "actor_byte_rate" => "this actor writes more bytes per second than its rate limit",
        "space_byte_rate" => "this space writes more bytes per second than its rate limit",
        "actor_share" => "this actor has used more than its share while other actors wait",
        "actor_reading" => "lists and event pages of this actor have taken more time than its rate limit",
        "actor_parked" => "this actor has too many waiting calls or event streams",
        "parked" => "this node has too many waiting calls or event streams",
        other => other,
    }
}

/// A repeated command that was rejected did nothing; the previous attempt may have happened.
pub(super) fn in_doubt(Failure(sent_away): Failure) -> Failure {
    let mut problem = Problem::new(Code::Unknown);
    problem.detail = sent_away.detail;
    problem.retry_after_ms = sent_away.retry_after_ms;
    problem.into()
}

/// The class of a command under overload.
fn class_of(command: &Command) -> Class {
    match command.purpose() {
        Purpose::Keep => Class::Renewal,
        Purpose::End => Class::Finish,
        Purpose::Create => Class::Bulk,
        Purpose::Work => Class::Work,
    }
}

/// The refusals of single entries of a batch.
fn refused_entries(outcome: &Outcome) -> impl Iterator<Item = &Refusal> {
    let (first, second): (&[Outcome], &[Outcome]) = match outcome {
        Outcome::CreatedMany(items) => (items, &[]),
        Outcome::ClaimedMany { claims, releases } => (claims, releases),
        _ => (&[], &[]),
    };
    first.iter().chain(second).filter_map(Outcome::refusal)
}

/// The failure for an outcome that does not belong to its command.
fn unfitting(outcome: &Outcome) -> Failure {
    tracing::error!(?outcome, "outcome does not match its command");
    Code::Internal.into()
}

pub(super) fn unread(no_outcome: NoOutcome) -> Failure {
    // A read changes nothing, so it can always be retried.
    Problem::new(Code::Unavailable).with_detail(no_outcome.to_string()).into()
}

#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
pub(crate) fn failed_disk(error: std::io::Error) -> Failure {
    tracing::error!(%error, "could not read a view from disk");
    Code::Internal.into()
}
