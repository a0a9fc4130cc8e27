//! A command under a lease whose holder is cut off from every node, checked at the resource that the command writes to.

use crate::resource::{Answer, Resource};
use crate::world::{Tenure, ended};
use client::api::dates::Date;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use test_support::cluster::Cluster;
use test_support::proxy::{Fate, Proxy};
use test_support::until;

/// Three writers: the command, a child of it, and a process that left the group, which only the token stops.
fn writers(resource: &Resource, on_term: &str) -> String {
    let rest = format!(
        "exec > /dev/null 2>&1 < /dev/null
        writes() {{ trap {on_term} TERM; while says \"$1\" begins; do sleep 0.01; done; }}
        export -f writes says
        export TENURE_ITEM TENURE_TOKEN RESOURCE
        setsid bash -c 'exec 3<> \"/dev/tcp/127.0.0.1/$RESOURCE\"; writes escaped' &
        (exec 3<> \"/dev/tcp/127.0.0.1/$RESOURCE\"; writes grandchild) &
        writes child"
    );
    resource.script(&rest)
}

/// Ada is cut off while her command writes, and bob waits for her item.
async fn nothing_is_written_after(on_term: &str) {
    let cluster = Cluster::start_for(["ada", "bob"]).await;
    let resource = Resource::start().await;
    let is_cut = Arc::new(AtomicBool::new(false));
    let mut proxies = Vec::new();
    for at in 0..3 {
        let cut = is_cut.clone();
        let fate = move |_: &str| if cut.load(Ordering::SeqCst) { Fate::Vanishes } else { Fate::Passes };
        proxies.push(Proxy::start(cluster.address(at), fate).await);
    }
    let endpoints: Vec<String> = proxies.iter().map(|proxy| format!("http://{}", proxy.address)).collect();
    Tenure::of(&cluster, ["add", "disk", "--queue", "ops"]).said().ends_with(0);

    let script = writers(&resource, on_term);
    let words = ["exec", "disk", "--for", "6s", "--", "bash", "-c", &script];
    let ada = Tenure::of(&cluster, words).env("TENURE_ENDPOINT", endpoints.join(",")).begins();
    let waits = resource.script("for i in 1 2 3 4 5; do says bob begins; done; says bob ends");
    let words = ["exec", "disk", "--wait", "--for", "6s", "--complete", "--", "bash", "-c", &waits];
    until("all of ada's write", async || {
        ["child", "grandchild", "escaped"].iter().all(|who| !resource.writes_of(who).is_empty())
    })
    .await;
    let bob = Tenure::of(&cluster, words).env("TENURE_API_KEY_FILE", cluster.api_key_file_of("bob")).begins();
    let client = cluster.client("bob");
    let disk = test_support::daemon::item("disk");
    until("bob waits", async || client.line(&disk).await.is_ok_and(|line| line.places.len() == 1)).await;
    until("it was renewed", async || {
        proxies.iter().any(|proxy| proxy.requests().iter().any(|(first, _)| first.contains("/renew")))
    })
    .await;

    is_cut.store(true, Ordering::SeqCst);
    let ada = ended(ada).await.ends_with(5);
    ended(bob).await.ends_with(0);
    until("the writer that left the group was refused", async || {
        resource.writes_of("escaped").iter().any(|write| write.answer == Answer::Refused)
    })
    .await;

    let told = ada.err.lines().find(|line| line.contains("could not be renewed")).unwrap();
    let valid_until: Date = told.rsplit(' ').next().unwrap().parse().unwrap();
    let first = resource.writes_of("bob").into_iter().next().unwrap();
    assert!(first.at >= valid_until.0.0, "bob wrote at {}, while ada's lease was valid: {ada:?}", first.at);
    for who in ["child", "grandchild"] {
        let last = resource.writes_of(who).into_iter().next_back().unwrap();
        assert!(last.at < valid_until.0.0, "{who} wrote at {}, valid until {}: {ada:?}", last.at, valid_until.0.0);
        assert_eq!(last.answer, Answer::Taken);
    }
    let late = resource.writes().into_iter().skip_while(|write| write.who != "bob");
    let taken: Vec<_> = late.filter(|write| write.who != "bob" && write.answer != Answer::Refused).collect();
    assert!(taken.is_empty(), "written while bob held the item: {taken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn consul1843_a_command_that_obeys_is_gone_before_a_lease_that_a_partition_ended() {
    nothing_is_written_after("'exit 0'").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consul1843_a_command_that_ignores_sigterm_is_gone_before_a_lease_that_a_partition_ended() {
    nothing_is_written_after("''").await;
}
