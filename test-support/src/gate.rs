//! A disk that can be stopped.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

/// Blocks every write of the disk while it is shut.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn shut(&self) {
        *self.0.0.lock().unwrap() = true;
    }

    pub fn open(&self) {
        *self.0.0.lock().unwrap() = false;
        self.0.1.notify_all();
    }

    pub fn pass(&self) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |shut| *shut).unwrap());
    }

    /// Declare it after the store, so that it drops first: a failing test must not wait for a writer that waits at the gate.
    pub fn opened_at_the_end(&self) -> Opened {
        Opened(self.clone())
    }

    /// For the settings of a log, which calls this before each write.
    pub fn before_write(&self) -> Option<Arc<dyn Fn() -> io::Result<()> + Send + Sync>> {
        let gate = self.clone();
        Some(Arc::new(move || {
            gate.pass();
            Ok(())
        }))
    }
}

/// Opens its gate when it is dropped.
#[derive(Debug)]
pub struct Opened(Gate);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.open();
    }
}
