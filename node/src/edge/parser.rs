//! Parses large bodies on one thread of low priority, one after the other. Parsing one takes a core for tens of
//! milliseconds, and several at once would keep small calls waiting for a core.

use rustix::process::setpriority_process;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use tokio::sync::{mpsc, oneshot};

/// As with `nice`: a core that others want goes to them nine times of ten.
const NICENESS: i32 = 10;

type Job = Box<dyn FnOnce() + Send>;

/// Clones share the thread. It ends with the last of them.
#[derive(Clone)]
pub struct Parser(mpsc::Sender<Job>);

impl fmt::Debug for Parser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parser with room for {} more", self.0.capacity())
    }
}

impl Parser {
    /// # Errors
    /// When the thread cannot be started.
    pub fn start() -> io::Result<Self> {
        let (jobs, mut waiting) = mpsc::channel::<Job>(1);
        thread::Builder::new().name("parser".into()).spawn(move || {
            if let Err(error) = setpriority_process(None, NICENESS) {
                tracing::warn!(%error, "large bodies are parsed at the priority of other work");
            }
            while let Some(job) = waiting.blocking_recv() {
                // The caller of a job that panicked gets no result, which is an error there.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        })?;
        Ok(Self(jobs))
    }

    /// Waits for the thread, in order, and runs this on it. A caller that no longer waits costs nothing. None: it
    /// panicked.
    pub(super) async fn run<R: Send + 'static>(&self, parse: impl FnOnce() -> R + Send + 'static) -> Option<R> {
        let (done, parsed) = oneshot::channel();
        let job = move || {
            if !done.is_closed() {
                let _ = done.send(parse());
            }
        };
        self.0.send(Box::new(job)).await.ok()?;
        parsed.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getpriority_process;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn jobs_run_one_at_a_time_at_low_priority() {
        let parser = Parser::start().unwrap();
        let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let job = || {
            let (running, most) = (running.clone(), most.clone());
            parser.run(move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                getpriority_process(None).unwrap()
            })
        };
        let priorities = tokio::join!(job(), job(), job(), job());
        assert_eq!(priorities, (Some(NICENESS), Some(NICENESS), Some(NICENESS), Some(NICENESS)));
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert!(getpriority_process(None).unwrap() < NICENESS, "only that thread has a low priority");
    }

    #[tokio::test]
    async fn a_job_that_panics_has_no_result_and_the_next_one_runs() {
        let parser = Parser::start().unwrap();
        assert_eq!(parser.run(|| -> u8 { panic!("on purpose") }).await, None);
        assert_eq!(parser.run(|| 7).await, Some(7));
    }
}
