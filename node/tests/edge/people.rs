//! Three nodes that serve callers, and the callers: who they are stands in the file of tokens.

use crate::client::until;
use crate::contract::Contract;
use crate::http::{Caller, Sent};
use crate::world::World;
use node::identity::TokenHash;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

const ALL: &[&str] = &["reader", "worker", "dispatcher", "operator", "admin"];
/// What is given for the cluster, not in a space.
const OF_CLUSTER: [&str; 3] = ["admin", "backup", "metrics"];
/// Not the space of those who name none.
const SPACE: &str = "default";

/// The tests are on this machine, and most of their callers run nothing.
pub(crate) const METRICS_OPEN: &str = "--metrics-open";

pub(crate) struct Edge {
    pub(crate) world: World,
    contract: Arc<Contract>,
    addresses: Arc<BTreeMap<u64, String>>,
}

/// One who may do all of this in every queue of a space, and with the cluster.
pub(crate) fn person(actor: &str, space: &str, may: &[&str]) -> String {
    in_queues(actor, space, may, &["*"])
}

/// The same, in these queues.
pub(crate) fn in_queues(actor: &str, space: &str, may: &[&str], queues: &[&str]) -> String {
    let hash = TokenHash::of(&token(actor));
    let (cluster, roles): (Vec<&str>, Vec<&str>) = may.iter().copied().partition(|word| OF_CLUSTER.contains(word));
    let cluster = if cluster.is_empty() { String::new() } else { format!("cluster = {cluster:?}\n") };
    let queues = if queues == ["*"] { String::new() } else { format!("queues = {queues:?}\n") };
    format!(
        "[[token]]\nsha256 = \"{hash}\"\nactor = \"{actor}\"\nkind = \"agent\"\n{cluster}\
         [[token.grant]]\nspace = \"{space}\"\nroles = {roles:?}\n{queues}"
    )
}

/// Root may do everything; ada, bob and cy create and work.
pub(crate) fn usual() -> Vec<String> {
    let hand = |actor| person(actor, SPACE, &["worker", "dispatcher"]);
    vec![person("root", "*", ALL), hand("ada"), hand("bob"), hand("cy")]
}

pub(crate) fn token(actor: &str) -> String {
    format!("the-token-of-{actor}")
}

impl Edge {
    /// A cluster of three that all are ready.
    pub(crate) async fn start(people: &[String]) -> Self {
        Self::begun(people, async |world| world.start_three().await).await
    }

    /// Nodes that were started so, and are ready.
    pub(crate) async fn begun(people: &[String], begin: impl AsyncFnOnce(&mut World)) -> Self {
        let mut world = World::empty();
        write_tokens(&world, people);
        world.serves = true;
        let tokens = world.folder().join("tokens.toml").display().to_string();
        world.options = vec!["--tokens".into(), tokens, METRICS_OPEN.into()];
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

    /// One with a token, at node 1.
    pub(crate) fn caller(&self, actor: &str) -> Caller {
        self.nobody().with_token(actor)
    }
}

/// The whole file at once: a node never reads half of it.
pub(crate) fn write_tokens(world: &World, people: &[String]) {
    let half = world.folder().join("tokens.new");
    fs::write(&half, people.concat()).unwrap();
    fs::rename(half, world.folder().join("tokens.toml")).unwrap();
}
