//! Commands about the cluster itself: beginning an epoch after a restore, activation, and raising the rules.

use super::Step;
use crate::bounds::{EPOCH_ORIGIN_MS, EPOCH_SHIFT, RETRY_HINT, TOKEN_LIMIT};
use crate::event::What;
use crate::numbers::{Epoch, ItemNo, QueueNo, SpaceNo, Token};
use crate::outcome::Outcome;
use crate::refusal::{NotReady, Refusal};

impl Step<'_> {
    /// The first entry of a restored backup. Its tokens must be above all tokens that the backup's cluster minted, also
    /// after the backup. The clock ensures this: a cluster with a correct clock mints fewer than a million a second,
    /// and this epoch starts at the time of the restore. So the same backup restored twice never repeats a token.
    ///
    /// If the clock is not later than the newest time in the backup, either this clock or the backup's was wrong. With
    /// `accepts_clock` an operator confirms that this one is right. Tokens then also rise above those in the backup.
    pub(super) fn begin_epoch(&mut self, floor: Option<Token>, accepts_clock: bool) -> Result<Outcome, Refusal> {
        let refused = |why: &str| Err(Refusal::RestoreRefused { why: why.into() });
        let seconds = self.wall.0.saturating_sub(EPOCH_ORIGIN_MS) / 1_000;
        let Ok(mut epoch) = u32::try_from(seconds).map(Epoch) else {
            return refused("the wall clock is too far in the future");
        };
        if self.wall <= self.newest_wall_before && !accepts_clock {
            return refused("the wall clock is not later than the newest time in the backup");
        }
        if epoch <= self.state.meta.epoch {
            let Some(next) = self.state.meta.epoch.0.checked_add(1).filter(|_| accepts_clock) else {
                return refused("an epoch of this second or a later one has begun already");
            };
            epoch = Epoch(next);
        }
        let tokens_above = Token((seconds << EPOCH_SHIFT).max(floor.map_or(0, |floor| floor.0)));
        if tokens_above <= self.state.meta.last_token {
            return refused("the token counter would not rise; pass a higher token floor");
        }
        if tokens_above.0 >= TOKEN_LIMIT / 2 {
            return refused("the token floor leaves too few tokens");
        }
        self.state.meta.epoch = epoch;
        self.state.meta.newest_wall = self.wall;
        self.state.meta.last_token = tokens_above;
        self.state.meta.activated = false;
        self.state.meta.voiding = Some((QueueNo(0), ItemNo(0)));
        self.note_work_everywhere();
        self.emit_everywhere(&What::EpochBegun { epoch });
        Ok(Outcome::EpochBegun { epoch, tokens_above })
    }

    /// Leases are granted again from now on.
    pub(super) fn activate(&mut self) -> Result<Outcome, Refusal> {
        if self.state.meta.voiding.is_some() {
            return Err(Refusal::NotReady(NotReady { retry_after: Some(RETRY_HINT), ..NotReady::default() }));
        }
        if !self.state.meta.activated {
            self.state.meta.activated = true;
            self.note_work_everywhere();
            self.emit_everywhere(&What::Activated);
        }
        Ok(Outcome::Activated)
    }

    /// Proposed once every member supports the version. A node that does not support it must not apply this entry.
    pub(super) fn raise_rules(&mut self, version: u32) -> Result<Outcome, Refusal> {
        let known = self.state.known_rules;
        if version > known || version < self.state.meta.rules_version {
            let current = self.state.meta.rules_version;
            let why = format!("the rules are at version {current}, and this build supports versions up to {known}");
            return Err(Refusal::invalid("version", why));
        }
        self.state.meta.rules_version = version;
        Ok(Outcome::RulesRaised { version })
    }

    fn emit_everywhere(&mut self, what: &What) {
        for space in 0..self.state.spaces.len() {
            let no = SpaceNo(u32::try_from(space).expect("a space number"));
            self.emit(no, None, what.clone());
        }
    }

    fn note_work_everywhere(&mut self) {
        for queue in self.state.queues.numbers() {
            self.state.note_work(queue);
            self.state.openings.note_queue(queue);
        }
    }
}
