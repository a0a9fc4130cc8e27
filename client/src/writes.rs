//! Writing under a lease, and the ends of work.

use crate::Client;
use crate::call::Call;
use crate::path::Path;
use api::write::{Activity, AwaitInput, Complete, Fail, HandOn, Moved, Resume};
use lease::names::ItemId;

impl Client {
    /// Tells observers of progress.
    pub fn activity(&self, id: &ItemId, activity: &Activity) -> Call<Moved> {
        Call::post(self, Path::item(id).verb("activity"), activity)
    }

    /// Waits for somebody's word. The lease goes on.
    pub fn await_input(&self, id: &ItemId, await_input: &AwaitInput) -> Call<Moved> {
        Call::post(self, Path::item(id).verb("await_input"), await_input)
    }

    /// Goes on after waiting for somebody's word.
    pub fn resume(&self, id: &ItemId, resume: &Resume) -> Call<Moved> {
        Call::post(self, Path::item(id).verb("resume"), resume)
    }

    /// The lease ends and the item is queued in the next phase.
    pub fn hand_on(&self, id: &ItemId, hand_on: &HandOn) -> Call<Moved> {
        Call::post(self, Path::item(id).verb("hand_on"), hand_on)
    }

    pub fn complete(&self, id: &ItemId, complete: &Complete) -> Call<Moved> {
        Call::post(self, Path::item(id).verb("complete"), complete)
    }

    /// Queued again after its backoff, unless it is final.
    pub fn fail(&self, id: &ItemId, fail: &Fail) -> Call<Moved> {
        Call::post(self, Path::item(id).verb("fail"), fail)
    }
}
