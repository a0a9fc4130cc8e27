//! Three nodes that serve callers, and the callers, whose identities are in the API key file.

use crate::contract::Contract;
use crate::http::{Caller, Sent};
use node::edge::identity::ApiKeyHash;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use test_support::until;
use test_support::world::World;

const ALL: &[&str] = &["reader", "worker", "dispatcher", "operator", "admin"];
/// Rights for the cluster, not in a space.
const OF_CLUSTER: [&str; 3] = ["admin", "backup", "metrics"];
/// The default space.
const SPACE: &str = "default";

/// The tests run on this machine, and most of their callers have no cluster right.
pub(crate) const METRICS_OPEN: &str = "--metrics-open";

pub(crate) struct Edge {
    pub(crate) world: World,
    contract: Arc<Contract>,
    addresses: Arc<BTreeMap<u64, String>>,
}

/// An API key entry with these roles in every queue of a space, and these cluster rights.
pub(crate) fn person(actor: &str, space: &str, may: &[&str]) -> String {
    in_queues(actor, space, may, &["*"])
}

/// Like [`person`], but in these queues only.
pub(crate) fn in_queues(actor: &str, space: &str, may: &[&str], queues: &[&str]) -> String {
    let hash = ApiKeyHash::of(&api_key(actor));
    let (cluster, roles): (Vec<&str>, Vec<&str>) = may.iter().copied().partition(|word| OF_CLUSTER.contains(word));
    let cluster = if cluster.is_empty() { String::new() } else { format!("cluster = {cluster:?}\n") };
    let queues = if queues == ["*"] { String::new() } else { format!("queues = {queues:?}\n") };
    format!(
        "[[api_key]]\nsha256 = \"{hash}\"\nactor = \"{actor}\"\nkind = \"agent\"\n{cluster}\
         [[api_key.rights]]\nspace = \"{space}\"\nroles = {roles:?}\n{queues}"
    )
}

/// Root may do everything; ada, bob and cy may create and work.
pub(crate) fn usual() -> Vec<String> {
    let hand = |actor| person(actor, SPACE, &["worker", "dispatcher"]);
    vec![person("root", "*", ALL), hand("ada"), hand("bob"), hand("cy")]
}

pub(crate) fn api_key(actor: &str) -> String {
    format!("the-api-key-of-{actor}")
}

impl Edge {
    /// A cluster of three ready nodes.
    pub(crate) async fn start(people: &[String]) -> Self {
        Self::begun(people, async |world| world.start_three().await).await
    }

    /// Nodes that `begin` has started, once they are ready.
    pub(crate) async fn begun(people: &[String], begin: impl AsyncFnOnce(&mut World)) -> Self {
        let mut world = World::empty();
        write_api_keys(&world, people);
        world.serves = true;
        let api_keys = world.folder().join("api-keys.toml").display().to_string();
        world.options = vec!["--api-keys".into(), api_keys, METRICS_OPEN.into()];
        begin(&mut world).await;
        let addresses: BTreeMap<u64, String> = (1..=4).map(|node| (node, world.edge_address(node))).collect();
        let nothing = Contract::unread();
        let mut edge = Self { world, contract: Arc::new(nothing), addresses: Arc::new(addresses) };
        for node in edge.world.running() {
            edge.is_ready(node).await;
        }
        let document: Value = edge.nobody().get("/openapi.json").answer().await.json();
        edge.contract = Arc::new(Contract::new(&document));
        edge
    }

    pub(crate) async fn is_ready(&self, node: u64) {
        let caller = self.nobody().at(node);
        until(
            "the node is ready",
            async || matches!(caller.get("/readyz").send().await, Sent::Answered(answer) if answer.status == 200),
        )
        .await;
    }

    pub(crate) fn contract(&self) -> &Contract {
        &self.contract
    }

    pub(crate) fn nobody(&self) -> Caller {
        Caller { contract: self.contract.clone(), addresses: self.addresses.clone(), node: 1, headers: Vec::new() }
    }

    /// A caller with an API key, at node 1.
    pub(crate) fn caller(&self, actor: &str) -> Caller {
        self.nobody().with_api_key(actor)
    }
}

/// Replaces the whole file at once, so that a node never reads half of it.
pub(crate) fn write_api_keys(world: &World, people: &[String]) {
    let half = world.folder().join("api-keys.new");
    fs::write(&half, people.concat()).unwrap();
    fs::rename(half, world.folder().join("api-keys.toml")).unwrap();
}
