//! Logs callers that were refused. Each kind is logged at most every ten seconds, with the number of refusals, so that
//! no caller can fill the log.

use crate::edge::remote::Remote;
use crate::net::throttle::Throttle;
use std::sync::{Mutex, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Audit {
    unknown: Mutex<Throttle>,
    forbidden: Mutex<Throttle>,
}

impl Audit {
    /// A caller sent no credential, or one that this node does not know.
    pub(crate) fn unknown_caller(&self, peer: Option<&Remote>) {
        let address = peer.map(|peer| peer.address.ip().to_canonical());
        say(&self.unknown, |times| tracing::warn!(times, ?address, "a caller was refused: unauthenticated"));
    }

    /// A caller lacks a right.
    pub(crate) fn forbidden(&self, actor: &str, operation: Option<&str>) {
        say(&self.forbidden, |times| tracing::warn!(times, actor, operation, "a caller was refused: forbidden"));
    }
}

fn say(throttle: &Mutex<Throttle>, line: impl FnOnce(u64)) {
    throttle.lock().unwrap_or_else(PoisonError::into_inner).say(line);
}
