//! What an operator wants to know later: who asked for a change of the cluster, and who was refused. Refusals are told
//! at most every ten seconds of each kind, with how many there were: no caller fills a log.

use crate::edge::server::Peer;
use crate::throttle::Throttle;
use std::sync::{Mutex, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Audit {
    unknown: Mutex<Throttle>,
    forbidden: Mutex<Throttle>,
}

impl Audit {
    /// A caller showed no credential, or one that this node does not know.
    pub(crate) fn unknown_caller(&self, peer: Option<&Peer>) {
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
