//! One node itself: whether it lives and serves, and what is done to it alone. Asked there and nowhere else.

use crate::call::{Call, Effect};
use crate::endpoint::Endpoint;
use crate::path::{Path, Query};
use crate::{Client, Error, retry};
use api::cluster::{NodeDraining, Restored, Snapshotted};
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt as _};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::Method;
use hyper::body::Frame;
use serde::Deserialize;
use std::io;

/// One node of those that the client knows, or any other.
#[derive(Clone, Debug)]
pub struct Node {
    client: Client,
    endpoint: Endpoint,
}

/// How a backup is restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restore {
    /// Only tokens above this one are given out.
    pub token_floor: Option<u64>,
    /// Also if the node's clock is not later than the newest time in the backup: somebody has checked that it is right.
    pub accept_clock: bool,
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Fine,
    /// With why.
    Not(String),
}

#[derive(Deserialize)]
struct Told {
    ok: bool,
    #[serde(default)]
    why: Option<String>,
    /// For those who have a right for the cluster.
    #[serde(default)]
    detail: Option<String>,
}

impl Client {
    #[must_use]
    pub fn node(&self, endpoint: Endpoint) -> Node {
        Node { client: self.clone(), endpoint }
    }
}

impl Node {
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn here<T>(&self, call: Call<T>) -> Call<T> {
        call.set(|ask| ask.only_at = Some(self.endpoint.clone()))
    }

    /// Whether the process can go on as it is.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn health(&self) -> Result<Health, Error> {
        self.told("/healthz").await
    }

    /// Whether callers should be sent there.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn readiness(&self) -> Result<Health, Error> {
        self.told("/readyz").await
    }

    async fn told(&self, path: &str) -> Result<Health, Error> {
        let reply = self.here(Call::<()>::get(&self.client, Path::new(path)).set(|ask| ask.says_how_it_is = true));
        let reply = reply.reply().await?;
        let told: Told = serde_json::from_slice(&reply.body)
            .map_err(|error| Error::Invalid(format!("{} says what is not understood: {error}", self.endpoint)))?;
        let why = || [told.why, told.detail].into_iter().flatten().collect::<Vec<_>>().join(": ");
        Ok(if told.ok { Health::Fine } else { Health::Not(why()) })
    }

    /// In the text format of Prometheus.
    ///
    /// # Errors
    /// When it does not answer, or this is not for the caller.
    pub async fn metrics(&self) -> Result<String, Error> {
        let reply = self.here(Call::<()>::get(&self.client, Path::new("/metrics"))).reply().await?;
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }

    /// Takes a snapshot of its state.
    pub fn snapshot(&self) -> Call<Snapshotted> {
        self.here(Call::bare(&self.client, Method::POST, Path::new("/v1/cluster/snapshot")))
    }

    /// It hands leadership over and takes no more commands.
    pub fn drain(&self) -> Call<NodeDraining> {
        self.here(self.flip("/v1/cluster/drain"))
    }

    pub fn undrain(&self) -> Call<NodeDraining> {
        self.here(self.flip("/v1/cluster/undrain"))
    }

    /// Sends a backup to a node that waits for one (`tenured --await-restore`): it becomes the first of a new cluster. Sent
    /// once and never again by itself, for however long it takes.
    ///
    /// # Errors
    /// See [`Error`]: after `Unknown` the node itself says whether it still waits.
    pub async fn restore<S>(&self, backup: S, how: Restore) -> Result<Restored, Error>
    where
        S: Stream<Item = io::Result<Bytes>> + Send + 'static,
    {
        let accept_clock = how.accept_clock.then_some(true);
        let query = Query::default().say("token_floor", how.token_floor).say("accept_clock", accept_clock);
        let path = Path::new("/v1/cluster/restore").with(query).into_string();
        let body = StreamBody::new(backup.map_ok(Frame::data)).boxed_unsync();
        let body = retry::upload(&self.client, &self.endpoint, &path, body).await?;
        serde_json::from_slice(&body).map_err(|error| {
            let why = format!("the answer is not understood: {error}");
            Error::Unknown { why, request_id: String::new() }
        })
    }

    /// However often.
    fn flip(&self, path: &str) -> Call<NodeDraining> {
        Call::bare(&self.client, Method::POST, Path::new(path)).set(|ask| ask.effect = Effect::Same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, Says};
    use api::Code;
    use futures_util::stream;
    use serde_json::json;

    async fn restored(says: Says) -> (Result<Restored, Error>, usize) {
        let fake = Fake::new([says]);
        let client = fake.client(&["a", "b"]);
        let node = client.node(client.endpoints()[1].clone());
        let backup = stream::iter(["1", "23"].map(|piece| Ok(Bytes::from(piece))));
        let restored = node.restore(backup, Restore { token_floor: Some(7), accept_clock: true }).await;
        let asked = fake.log();
        if let Some(asked) = asked.first().filter(|asked| asked.what != "refused") {
            assert_eq!((asked.host.as_str(), asked.body.as_u64()), ("b", Some(123)));
            assert_eq!(asked.what, "POST /v1/cluster/restore?token_floor=7&accept_clock=true");
        }
        (restored, asked.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_restore_is_sent_to_one_node_and_never_again() {
        let says = json!({"node": 1, "cluster": "ab", "from_cluster": "cd", "applied": 9});
        let (done, asked) = restored(Says::Ok(says)).await;
        assert_eq!((done.unwrap().applied, asked), (9, 1));
        let (refused, asked) = restored(Says::Problem(Code::RestoreRefused)).await;
        assert_eq!((refused.unwrap_err().code(), asked), (Some(Code::RestoreRefused), 1));
        let (away, asked) = restored(Says::Refuses).await;
        assert!(matches!((away, asked), (Err(Error::Unavailable { .. }), 1)));
        let (busy, asked) = restored(Says::Problem(Code::Unavailable)).await;
        assert!(matches!((busy, asked), (Err(Error::Unavailable { .. }), 1)));
        let (lost, asked) = restored(Says::Drops).await;
        assert!(matches!((lost, asked), (Err(Error::Unknown { .. }), 1)));
    }
}
