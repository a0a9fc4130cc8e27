//! One call: who asks for what, how long it may take, and what becomes of it. Every surface goes through here.

use crate::disk_space::RETRY_AFTER;
use crate::edge::Edge;
use crate::edge::answer::{Age, Failure, Viewed};
use crate::edge::extract::Asking;
use crate::edge::gate::{Admitted, Class, Cost, Entry, Parked, Parking, Shed};
use crate::edge::repeat::Repeat;
use crate::edge::server::Stopping;
use crate::hub::{Waiter, Woken};
use crate::identity::{ClusterRight, Identity, check_cluster_right};
use crate::propose::NoOutcome;
use api::item::Body;
use api::names::Number;
use api::{Calendar, Code, Problem};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use lease::caller::{Caller, QueueScope, Right, Role};
use lease::command::OnConflict;
use lease::disclose::ContentView;
use lease::item::Content;
use lease::names::{ActorId, ItemId};
use lease::numbers::{ItemNo, Revision};
use lease::outcome::{Grant as CoreGrant, ItemSnapshot};
use lease::views::IfClaimed;
use lease::{Archive, Attempt, Command, Outcome, Refusal, Request, State};
use raft_store::types::OnTokio;
use serde::Deserialize;
use std::fmt;
use std::time::{Duration, Instant};
use utoipa::ToSchema;

/// What a call may take, its long poll aside.
pub(super) const CALL_WITHIN: Duration = Duration::from_secs(10);
/// The longest that a call waits for something to happen.
pub const POLL_MAX: Duration = Duration::from_secs(20);
/// For one last look at its place in line.
const PLACE_WITHIN: Duration = Duration::from_millis(500);
/// A repeat that waits longer to be taken is submitted again, older by then: it must not be on its way while the answer to
/// its first attempt is forgotten.
pub(super) const REPEAT_TAKEN_WITHIN: Duration = Duration::from_secs(2);
/// Between two attempts to learn what became of a command.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// How fresh a view has to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// Everything that was acknowledged before the call is in it.
    #[default]
    Linearizable,
    /// As this node has it; the headers say how old that is.
    Local,
}

/// How many bytes of body were read, whatever the head said of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyBytes(pub(super) usize);

/// A request of a caller that is known.
#[derive(Debug)]
pub struct Call {
    pub edge: Edge,
    pub asking: Asking,
    pub caller: Caller,
    /// None: nothing tells when the node stops.
    pub stopping: Option<Stopping>,
    /// Of its body.
    bytes: usize,
}

impl FromRequestParts<Edge> for Call {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Failure> {
        let asking = match parts.extensions.get::<Asking>() {
            Some(asking) => asking.clone(),
            None => Asking::from_request_parts(parts, edge).await?,
        };
        let caller = asking.identity.caller(&asking.space, asking.session.clone());
        let stopping = parts.extensions.get::<Stopping>().cloned();
        let bytes = parts.extensions.get::<BodyBytes>().map_or(0, |read| read.0);
        Ok(Self { edge: edge.clone(), asking, caller, stopping, bytes })
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

    /// The call of one who runs the cluster, with the role that commands of the cluster ask for.
    ///
    /// # Errors
    /// When the caller does not run the cluster.
    pub fn as_admin(mut self) -> Result<Self, Failure> {
        self.check_cluster_right(ClusterRight::Admin)?;
        self.caller.rights = vec![Right { role: Role::Admin, queues: QueueScope::every() }];
        Ok(self)
    }

    /// The call of one who changes the cluster. The log says who asked for what.
    ///
    /// # Errors
    /// When the caller does not run the cluster.
    pub fn as_admin_to(self, what: impl fmt::Display) -> Result<Self, Failure> {
        let call = self.as_admin()?;
        call.log_asked(what);
        Ok(call)
    }

    pub(super) fn check_cluster_right(&self, right: ClusterRight) -> Result<(), Failure> {
        Ok(check_cluster_right(&self.asking.identity, right)?)
    }

    /// Who asked this node to do something with the cluster. What became of it follows in the log.
    pub(super) fn log_asked(&self, what: impl fmt::Display) {
        let Identity { actor, kind, parent, .. } = &*self.asking.identity;
        let parent = parent.as_ref().map(ActorId::as_str);
        tracing::info!(actor = actor.as_str(), ?kind, parent, "asked to {what}");
    }

    /// Whether the caller may see anything in its space.
    ///
    /// # Errors
    /// `forbidden`, whether or not there is such a space.
    pub(super) fn check_sees_space(&self) -> Result<(), Failure> {
        if self.caller.rights.is_empty() {
            return Err(self.refused(Refusal::Forbidden { needs: Role::Reader }));
        }
        Ok(())
    }

    /// The revision that a write goes by: of the body or of `If-Match`.
    ///
    /// # Errors
    /// When they differ.
    pub fn read_at(&self, in_body: Option<Number>) -> Result<Option<Number>, Failure> {
        match (in_body, self.asking.if_match) {
            (Some(body), Some(header)) if body != header => {
                Err(Problem::invalid("read_at", "is not what If-Match says").into())
            }
            (body, header) => Ok(body.or(header)),
        }
    }

    /// Whether a command is well-formed, without carrying it out.
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
            space: self.asking.space.clone(),
            caller: self.caller.clone(),
            request_id: self.asking.request_id.clone(),
            attempt: self.asking.repeat.map_or(Attempt::First, Repeat::attempt),
            command,
        }
    }

    /// Carries out a command, and answers its outcome.
    ///
    /// # Errors
    /// A refusal; or there is no outcome, and whether it may have happened is told apart.
    pub async fn run(&self, command: Command) -> Result<Outcome, Failure> {
        self.run_polling(command, Duration::ZERO).await
    }

    /// As [`Call::run`]; a claim that waits in line is waited for so long, from when it was asked. That it is taken may
    /// take as long as with any other call, however short the poll.
    ///
    /// # Errors
    /// As [`Call::run`].
    pub async fn run_polling(&self, command: Command, poll: Duration) -> Result<Outcome, Failure> {
        let request = self.request(command);
        let checked = lease::validate(&request).and_then(|()| lease::check_new_names(&request));
        checked.map_err(|refusal| self.refused(refusal))?;
        let admitted = self.admit_command(&request).map_err(|failure| self.in_doubt(failure))?;
        // One who waits in line does no work meanwhile.
        if is_waiting(&request.command) {
            let place = admitted.parked(self.actor().as_str(), Parking::Waiter).map_err(|shed| self.sent_away(shed));
            let _place = place.map_err(|failure| self.in_doubt(failure))?;
            return self.answered(request, poll).await;
        }
        let answered = self.answered(request, poll).await;
        // Only what came to an end tells the gate how quick the node is.
        let has_ended = |code| !matches!(code, Code::Unavailable | Code::Unknown | Code::Overloaded);
        if answered.as_ref().err().is_none_or(|Failure(problem)| has_ended(problem.code)) {
            admitted.done();
        }
        answered
    }

    async fn answered(&self, mut request: Request, poll: Duration) -> Result<Outcome, Failure> {
        let poll_by = Instant::now() + poll;
        let by = Instant::now() + poll.max(CALL_WITHIN);
        // An earlier attempt may have happened: what a later one says of itself does not tell.
        let (mut repeat, begun) = (self.asking.repeat, Repeat::after(Duration::ZERO));
        let mut doubt = repeat.map(|_| String::from("nobody could be asked about the attempt before"));
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
                    let why = format!("{what} of {bytes} bytes, at most {max} are taken at once");
                    return Err(Problem::new(Code::TooLarge).with_detail(why).into());
                }
            }
            if left <= ASK_AGAIN {
                return Err(Problem::new(Code::Unknown).with_detail(doubt.unwrap_or_default()).into());
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    /// Room for a view.
    pub(super) fn admit(&self, class: Class, commands: u32) -> Result<Admitted, Failure> {
        let cost = Cost { commands, bytes: self.bytes };
        self.edge.gate.admit(self.actor().as_str(), class, cost).map_err(|shed| self.sent_away(shed))
    }

    /// A batch weighs as much as it does in the memory of requests.
    fn admit_command(&self, request: &Request) -> Result<Admitted, Failure> {
        let commands = u32::try_from(request.command.weight()).unwrap_or(u32::MAX);
        let bytes = lease::encoding::encoded_len(request);
        let entry = Entry { space: request.space.as_str(), bytes };
        let (class, cost) = (class_of(&request.command), Cost { commands, bytes: self.bytes });
        let admitted = self.edge.gate.admit_entry(self.actor().as_str(), class, cost, Some(entry));
        self.edge.node.metrics().command_bytes(if admitted.is_ok() { bytes as u64 } else { 0 });
        admitted.map_err(|shed| self.sent_away(shed))
    }

    /// Room to wait without working.
    ///
    /// # Errors
    /// When too many wait.
    pub fn park(&self, parking: Parking) -> Result<Parked, Failure> {
        self.edge.gate.park(self.actor().as_str(), parking).map_err(|shed| self.sent_away(shed))
    }

    /// Whether lists and event pages may be made for the caller now.
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
        self.edge.node.metrics().shed("disk_space");
        let mut problem = Problem::new(Code::Overloaded).with_detail(why);
        problem.retry_after_ms = u64::try_from(RETRY_AFTER.as_millis()).ok();
        problem.into()
    }

    fn in_doubt(&self, sent_away: Failure) -> Failure {
        if self.asking.repeat.is_none() { sent_away } else { in_doubt(sent_away) }
    }

    /// Looks at the state.
    ///
    /// # Errors
    /// When no leader could be asked in time, or what `look` says.
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

    /// Waits for something to happen, for so long at most, and not while the node stops.
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

    /// Whether whoever waits has to be sent to another node.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.as_ref().is_some_and(Stopping::has_begun)
    }

    /// A command's outcome; a claim that waits in line is answered its place when the node stops.
    async fn outcome(&self, request: &Request, within: Duration, poll: Duration) -> Result<Outcome, NoOutcome> {
        let calling = self.edge.node.call(request.clone(), within, poll);
        match &self.stopping {
            Some(stopping) if is_waiting(&request.command) => {
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

    /// The parts of an item's body, as this node has them.
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

    /// The revision that this node has of an item now, as far as the caller may see it.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn revision_of(&self, id: &ItemId) -> Result<Option<Revision>, Failure> {
        let look = |state: &State, archive: &dyn Archive| {
            let view = state.view_item(archive, &self.caller, &self.asking.space, id, IfClaimed::Return);
            view.ok().map(|view| view.revision)
        };
        self.edge.node.store().read(look).map_err(failed_disk)
    }

    /// Leases as their holder sees them, with the bodies of their items. A lease is told also where its body cannot be
    /// read now: what was granted is the caller's, and the body can be asked for.
    pub async fn grants(&self, grants: Vec<CoreGrant>) -> Vec<api::claim::Grant> {
        // The leader has applied what it answers; this node may not have yet, and would know of no body and no link.
        let is_simple = |grant: &CoreGrant| {
            grant.snapshot.as_ref().is_none_or(|snapshot| {
                let content = &snapshot.content;
                content.parts.iter().next().is_none() && content.links.is_none() && self.content(snapshot).is_some()
            })
        };
        if !self.edge.node.raft().is_leader() && !grants.iter().all(is_simple) {
            let _ = self.edge.node.read(CALL_WITHIN, |_, _| ()).await;
        }
        let calendar = self.calendar();
        let mut show = |snapshot: &ItemSnapshot| {
            let content = self.content(snapshot)?;
            let body = self.body(snapshot.no, &content).ok().flatten();
            Some((content, body))
        };
        grants.into_iter().map(|grant| api::claim::Grant::new(grant, calendar, &mut show)).collect()
    }

    /// What a grant shows of its item. None: this node does not know the item's queue yet, or the disk fails.
    fn content(&self, snapshot: &ItemSnapshot) -> Option<ContentView> {
        let ItemSnapshot { queue, content, .. } = snapshot;
        let look = |state: &State, archive: &dyn Archive| {
            state.view_content(archive, &self.caller, &self.asking.space, queue, content)
        };
        self.edge.node.store().read(look).ok().flatten()
    }

    /// # Errors
    /// Never: one goes in, one comes out.
    pub async fn grant(&self, grant: CoreGrant) -> Result<api::claim::Grant, Failure> {
        let grant = self.grants(vec![grant]).await.pop();
        grant.ok_or_else(|| Code::Internal.into())
    }

    #[must_use]
    pub fn refused(&self, refusal: Refusal) -> Failure {
        let mut problem = Problem::of(refusal, self.calendar());
        let holder = problem.holder.as_ref().and_then(|holder| holder.actor.as_ref());
        if problem.code == Code::AlreadyClaimed && holder == Some(self.actor()) && problem.detail.is_none() {
            problem.detail = Some("by yourself: name the token of your lease".into());
        }
        problem.into()
    }
}

/// The gate let nothing in.
pub(super) fn sent_away(edge: &Edge, shed: Shed) -> Failure {
    edge.node.metrics().shed(shed.reason);
    let code = if shed.is_actors_own { Code::RateLimited } else { Code::Overloaded };
    let mut problem = Problem::new(code).with_detail(shed.reason.replace('_', " "));
    let millis = u64::try_from(shed.retry_after.as_millis()).unwrap_or(u64::MAX);
    problem.retry_after_ms = Some(millis.max(1));
    problem.into()
}

/// A repeated command that was sent away did nothing; the attempt before it may have.
pub(super) fn in_doubt(Failure(sent_away): Failure) -> Failure {
    let mut problem = Problem::new(Code::Unknown);
    problem.detail = sent_away.detail;
    problem.retry_after_ms = sent_away.retry_after_ms;
    problem.into()
}

/// What a command is to others when there is too much to do.
fn class_of(command: &Command) -> Class {
    match command {
        Command::Renew(_) | Command::RenewAll(_) | Command::Extend(_) => Class::Renewal,
        Command::Release(_)
        | Command::Reserve(_)
        | Command::Withdraw { .. }
        | Command::HandOn(_)
        | Command::Complete(_)
        | Command::Fail(_)
        | Command::Cancel(_) => Class::Finish,
        Command::Create(_) | Command::CreateMany(_) => Class::Bulk,
        Command::Claim(_)
        | Command::ClaimMany(_)
        | Command::Next(_)
        | Command::Reorder { .. }
        | Command::Revoke(_)
        | Command::Assign { .. }
        | Command::Unassign { .. }
        | Command::Update(_)
        | Command::Activity(_)
        | Command::AwaitInput(_)
        | Command::Resume(_)
        | Command::Reopen { .. }
        | Command::Retry { .. }
        | Command::SetPolicy(_)
        | Command::Pause { .. }
        | Command::Unpause { .. }
        | Command::Drain { .. }
        | Command::SetSpacePolicy(_)
        | Command::RegisterWorker(_)
        | Command::DrainWorker { .. }
        | Command::RemoveWorker { .. }
        | Command::BeginEpoch { .. }
        | Command::BeginEpochAcceptingClock { .. }
        | Command::Activate
        | Command::RaiseRules { .. } => Class::Work,
    }
}

fn is_waiting(command: &Command) -> bool {
    matches!(command, Command::Claim(claim) if claim.on_conflict != OnConflict::Fail)
}

/// The command was answered by something that is no answer to it.
#[must_use]
pub fn unfitting(outcome: &Outcome) -> Failure {
    tracing::error!(?outcome, "an outcome that does not fit its command");
    Code::Internal.into()
}

pub(super) fn unread(no_outcome: NoOutcome) -> Failure {
    // A read changes nothing: it can always be asked again.
    Problem::new(Code::Unavailable).with_detail(no_outcome.to_string()).into()
}

#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
pub(crate) fn failed_disk(error: std::io::Error) -> Failure {
    tracing::error!(%error, "a view could not be read");
    Code::Internal.into()
}
