//! A disk that has no room left: the node says so and ends, the others go on, and with room it comes back.

use crate::client::Client;
use crate::world::World;
use lease::item::{NewItem, Part};
use lease::{Command, Outcome};
use raft_store::types::NodeId;
use std::path::PathBuf;
use std::process::Command as Run;

/// A small disk of its own.
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

/// About 60 KiB of it.
async fn create_large(client: &Client, id: &str) {
    let mut new = NewItem::new(crate::fleet::item(id), crate::fleet::queue());
    new.body = vec![(Part::Plan, "x".repeat(60 * 1024))];
    let outcome = client.carry_out("ada", Command::Create(Box::new(new))).await;
    assert!(matches!(outcome, Outcome::Created { created: true, .. }), "{id}: {outcome:?}");
}

async fn fills_up(small: NodeId, megabytes: u32) {
    let mut world = World::empty();
    let Some(disk) = SmallDisk::mount(world.folder().join("small"), megabytes) else { return };
    world.put_data(small, disk.0.join("data"));
    world.start_three().await;
    let client = world.client();
    // Node 1 leads: it made the cluster.
    assert_eq!(world.leader().await, 1);

    let mut items = 0;
    let has_ended = |world: &World| world.words(small).contains("stopping: ");
    while !has_ended(&world) {
        items += 1;
        assert!(items < 2_000, "{items} items of 60 KiB fit into {megabytes} MiB");
        create_large(&client, &format!("item-{items}")).await;
    }
    let status = world.ended(small).await;
    assert_eq!(status.code(), Some(1), "{status}: {}", world.words(small));
    assert!(world.words(small).contains("No space left on device"), "{}", world.words(small));
    for nth in 0..20 {
        client.create(&format!("meanwhile-{nth}")).await;
    }

    // Without room it does not come back, and breaks nothing by trying.
    world.start(small);
    let status = world.ended(small).await;
    assert_eq!(status.code(), Some(1), "{status}: {}", world.words(small));

    disk.grow(400);
    world.start(small);
    world.leader().await;
    client.create("after").await;
    world.in_step().await;
    for item in (1..=items).map(|nth| format!("item-{nth}")).chain((0..20).map(|nth| format!("meanwhile-{nth}"))) {
        assert!(client.has(&item).await, "{item}");
    }
    drop(world.stop_and_compare().await);
    drop(world);
    drop(disk);
}

/// Full in the middle of the log's write-ahead file.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_whose_disk_is_full_ends_and_comes_back_with_room() {
    fills_up(3, 24).await;
}

/// Full when the log's first file is written out.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_disk_is_full_ends_and_another_one_leads() {
    fills_up(1, 40).await;
}
