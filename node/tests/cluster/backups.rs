//! Backups of a cluster at work, and what is restored from them.

use crate::world::{World, ask, quick, request};
use futures_util::{Stream, StreamExt};
use lease::names::SpaceName;
use lease::numbers::{EventNumber, Span, Token};
use lease::views::IfClaimed;
use lease::{Command, Outcome, Refusal};
use node::admin::backup::BackupError;
use node::daemon::{Daemon, DaemonError, Start};
use node::peers::tokio_node::TokioNode;
use raft_store::restore::{RestoreError, Target};
use raft_store::state::history::EventsAfter;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use test_support::fleet::{claim, create, item};
use test_support::{LIMIT, until, within};

const WRITERS: usize = 64;

async fn backup_of(node: &TokioNode) -> Vec<u8> {
    let stream = node::admin::backup::stream(node, LIMIT).await.unwrap();
    let chunks: Vec<_> = within("the backup has come", stream.collect::<Vec<_>>()).await;
    chunks.into_iter().flat_map(Result::unwrap).collect()
}

/// Splits a backup into pieces as a connection delivers them, unlike those that were sent.
fn arriving(bytes: &[u8]) -> impl Stream<Item = io::Result<Vec<u8>>> + use<> {
    futures_util::stream::iter(bytes.chunks(30_001).map(|piece| Ok(piece.to_vec())).collect::<Vec<_>>())
}

/// A cluster of one node that has this backup.
async fn restored(backup: &[u8]) -> World {
    let mut world = World::empty(quick());
    restore_into(&world, backup).await.unwrap();
    world.start(1, Start::Bootstrap).await;
    world.leader().await;
    world
}

async fn restore_into(world: &World, backup: &[u8]) -> Result<(), RestoreError> {
    let target = Target { directory: world.directory(1), node: 1, token_floor: None, accept_clock: false };
    within("it is restored", node::admin::restore::from_stream(arriving(backup), target)).await.map(|_| ())
}

async fn activate(world: &World) {
    loop {
        match world.ask(1, "root", Command::Activate).await {
            Outcome::Activated => return,
            Outcome::Refused(Refusal::NotReady(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn has(node: &TokioNode, id: &str) -> bool {
    let (viewer, space) = (test_support::fleet::caller("op"), SpaceName::fallback());
    let view =
        node.store().read(|state, archive| state.view_item(archive, &viewer, &space, &item(id), IfClaimed::Return));
    view.unwrap().is_ok()
}

fn epoch_of(node: &TokioNode) -> u32 {
    node.store().read(|state, _| state.epoch().0).unwrap()
}

/// Writers that create and claim items one after the other, and record the answers.
struct Writers {
    tasks: tokio::task::JoinSet<()>,
    done: Arc<AtomicBool>,
    acknowledged: Arc<Mutex<BTreeSet<String>>>,
    tokens: Arc<Mutex<BTreeSet<Token>>>,
}

impl Writers {
    fn start(world: &World) -> Self {
        let mut writers = Self {
            tasks: tokio::task::JoinSet::new(),
            done: Arc::default(),
            acknowledged: Arc::default(),
            tokens: Arc::default(),
        };
        let nodes: Vec<_> = world.nodes().cloned().collect();
        for writer in 0..WRITERS {
            let node = nodes[writer % nodes.len()].clone();
            let (done, acknowledged, tokens) =
                (writers.done.clone(), writers.acknowledged.clone(), writers.tokens.clone());
            writers.tasks.spawn(async move {
                for number in 0.. {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    let id = format!("item-{writer}-{number}");
                    let outcome = ask(&node, request("ada", create(&id))).await;
                    assert!(matches!(outcome, Outcome::Created { created: true, .. }), "{outcome:?}");
                    acknowledged.lock().unwrap().insert(id.clone());
                    let outcome = ask(&node, request("ada", claim(&id, Span::secs(600)))).await;
                    let token = outcome.grant().unwrap_or_else(|| panic!("{outcome:?}")).token;
                    assert!(tokens.lock().unwrap().insert(token), "{token} twice");
                }
            });
        }
        writers
    }

    fn acknowledged(&self) -> BTreeSet<String> {
        self.acknowledged.lock().unwrap().clone()
    }

    async fn stop(mut self) -> BTreeSet<Token> {
        self.done.store(true, Ordering::Relaxed);
        while let Some(ended) = within("a writer ends", self.tasks.join_next()).await {
            ended.unwrap();
        }
        self.tokens.lock().unwrap().clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_contains_all_acknowledged_writes_and_becomes_a_cluster() {
    let world = World::of(3).await;
    let writers = Writers::start(&world);
    until("the writers are at work", async || writers.acknowledged().len() > 4 * WRITERS).await;
    // From a follower: the backup also contains what another node has acknowledged.
    let follower = world.follower().await;
    let before = writers.acknowledged();
    let backup = backup_of(world.node(follower)).await;
    let after = writers.acknowledged().len();
    until("they are still at work", async || writers.acknowledged().len() > after).await;
    let tokens = writers.stop().await;
    world.agree().await;
    drop(world);

    let mut world = restored(&backup).await;
    for id in &before {
        assert!(has(world.node(1), id), "{id} was acknowledged before the backup");
    }
    until("all leases have ended", async || !world.node(1).store().read(|state, _| state.has_leases()).unwrap()).await;
    let refused = world.ask(1, "ada", claim("item-0-0", Span::secs(30))).await;
    assert!(matches!(refused, Outcome::Refused(Refusal::NotActivated)), "{refused:?}");
    world.join(2).await;
    activate(&world).await;
    world.join(3).await;
    let mut last = *tokens.last().unwrap();
    for (node, id) in (1..=3).zip(&before) {
        let token = world.claim(node, "bob", id, Span::secs(600)).await;
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    world.agree().await;
    for node in world.nodes() {
        assert_eq!(node.store().verify().unwrap(), [""; 0]);
    }
    // They have the state, not only the log, so the first node is no longer needed.
    world.kill(1).await;
    let leader = world.leader().await;
    assert!(before.iter().all(|id| has(world.node(leader), id)));
    assert!(world.claim(leader, "cy", before.last().unwrap(), Span::secs(30)).await > last);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_backup_restored_twice_repeats_no_token() {
    let world = World::of(1).await;
    world.ask(1, "ada", create("a")).await;
    let mut tokens = vec![world.claim(1, "ada", "a", Span::secs(600)).await];
    let backup = backup_of(world.node(1)).await;
    drop(world);
    for _ in 0..2 {
        let world = restored(&backup).await;
        activate(&world).await;
        for nth in 0..5 {
            world.ask(1, "ada", create(&format!("b{nth}"))).await;
            tokens.push(world.claim(1, "ada", &format!("b{nth}"), Span::secs(600)).await);
        }
        // An epoch is a second: another one begins with the next.
        let epoch = u64::from(epoch_of(world.node(1)));
        let origin = Duration::from_millis(lease::bounds::EPOCH_ORIGIN_MS).as_secs();
        let seconds = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() - origin;
        until("the next second has come", async || seconds() > epoch).await;
    }
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_node_killed_at_its_start_begins_one_epoch_and_grants_nothing() {
    let world = World::of(1).await;
    for nth in 0..20 {
        world.ask(1, "ada", create(&format!("item-{nth}"))).await;
        world.claim(1, "ada", &format!("item-{nth}"), Span::secs(600)).await;
    }
    let backup = backup_of(world.node(1)).await;
    drop(world);
    let mut world = World::empty(quick());
    restore_into(&world, &backup).await.unwrap();
    world.start(1, Start::Bootstrap).await;
    let epoch = epoch_of(world.node(1));
    assert!(epoch > 0, "before anything else");
    world.kill(1).await;
    for start in [Start::Bootstrap, Start::Again] {
        world.start(1, start).await;
        assert_eq!(epoch_of(world.node(1)), epoch);
        world.leader().await;
        let refused = world.ask(1, "ada", create("new")).await;
        assert!(matches!(refused, Outcome::Refused(Refusal::NotActivated)), "{refused:?}");
        world.kill(1).await;
    }
    world.restart(1).await;
    world.leader().await;
    activate(&world).await;
    assert!(world.claim(1, "bob", "item-7", Span::secs(30)).await.0 > u64::from(epoch) << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_backup_leaves_no_files_and_a_third_concurrent_one_is_refused() {
    let mut world = World::of(1).await;
    world.ask(1, "ada", create("a")).await;
    let folder = world.directory(1).join("backups");
    let left = || fs::read_dir(&folder).unwrap().count();
    let mut first = node::admin::backup::stream(world.node(1), LIMIT).await.unwrap();
    assert!(first.next().await.unwrap().is_ok());
    let second = node::admin::backup::stream(world.node(1), LIMIT).await.unwrap();
    let third = node::admin::backup::stream(world.node(1), LIMIT).await;
    assert!(matches!(third, Err(BackupError::Busy(_))), "{third:?}");
    assert_eq!(left(), 2);
    drop(first);
    until("its files are gone", async || left() == 1).await;
    drop(backup_of(world.node(1)).await);
    until("its files are gone", async || left() == 1).await;
    // An unread stream does not prevent the node from stopping.
    let daemon = world.daemons.remove(&1).unwrap();
    within("it stops", daemon.stop()).await;
    drop(second);
    world.restart(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_stream_restores_nothing() {
    let world = World::of(1).await;
    world.ask(1, "ada", create("a")).await;
    let backup = backup_of(world.node(1)).await;
    let target = Target { directory: world.directory(7), node: 7, token_floor: None, accept_clock: false };
    let half = backup[..backup.len() / 2].to_vec();
    let broken = arriving(&half).chain(futures_util::stream::iter([Err(io::Error::other("the line is dead"))]));
    let refused = node::admin::restore::from_stream(broken, target.clone()).await.unwrap_err().to_string();
    assert!(refused.contains("transfer of the backup failed: the line is dead"), "{refused}");
    let refused = node::admin::restore::from_stream(arriving(&half), target.clone()).await.unwrap_err().to_string();
    assert!(refused.contains("cut off"), "{refused}");
    // The sender disappears in the middle.
    let workshop = target.directory.with_file_name("node-7.restoring");
    let feeding = tokio::spawn(node::admin::restore::from_stream(
        arriving(&half).chain(futures_util::stream::pending()),
        target.clone(),
    ));
    until("it is under way", async || workshop.exists()).await;
    feeding.abort();
    until("nothing is left of it", async || !workshop.exists()).await;
    assert!(!target.directory.exists());
    node::admin::restore::from_stream(arriving(&backup), target).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_needs_an_empty_directory_and_binds_it_to_its_node() {
    let world = World::of(1).await;
    let backup = backup_of(world.node(1)).await;
    let refused = restore_into(&world, &backup).await.unwrap_err();
    assert!(matches!(refused, RestoreError::Used(_)), "{refused}");
    let other = World::empty(quick());
    restore_into(&other, &backup).await.unwrap();
    let mut settings = other.settings(1, Start::Bootstrap);
    settings.node = 2;
    let refused = Daemon::start(settings).await.unwrap_err();
    assert!(matches!(refused, DaemonError::Directory(_)), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn old_events_are_deleted_and_a_reader_at_a_deleted_position_is_refused() {
    let mut world = World::of(1).await;
    for nth in 0..20 {
        world.ask(1, "ada", create(&format!("item-{nth}"))).await;
    }
    let space = world.node(1).store().read(|state, _| state.space_no(&SpaceName::fallback())).unwrap().unwrap();
    let after = |world: &World, number| world.node(1).store().events_after(space, number, 1_000).unwrap();
    let EventsAfter::Page(all) = after(&world, EventNumber::default()) else { panic!("nothing is gone") };
    assert_eq!(all.len(), 20);
    let last = all.last().unwrap();
    let oldest_kept = all.iter().position(|event| event.wall == last.wall).unwrap();
    world.events_kept_for = Duration::from_millis(1);
    world.kill(1).await;
    world.restart(1).await;
    until("old events are gone", async || {
        world.node(1).store().first_event(space).unwrap().is_none_or(|first| first > all[0].number)
    })
    .await;
    let EventsAfter::TooOld { gone } = after(&world, EventNumber::default()) else { panic!("some are gone") };
    assert!(gone < all[oldest_kept].number, "none younger than was said");
    assert!(matches!(after(&world, gone), EventsAfter::Page(_)));
}
