//! One reader with many expensive reads: holders keep their leases and are answered meanwhile.

use crate::people::{Edge, person, usual};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use test_support::until;

const QUEUES: usize = 2_000;
const ITEMS: usize = 8_000;
/// Concurrent calls of the reader.
const CALLS: usize = 150;
const RENEWALS: usize = 20;
/// Maximum number of reads that may be answered per renewal. When reads ran on the threads that serve calls, all others
/// of the crowd were answered before each renewal.
const VIEWS_PER_RENEWAL: usize = 40;

async fn crowded() -> Edge {
    let mut people = usual();
    people.push(person("nosy", "default", &["reader"]));
    let edge = Edge::start(&people).await;
    let root = edge.caller("root");
    let new = |nth: usize| json!({"id": format!("item-{nth}"), "queue": format!("q-{}", nth % QUEUES)});
    for first in (0..ITEMS).step_by(1_000) {
        let items: Vec<Value> = (first..first + 1_000).map(new).collect();
        let items = json!({"items": items});
        // The rate limit of one actor allows no more creations per second.
        until("the items are created", async || {
            let answer = root.post("/v1/items/batch", items.clone()).answer().await;
            assert!([200, 429].contains(&answer.status), "{answer:?}");
            answer.status == 200
        })
        .await;
    }
    edge
}

/// Renews one lease again and again while a reader sends reads; returns how many reads were answered meanwhile.
async fn views_during_renewals(path: &'static str) -> usize {
    let edge = crowded().await;
    let ada = edge.caller("ada");
    let token = ada.post("/v1/items/item-1/claim", json!({})).ok().await["token"].clone();
    let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let crowd: Vec<_> = (0..CALLS)
        .map(|_| {
            let (nosy, is_over, answered) = (edge.caller("nosy"), is_over.clone(), answered.clone());
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let answer = nosy.get(path).answer().await;
                    if answer.status == 200 {
                        answered.fetch_add(1, Ordering::Relaxed);
                    } else {
                        assert!([429, 503].contains(&answer.status), "{answer:?}");
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    until("views are answered", async || answered.load(Ordering::Relaxed) > 0).await;
    let before = answered.load(Ordering::Relaxed);
    for _ in 0..RENEWALS {
        ada.post("/v1/items/item-1/renew", json!({"token": token})).ok().await;
    }
    let views = answered.load(Ordering::Relaxed) - before;
    is_over.store(true, Ordering::Relaxed);
    for one in crowd {
        one.await.unwrap();
    }
    views
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_do_not_wait_for_a_crowd_of_searches() {
    let views = views_during_renewals("/v1/items?text=zzzz").await;
    assert!(views < RENEWALS * VIEWS_PER_RENEWAL, "{views} views were answered during {RENEWALS} renewals");
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_do_not_wait_for_a_crowd_of_local_searches() {
    let views = views_during_renewals("/v1/items?text=zzzz&consistency=local").await;
    assert!(views < RENEWALS * VIEWS_PER_RENEWAL, "{views} views were answered during {RENEWALS} renewals");
}
