//! A disk that can be stopped.
#![allow(dead_code, reason = "each test uses its part")]

use raft_store::log::BeforeWrite;
use std::sync::{Arc, Condvar, Mutex};

/// Blocks every write of the disk while it is shut.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn shut(&self) {
        *self.0.0.lock().unwrap() = true;
    }

    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = false;
        self.0.1.notify_all();
    }

    pub(crate) fn pass(&self) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |shut| *shut).unwrap());
    }

    /// Declare it after the store, so that it drops first: a failing test must not wait for a writer that waits at the gate.
    pub(crate) fn opened_at_the_end(&self) -> Opened {
        Opened(self.clone())
    }

    pub(crate) fn before_write(&self) -> Option<BeforeWrite> {
        let gate = self.clone();
        Some(Arc::new(move || {
            gate.pass();
            Ok(())
        }))
    }
}

pub(crate) struct Opened(Gate);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.open();
    }
}
