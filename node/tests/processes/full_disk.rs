//! Disks that have no room left: a node stops before its disk is full and waits for room, the others go on; where too
//! many are short of space, new work is refused and leases go on.

use lease::command::Renew;
use lease::item::{NewItem, Part};
use lease::numbers::{Span, Token};
use lease::{Command, Outcome};
use raft_store::types::NodeId;
use std::path::PathBuf;
use std::process::Command as Run;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use test_support::fleet::{self, Dice};
use test_support::peer_client::{Client, Submitted, request};
use test_support::until;
use test_support::world::World;

/// A disk of such a size has room for a while, and what RocksDB writes at once is less than the floor.
const MEGABYTES: u32 = 1_024;
const FLOOR: &str = "500000000";
/// The exit code of a node that may be restarted.
const PASSING: i32 = 75;

/// A small, separate disk.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: PathBuf, megabytes: u32) -> Option<Self> {
        std::fs::create_dir(&path).unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Run::new("mount").args(["-t", "tmpfs", "-o", &size, "tenure-small"]).arg(&path).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(path)),
            other => {
                eprintln!("SKIPPED: nothing was shown about a full disk, because none can be mounted here: {other:?}");
                None
            }
        }
    }

    /// Fills the disk with other data, except for this many bytes.
    fn leave(&self, free: u64) {
        let found = rustix::fs::statvfs(&self.0).unwrap();
        let bytes = (found.f_bavail * found.f_frsize).saturating_sub(free);
        std::fs::write(self.0.join("not-tenures"), vec![1; usize::try_from(bytes).unwrap()]).unwrap();
    }

    fn grow(&self, megabytes: u32) {
        let size = format!("remount,size={megabytes}m");
        assert!(Run::new("mount").args(["-o", &size]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that this test has just killed may still be in it.
        let _ = Run::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Items of about 60 KiB each that no compression makes smaller.
fn large(dice: &mut Dice, name: &str, count: usize) -> Command {
    let new = |nth: usize| {
        let mut new = NewItem::new(fleet::item(&format!("{name}-{nth}")), fleet::queue());
        let text = (0..60 * 1024).map(|_| char::from(b' ' + u8::try_from(dice.roll(94)).unwrap()));
        new.body = vec![(Part::Plan, text.collect())];
        new
    };
    Command::CreateMany((0..count).map(new).collect())
}

/// Asks for more and more items, of whoever leads, until `is_over`. Says how many it was given.
async fn flood(client: &Client, mut is_over: impl FnMut(&Submitted) -> bool) -> usize {
    let mut dice = Dice(7);
    let (mut given, mut node) = (0, 1);
    for round in 0.. {
        assert!(round < 2_000, "{given} batches fit into {MEGABYTES} MiB");
        let asked = request("ada", large(&mut dice, &format!("large-{round}"), 20));
        let submitted = client.submit(node, &asked).await;
        if let Submitted::NotTaken(leader) = &submitted {
            node = leader.unwrap_or(node % 3 + 1);
        }
        given += usize::from(matches!(submitted, Submitted::Answered(_)));
        if is_over(&submitted) {
            return given;
        }
        if !matches!(submitted, Submitted::Answered(_)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    given
}

async fn stops_and_comes_back(small: NodeId) {
    let mut world = World::empty();
    let Some(disk) = SmallDisk::mount(world.folder().join("small"), MEGABYTES) else { return };
    world.put_data(small, disk.0.join("data"));
    // The others have room, and the same floor.
    world.options = vec!["--disk-free-min".into(), FLOOR.into()];
    world.start_three().await;
    // It started the cluster.
    assert_eq!(world.leader().await, 1);
    let client = world.client();
    let held = client.carry_out("bob", fleet::create("held")).await;
    assert!(matches!(held, Outcome::Created { .. }), "{held:?}");
    let token = client.claim("bob", "held", Span::secs(600)).await;

    let has_ended = |world: &World| world.words(small).contains("stopping: ");
    let given = flood(&client, |_| has_ended(&world)).await;
    assert!(given > 5, "{given} batches were taken");
    let status = world.ended(small).await;
    let said = world.words(small);
    assert_eq!(status.code(), Some(PASSING), "{status}: {said}");
    assert!(said.contains("disk space is used up") && said.contains("Enlarge the file system"), "{said}");
    assert!(!said.contains("No space left on device"), "{said}");
    // Its lease stays alive and work continues: two of three nodes have room.
    for nth in 0..20 {
        client.create(&format!("meanwhile-{nth}")).await;
    }
    let renewed = client.carry_out("bob", renew("held", token)).await;
    assert!(matches!(renewed, Outcome::Renewed(_)), "{renewed:?}");

    // Without room it waits, and touches nothing.
    disk.leave(100_000_000);
    world.start(small);
    until("it says that it waits", async || world.words(small).contains("waiting for room")).await;
    world.check_alive();
    disk.grow(4_000);
    world.leader().await;
    client.create("after").await;
    world.in_step().await;
    for item in (0..20).map(|nth| format!("meanwhile-{nth}")).chain(["after".into(), "large-0-0".into()]) {
        assert!(client.has(&item).await, "{item}");
    }
    for node in 1..=3 {
        assert!(!world.words(node).contains("No space left on device"), "{}", world.words(node));
    }
    drop(world.stop_and_compare().await);
    drop(world);
    drop(disk);
}

fn renew(id: &str, token: Token) -> Command {
    Command::Renew(Renew { item: fleet::item(id), token, lease_for: None })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_with_a_full_disk_stops_and_waits_for_room_while_others_continue() {
    stops_and_comes_back(3).await;
}

/// The leader's disk runs low: another node leads from then on.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_low_on_disk_space_hands_over_and_stops_before_the_disk_is_full() {
    stops_and_comes_back(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_all_disks_low_new_work_is_refused_and_leases_continue() {
    let mut world = World::empty();
    let mut disks = Vec::new();
    for node in 1..=3 {
        let Some(disk) = SmallDisk::mount(world.folder().join(format!("small-{node}")), MEGABYTES) else { return };
        world.put_data(node, disk.0.join("data"));
        disks.push(disk);
    }
    world.options = vec!["--disk-free-min".into(), FLOOR.into()];
    world.start_three().await;
    let client = world.client();
    let mut held = Vec::new();
    for id in ["first", "second"] {
        client.create(id).await;
        held.push((id, client.claim("bob", id, Span::secs(20)).await));
    }

    // A holder renews all the while.
    let (is_over, renewals) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let holder = {
        let (client, (id, token), is_over, renewals) = (client.clone(), held[0], is_over.clone(), renewals.clone());
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let renewed = client.carry_out("bob", renew(id, token)).await;
                assert!(matches!(renewed, Outcome::Renewed(_)), "{renewed:?}");
                renewals.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
    };
    let mut refused = 0;
    let mut before = 0;
    let given = flood(&client, |submitted| {
        refused += u64::from(matches!(submitted, Submitted::LowOnDisk));
        if refused == 1 {
            before = renewals.load(Ordering::Relaxed);
        }
        refused > 50 && renewals.load(Ordering::Relaxed) > before + 10
    })
    .await;
    assert!(given > 5, "{given} batches were taken");
    let (second, token) = held[1];
    let completed = client.carry_out("bob", fleet::complete(second, token)).await;
    assert!(matches!(completed, Outcome::Moved { .. }), "{completed:?}");
    world.check_alive();

    for disk in &disks {
        disk.grow(4_000);
    }
    client.create("after").await;
    is_over.store(true, Ordering::Relaxed);
    holder.await.unwrap();
    for node in 1..=3 {
        let said = world.words(node);
        assert!(!said.contains("No space left on device") && !said.contains("stopping: "), "{said}");
    }
    drop(world.stop_and_compare().await);
    drop(world);
    drop(disks);
}
