//! One node: its health, and operations on this node only. These calls are sent to no other node.

use crate::call::Call;
use crate::endpoint::Endpoint;
use crate::path::Path;
use crate::request::Effect;
use crate::{Client, Error, retry};
use api::cluster::{NodeDraining, Restored, Snapshotted};
use api::query::RestoreQuery;
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt as _};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::Method;
use hyper::body::Frame;
use serde::Deserialize;
use std::io;

/// One node: one of the client's endpoints, or any other.
#[derive(Clone, Debug)]
pub struct Node {
    client: Client,
    endpoint: Endpoint,
}

/// The health that a node reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Fine,
    /// Not healthy, with the reason.
    Not(String),
}

/// The body of a health endpoint.
#[derive(Deserialize)]
struct HealthReply {
    ok: bool,
    #[serde(default)]
    why: Option<String>,
    /// Only for callers with a right for the cluster.
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
        call.set(|spec| spec.only_at = Some(self.endpoint.clone()))
    }

    /// Whether the process is healthy.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn health(&self) -> Result<Health, Error> {
        self.health_at("/healthz").await
    }

    /// Whether the node is ready for callers.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn readiness(&self) -> Result<Health, Error> {
        self.health_at("/readyz").await
    }

    async fn health_at(&self, path: &str) -> Result<Health, Error> {
        let reply = self.here(Call::<()>::get(&self.client, Path::new(path)).set(|spec| spec.accepts_503 = true));
        let reply = reply.raw_reply().await?;
        let health: HealthReply = serde_json::from_slice(&reply.body)
            .map_err(|error| Error::Invalid(format!("cannot decode the answer of {}: {error}", self.endpoint)))?;
        let why = || [health.why, health.detail].into_iter().flatten().collect::<Vec<_>>().join(": ");
        Ok(if health.ok { Health::Fine } else { Health::Not(why()) })
    }

    /// The node's metrics, in the text format of Prometheus.
    ///
    /// # Errors
    /// If it does not answer, or the caller has no right to its metrics.
    pub async fn metrics(&self) -> Result<String, Error> {
        let reply = self.here(Call::<()>::get(&self.client, Path::new("/metrics"))).raw_reply().await?;
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }

    /// Takes a snapshot of its state.
    pub fn snapshot(&self) -> Call<Snapshotted> {
        self.here(Call::bare(&self.client, Method::POST, Path::new("/v1/cluster/snapshot")))
    }

    /// Makes the node hand over leadership and reject commands.
    pub fn drain(&self) -> Call<NodeDraining> {
        self.here(self.flip("/v1/cluster/drain"))
    }

    pub fn undrain(&self) -> Call<NodeDraining> {
        self.here(self.flip("/v1/cluster/undrain"))
    }

    /// Sends a backup to a node that waits for one (`tenured --await-restore`). The node becomes the first of a new
    /// cluster. The backup is sent once, without a retry and without a time limit.
    ///
    /// # Errors
    /// See [`Error`]: after `Unknown`, ask the node whether it still waits.
    pub async fn restore<S>(&self, backup: S, query: &RestoreQuery) -> Result<Restored, Error>
    where
        S: Stream<Item = io::Result<Bytes>> + Send + 'static,
    {
        let path = Path::new("/v1/cluster/restore").with(query).into_string();
        let body = StreamBody::new(backup.map_ok(Frame::data)).boxed_unsync();
        let body = retry::upload(&self.client, &self.endpoint, &path, body).await?;
        serde_json::from_slice(&body).map_err(|error| {
            let why = format!("cannot decode the answer: {error}");
            Error::Unknown { why, request_id: String::new() }
        })
    }

    /// A call that has the same effect however often it is sent.
    fn flip(&self, path: &str) -> Call<NodeDraining> {
        Call::bare(&self.client, Method::POST, Path::new(path)).set(|spec| spec.effect = Effect::Same)
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
        let restored = node.restore(backup, &RestoreQuery { token_floor: Some(7), accept_clock: true }).await;
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
