//! One node itself: whether it lives and serves, and what is done to it alone. Asked there and nowhere else.

use crate::call::{Call, Effect};
use crate::endpoint::Endpoint;
use crate::path::Path;
use crate::{Client, Error};
use api::cluster::{NodeDraining, Snapshotted};
use hyper::Method;
use serde::Deserialize;

/// One node of those that the client knows, or any other.
#[derive(Clone, Debug)]
pub struct Node {
    client: Client,
    endpoint: Endpoint,
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
        Ok(if told.ok { Health::Fine } else { Health::Not(told.why.unwrap_or_default()) })
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

    /// However often.
    fn flip(&self, path: &str) -> Call<NodeDraining> {
        Call::bare(&self.client, Method::POST, Path::new(path)).set(|ask| ask.effect = Effect::Same)
    }
}
