//! A worker is killed at each step of its loop, and another worker follows. Every item is completed once, and its
//! resource sees one end. Late writes of the killed worker's command are rejected once there is another holder.

use crate::resource::{Answer, Resource};
use crate::world::{World, ended};
use client::api::words::ItemState;
use client::{Client, EventsQuery};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Child;
use test_support::daemon::item;
use test_support::proxy::{Fate, Proxy};
use test_support::until;

/// Begins, waits until it may end, and ends. The wait is limited, because nothing stops it once its worker is killed.
const WORK: &str = r#"
says "$WORKER" begins
[ "$answer" = taken ] || exit 3
for i in $(seq 6000); do [ ! -e "$WORKER-may-end-$TENURE_ITEM" ] || break; sleep 0.02; done
says "$WORKER" ends
[ "$answer" != refused ]
"#;

struct Stage {
    world: World,
    resource: Resource,
    operator: Client,
}

impl Stage {
    async fn start() -> Self {
        let world = World::development().await;
        let operator = world.daemon().client("operator");
        Self { world, resource: Resource::start().await, operator }
    }

    fn work(&self, name: &str, at: String) -> Child {
        let script = self.resource.script(WORK);
        let work = self.world.tenure(["work", "ops", "--for", "3s", "--", "bash", "-c", &script]);
        work.env("WORKER", name).env("TENURE_ENDPOINT", at).begins()
    }

    /// Starts the first worker behind a proxy with this fate for its requests.
    async fn first(&self, fate: fn(&str) -> Fate) -> (Child, Proxy) {
        let proxy = Proxy::start(self.world.daemon().address, fate).await;
        (self.work("first", format!("http://{}", proxy.address)), proxy)
    }

    /// Runs the second worker until the item is complete.
    async fn second_completes(&self, name: &str) {
        let second = self.work("second", format!("http://{}", self.world.daemon().address));
        until("it is complete", async || self.state(name).await == ItemState::Complete).await;
        kill_process(Pid::from_raw(second.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
        ended(second).await.ends_with(0);
    }

    async fn state(&self, name: &str) -> ItemState {
        self.operator.item(&item(name)).await.unwrap().state
    }

    fn may_end(&self, who: &str, name: &str) {
        fs::write(self.world.home.path().join(format!("{who}-may-end-{name}")), "").unwrap();
    }

    fn said(&self, who: &str, name: &str, is_end: bool) -> Option<Answer> {
        let writes = self.resource.writes_of(who);
        writes.iter().find(|write| write.item == name && write.is_end == is_end).map(|write| write.answer)
    }

    async fn is_said(&self, who: &str, name: &str, is_end: bool) -> Answer {
        until("it is written", async || self.said(who, name, is_end).is_some()).await;
        self.said(who, name, is_end).unwrap()
    }

    /// The command of a killed worker still runs when another holder begins, and ends after that.
    async fn outlived(&self, name: &str) {
        let late = async {
            assert_eq!(self.is_said("second", name, false).await, Answer::Taken);
            self.may_end("first", name);
            assert_eq!(self.is_said("first", name, true).await, Answer::Refused);
            self.may_end("second", name);
        };
        tokio::join!(self.second_completes(name), late);
    }
}

/// Kills a worker at once, like a power failure.
fn kill(mut worker: Child) {
    worker.kill().unwrap();
    worker.wait().unwrap();
}

async fn is_asked(proxy: &Proxy, verb: &str) {
    until("it asks", async || proxy.requests().iter().any(|(first, _)| first.contains(verb))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_item_of_a_worker_that_was_killed_at_any_step_is_done_once() {
    let stage = Stage::start().await;

    // Killed before it got an item.
    let (first, proxy) = stage.first(|_| Fate::Passes).await;
    is_asked(&proxy, "/next").await;
    kill(first);
    stage.world.adds("waiting");
    stage.may_end("second", "waiting");
    stage.second_completes("waiting").await;

    // Killed after it was granted an item and before it got the answer.
    stage.world.adds("granted");
    let silent = |first: &str| if first.contains("/next") { Fate::IsNotAnswered } else { Fate::Passes };
    let (first, _proxy) = stage.first(silent).await;
    until("it was granted", async || stage.state("granted").await == ItemState::Active).await;
    kill(first);
    stage.may_end("second", "granted");
    stage.second_completes("granted").await;

    // Killed while its command runs; the command continues.
    stage.world.adds("running");
    let (first, _proxy) = stage.first(|_| Fate::Passes).await;
    stage.is_said("first", "running", false).await;
    kill(first);
    stage.outlived("running").await;

    // Like before, but the command ends before another holder begins: its result counts and is not repeated.
    stage.world.adds("orphaned");
    let (first, _proxy) = stage.first(|_| Fate::Passes).await;
    stage.is_said("first", "orphaned", false).await;
    kill(first);
    stage.may_end("first", "orphaned");
    assert_eq!(stage.is_said("first", "orphaned", true).await, Answer::Taken);
    stage.may_end("second", "orphaned");
    stage.second_completes("orphaned").await;
    assert_eq!(stage.said("second", "orphaned", true), Some(Answer::DoneAlready));

    // Killed while a heartbeat is on its way.
    stage.world.adds("renewing");
    let silent = |first: &str| if first.contains("/renew") { Fate::IsNotAnswered } else { Fate::Passes };
    let (first, proxy) = stage.first(silent).await;
    stage.is_said("first", "renewing", false).await;
    is_asked(&proxy, "/renew").await;
    kill(first);
    stage.outlived("renewing").await;

    // Killed after its command ended and before the result was reported.
    stage.world.adds("telling");
    let lost = |first: &str| if first.contains("/complete") { Fate::Vanishes } else { Fate::Passes };
    let (first, proxy) = stage.first(lost).await;
    stage.may_end("first", "telling");
    is_asked(&proxy, "/complete").await;
    kill(first);
    stage.may_end("second", "telling");
    stage.second_completes("telling").await;

    // Killed after it reported the result and before it got the answer.
    stage.world.adds("told");
    let silent = |first: &str| if first.contains("/complete") { Fate::IsNotAnswered } else { Fate::Passes };
    let (first, _proxy) = stage.first(silent).await;
    stage.may_end("first", "told");
    until("it is complete", async || stage.state("told").await == ItemState::Complete).await;
    kill(first);
    stage.world.tenure(["next", "ops"]).said().ends_with(4);

    let names = ["waiting", "granted", "running", "orphaned", "renewing", "telling", "told"];
    let events =
        stage.operator.events(&EventsQuery { limit: Some(1_000), ..EventsQuery::default() }).await.unwrap().events;
    let ends = stage.resource.ends();
    for name in names {
        assert_eq!(ends.get(name), Some(&1), "{name}: {:?}", stage.resource.writes());
        let completed = events.iter().filter(|event| event.kind == "completed");
        let of_item = completed.filter(|event| event.item.as_ref().is_some_and(|id| id.as_str() == name));
        assert_eq!(of_item.count(), 1, "{name}");
    }
    assert_eq!(ends.len(), names.len());
}
