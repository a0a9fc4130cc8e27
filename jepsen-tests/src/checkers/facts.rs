//! The certain facts of a history, derived once for all checkers: the grants with their earliest possible and latest
//! known times, what may have ended them, and the events in the cluster's own order.

use super::ends::Ends;
use super::promise::Promises;
use super::stream::Stream;
use crate::history::{Asked, History, Micros, Operation, Outcome, QueueSet};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The index of an operation in the history.
pub type OpNo = usize;
/// The number of an item, by its first mention.
pub type ItemNo = usize;
/// The number of an actor in one of its sessions, by its first mention.
pub type HolderNo = usize;

/// An event's number, `epoch.number`, which is also a revision.
pub type Number = (u32, u64);

#[derive(Debug)]
pub struct Facts<'h> {
    pub history: &'h History,
    pub items: Vec<&'h str>,
    pub holders: Vec<Holder<'h>>,
    /// The item and the holder of each operation.
    pub item_of: Vec<Option<ItemNo>>,
    pub holder_of: Vec<HolderNo>,
    /// The operations that name an item, in the order of their start; also calls of `next` that granted it.
    pub of_item: Vec<Vec<OpNo>>,
    /// The operations under one request id of one holder, in the order of their start.
    pub requests: Vec<Vec<OpNo>>,
    pub request_of: Vec<Option<usize>>,
    /// In the order of their tokens.
    pub grants: Vec<Grant>,
    /// The grants of each item, in the order of their tokens.
    pub grants_of: Vec<Vec<usize>>,
    /// Tokens that were answered to two holders, or for two items: the first grant, and the other.
    pub doubles: Vec<(Grant, Grant)>,
    pub stream: Stream<'h>,
    pub ends: Ends,
    pub promises: Promises,
    queue_of: Vec<Option<&'h QueueSet>>,
    by_token: HashMap<u64, usize>,
    item_nos: HashMap<&'h str, ItemNo>,
    holder_nos: HashMap<Holder<'h>, HolderNo>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder<'h> {
    pub actor: &'h str,
    pub session: Option<&'h str>,
}

impl std::fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.actor)?;
        self.session.map_or(Ok(()), |session| write!(f, "/{session}"))
    }
}

/// One lease, as far as answers and events show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub token: u64,
    pub item: ItemNo,
    pub holder: HolderNo,
    /// The earliest request for it; 0 if unknown.
    pub asked: Micros,
    /// It was granted after this moment.
    pub lower: Micros,
    /// It was granted before this moment.
    pub upper: Micros,
    /// Until then nobody else may have it, by the latest of all promises (`promise` computes the effect of faults).
    pub promised: Option<Micros>,
    /// The answer with that promise.
    pub promised_by: Option<OpNo>,
    /// The first answer that contains the grant.
    pub told_by: Option<OpNo>,
    /// Whether an answer granted it, rather than reporting a lease already held.
    pub is_answered: bool,
    pub was_next: bool,
    /// Its position in the stream.
    pub event: Option<usize>,
}

impl<'h> Facts<'h> {
    #[must_use]
    pub fn new(history: &'h History) -> Self {
        let mut facts = Self {
            history,
            items: Vec::new(),
            holders: Vec::new(),
            item_of: Vec::with_capacity(history.operations.len()),
            holder_of: Vec::with_capacity(history.operations.len()),
            of_item: Vec::new(),
            requests: Vec::new(),
            request_of: Vec::with_capacity(history.operations.len()),
            grants: Vec::new(),
            grants_of: Vec::new(),
            doubles: Vec::new(),
            stream: Stream::default(),
            ends: Ends::default(),
            promises: Promises::new(history),
            queue_of: Vec::new(),
            by_token: HashMap::new(),
            item_nos: HashMap::new(),
            holder_nos: HashMap::new(),
        };
        facts.index_operations();
        facts.stream = Stream::new(&mut facts);
        facts.collect_grants();
        facts.bound_grants();
        facts.collect_promises();
        let mut stream = std::mem::take(&mut facts.stream);
        stream.reckon(&facts);
        facts.stream = stream;
        facts.lift_grants();
        facts.ends = Ends::new(&facts);
        facts.queue_of = (0..facts.items.len()).map(|item| facts.find_queue(item)).collect();
        facts
    }

    #[must_use]
    pub fn op(&self, op: OpNo) -> &'h Operation {
        &self.history.operations[op]
    }

    pub fn ops(&self) -> impl Iterator<Item = (OpNo, &'h Operation)> + use<'h> {
        self.history.operations.iter().enumerate()
    }

    #[must_use]
    pub fn grant(&self, token: u64) -> Option<&Grant> {
        self.by_token.get(&token).map(|at| &self.grants[*at])
    }

    /// The operation took effect after this moment: when it was first requested under its request id.
    #[must_use]
    pub fn begin(&self, op: OpNo) -> Micros {
        let first = self.request_of[op].map(|request| self.op(self.requests[request][0]).invoked);
        first.map_or(self.op(op).invoked, |first| first.min(self.op(op).invoked))
    }

    /// The operation has no effect after this moment: the time of its answer, or of an answer to a retry. `None`: it
    /// may still take effect.
    #[must_use]
    pub fn end(&self, op: OpNo) -> Option<Micros> {
        match self.op(op).outcome {
            Outcome::Ok(_) | Outcome::Refused { .. } => self.op(op).completed,
            Outcome::Unavailable => Some(self.op(op).completed.unwrap_or(self.op(op).invoked)),
            Outcome::Unknown => {
                let group = &self.requests[self.request_of[op]?];
                let answer = |other: &&OpNo| matches!(self.op(**other).outcome, Outcome::Ok(_));
                group.iter().filter(answer).filter_map(|other| self.op(*other).completed).min()
            }
        }
    }

    /// It took effect, or may have.
    #[must_use]
    pub fn may_have_happened(&self, op: OpNo) -> bool {
        matches!(self.op(op).outcome, Outcome::Ok(_) | Outcome::Unknown)
    }

    #[must_use]
    pub fn item_no(&self, item: &str) -> Option<ItemNo> {
        self.item_nos.get(item).copied()
    }

    pub fn item(&mut self, item: &'h str) -> ItemNo {
        match self.item_nos.entry(item) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.items.push(item);
                self.of_item.push(Vec::new());
                *new.insert(self.items.len() - 1)
            }
        }
    }

    pub fn holder(&mut self, actor: &'h str, session: Option<&'h str>) -> HolderNo {
        let holder = Holder { actor, session };
        *self.holder_nos.entry(holder).or_insert_with(|| {
            self.holders.push(holder);
            self.holders.len() - 1
        })
    }

    #[must_use]
    pub fn is_same_actor(&self, one: HolderNo, other: HolderNo) -> bool {
        self.holders[one].actor == self.holders[other].actor
    }

    /// The settings of an item's queue; `None` if unknown or default.
    #[must_use]
    pub fn queue_of(&self, item: ItemNo) -> Option<&'h QueueSet> {
        self.queue_of[item]
    }

    fn find_queue(&self, item: ItemNo) -> Option<&'h QueueSet> {
        let queues = &self.history.about.queues;
        let created = self.of_item[item].iter().find_map(|no| match &self.op(*no).asked {
            Asked::Create { queue, .. } => Some(queue.as_str()),
            _ => None,
        });
        let in_stream = || {
            let at = self.stream.of_item.get(item)?.first()?;
            Some(self.stream.events[*at].event.queue.as_ref()?.as_str())
        };
        match created.or_else(in_stream) {
            Some(name) => queues.iter().find(|set| set.queue == name),
            None => queues.first().filter(|_| queues.len() == 1),
        }
    }

    /// The item was reopened, or its line was reordered: checks that assume neither skip it.
    #[must_use]
    pub fn has_event(&self, item: ItemNo, kinds: &[&str]) -> bool {
        let places = self.stream.of_item.get(item).map_or(&[][..], Vec::as_slice);
        places.iter().any(|at| kinds.contains(&self.stream.events[*at].kind))
    }

    /// The next known grant of the item.
    #[must_use]
    pub fn next_grant(&self, grant: &Grant) -> Option<&Grant> {
        let all = &self.grants_of[grant.item];
        let behind = all.partition_point(|at| self.grants[*at].token <= grant.token);
        all.get(behind).map(|at| &self.grants[*at])
    }

    fn index_operations(&mut self) {
        let mut groups: HashMap<(HolderNo, &'h str), usize> = HashMap::new();
        for (no, op) in self.ops() {
            let holder = self.holder(&op.actor, op.session.as_deref());
            self.holder_of.push(holder);
            let item = op.asked.item().map(|item| self.item(item));
            self.item_of.push(item);
            if let Some(item) = item {
                self.of_item[item].push(no);
            }
            if let (Asked::Next { .. }, Some(answered)) = (&op.asked, op.answered()) {
                for granted in &answered.grants {
                    let item = self.item(&granted.item);
                    self.of_item[item].push(no);
                }
            }
            let request = op.request_id.as_deref().map(|id| {
                *groups.entry((holder, id)).or_insert_with(|| {
                    self.requests.push(Vec::new());
                    self.requests.len() - 1
                })
            });
            self.request_of.push(request);
            if let Some(request) = request {
                self.requests[request].push(no);
            }
        }
        let by_invocation = |no: &OpNo| self.history.operations[*no].invoked;
        for all in self.of_item.iter_mut().chain(&mut self.requests) {
            if !all.is_sorted_by_key(by_invocation) {
                all.sort_by_key(by_invocation);
            }
        }
    }

    fn collect_grants(&mut self) {
        for (no, op) in self.ops() {
            let Some(answered) = op.answered() else { continue };
            for granted in &answered.grants {
                let item = self.item(&granted.item);
                self.add(Grant {
                    token: granted.token,
                    item,
                    holder: self.holder_of[no],
                    asked: 0,
                    lower: 0,
                    upper: op.completed.unwrap_or(Micros::MAX),
                    promised: None,
                    promised_by: None,
                    told_by: Some(no),
                    is_answered: !granted.renewed,
                    was_next: matches!(op.asked, Asked::Next { .. }),
                    event: None,
                });
            }
        }
        for at in 0..self.stream.events.len() {
            let event = &self.stream.events[at];
            let (Some(token), Some(item), Some(holder), "granted") =
                (event.token, event.item, event.holder, event.kind)
            else {
                continue;
            };
            let seen = event.seen;
            self.add(Grant {
                token,
                item,
                holder,
                asked: 0,
                lower: 0,
                upper: seen,
                promised: None,
                promised_by: None,
                told_by: None,
                is_answered: false,
                was_next: false,
                event: Some(at),
            });
        }
        self.grants.sort_by_key(|grant| grant.token);
        self.by_token = self.grants.iter().enumerate().map(|(at, grant)| (grant.token, at)).collect();
        self.grants_of = vec![Vec::new(); self.items.len()];
        for (at, grant) in self.grants.iter().enumerate() {
            self.grants_of[grant.item].push(at);
        }
    }

    fn add(&mut self, new: Grant) {
        match self.by_token.entry(new.token) {
            Entry::Vacant(first) => {
                first.insert(self.grants.len());
                self.grants.push(new);
            }
            Entry::Occupied(known) => {
                let grant = &mut self.grants[*known.get()];
                if (grant.item, grant.holder) != (new.item, new.holder) {
                    self.doubles.push((grant.clone(), new));
                    return;
                }
                grant.upper = grant.upper.min(new.upper);
                grant.told_by = grant.told_by.or(new.told_by);
                grant.is_answered |= new.is_answered;
                grant.was_next |= new.was_next;
                grant.event = grant.event.or(new.event);
            }
        }
    }

    /// Computes the earliest possible time of each grant. A claim may have waited in line since it was first requested,
    /// and a claim of unknown outcome may be in line so that a later claim finds it.
    fn bound_grants(&mut self) {
        /// The claims that a holder may have in a line.
        #[derive(Clone, Copy)]
        struct Places {
            told: Micros,
            loose: Micros,
        }
        let mut lowers: Vec<(u64, Micros)> = Vec::new();
        let mut places: HashMap<HolderNo, Places> = HashMap::new();
        for all in &self.of_item {
            places.clear();
            for no in all {
                let op = self.op(*no);
                let of = places.entry(self.holder_of[*no]).or_insert(Places { told: Micros::MAX, loose: Micros::MAX });
                match (&op.asked, &op.outcome) {
                    (Asked::Claim { .. }, Outcome::Ok(answered)) => {
                        for granted in answered.grants.iter().filter(|granted| !granted.renewed) {
                            lowers.push((granted.token, self.begin(*no).min(of.told).min(of.loose)));
                            of.told = Micros::MAX;
                        }
                        if answered.place.is_some() {
                            of.told = of.told.min(self.begin(*no));
                        }
                    }
                    (Asked::Claim { waits: true, .. }, Outcome::Unknown) => of.loose = of.loose.min(op.invoked),
                    (Asked::Next { .. }, Outcome::Ok(answered)) => {
                        lowers.extend(answered.grants.iter().map(|granted| (granted.token, self.begin(*no))));
                    }
                    // A withdrawal that came too late may have left a grant for a later claim to find.
                    (Asked::Withdraw { .. }, Outcome::Ok(answered)) if answered.did == Some(true) => {
                        of.told = Micros::MAX
                    }
                    _ => {}
                }
            }
        }
        // For one request id the first request counts, and of several answers the earliest.
        lowers.sort_unstable();
        lowers.dedup_by_key(|(token, _)| *token);
        for (token, lower) in lowers {
            if let Some(at) = self.by_token.get(&token) {
                let grant = &mut self.grants[*at];
                grant.lower = lower.min(grant.upper);
                grant.asked = grant.lower;
            }
        }
    }

    /// An event in the stream happened after everything before it was requested.
    fn lift_grants(&mut self) {
        for grant in &mut self.grants {
            let not_before = grant.event.map_or(0, |at| self.stream.not_before[at]);
            grant.lower = grant.lower.max(not_before).min(grant.upper);
        }
    }

    fn collect_promises(&mut self) {
        for (no, op) in self.ops() {
            let Some(answered) = op.answered() else { continue };
            let holder = self.holder_of[no];
            let promise = |facts: &mut Self, token: u64, item: Option<ItemNo>, millis: u64| {
                // The answer to a retry reports 0 for a lease that is over by then.
                let Some(at) = facts.by_token.get(&token).filter(|_| millis > 0) else { return };
                let until = answered.sent.saturating_add(millis.saturating_mul(1_000));
                let until = facts.promises.end(answered.sent, until);
                let grant = &mut facts.grants[*at];
                if (Some(grant.item), grant.holder) == (item, holder) && grant.promised.is_none_or(|old| old < until) {
                    (grant.promised, grant.promised_by) = (Some(until), Some(no));
                }
            };
            for granted in &answered.grants {
                let item = self.item_no(&granted.item);
                promise(self, granted.token, item, granted.expires_in_ms);
            }
            if let (Asked::Renew { token, .. } | Asked::Extend { token, .. }, Some(millis)) =
                (&op.asked, answered.expires_in_ms)
            {
                promise(self, *token, self.item_of[no], millis);
            }
        }
    }
}

/// A revision as a number.
#[must_use]
pub fn number(text: &str) -> Option<Number> {
    let (epoch, number) = text.split_once('.')?;
    Some((epoch.parse().ok()?, number.parse().ok()?))
}

/// The fencing token in the request of an operation.
#[must_use]
pub fn token_of(asked: &Asked) -> Option<u64> {
    match asked {
        Asked::Renew { token, .. }
        | Asked::Extend { token, .. }
        | Asked::Release { token, .. }
        | Asked::Complete { token, .. }
        | Asked::Fail { token, .. }
        | Asked::Reserve { token, .. }
        | Asked::HandOn { token, .. }
        | Asked::Write { token, .. } => Some(*token),
        Asked::Update { token, .. } => *token,
        _ => None,
    }
}
