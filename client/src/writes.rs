//! Writes under a lease, and calls that end the work.

use crate::Client;
use crate::call::Call;
use crate::path::Path;
use api::write::{Activity, AwaitInput, Complete, Fail, HandOn, Moved, Resume};
use lease::names::ItemId;

impl Client {
    /// Reports progress to observers.
    pub fn activity(&self, id: &ItemId, activity: &Activity) -> Call<Moved> {
        Call::post(self, Path::item(id).verb("activity"), activity)
    }

    /// Reports that the work waits for input. The lease continues.
    pub fn await_input(&self, id: &ItemId, await_input: &AwaitInput) -> Call<Moved> {
        Call::post(self, Path::item(id).verb("await_input"), await_input)
    }

    /// Resumes the work after waiting for input.
    pub fn resume(&self, id: &ItemId, resume: &Resume) -> Call<Moved> {
        Call::post(self, Path::item(id).verb("resume"), resume)
    }

    /// Ends the lease and queues the item in the next phase.
    pub fn hand_on(&self, id: &ItemId, hand_on: &HandOn) -> Call<Moved> {
        Call::post(self, Path::item(id).verb("hand_on"), hand_on)
    }

    pub fn complete(&self, id: &ItemId, complete: &Complete) -> Call<Moved> {
        Call::post(self, Path::item(id).verb("complete"), complete)
    }

    /// Fails an item: it is queued again after its backoff, unless the failure is final.
    pub fn fail(&self, id: &ItemId, fail: &Fail) -> Call<Moved> {
        Call::post(self, Path::item(id).verb("fail"), fail)
    }
}
