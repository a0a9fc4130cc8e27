//! The log of a running node: one line for each event that matters to an operator.

use test_support::until;
use test_support::world::World;

/// How often this message was logged.
fn told(words: &str, message: &str) -> usize {
    words.matches(&format!("\"message\":\"{message}\"")).count()
}

/// A log line without its timestamp.
fn untimed(line: &str) -> serde_json::Value {
    let mut said: serde_json::Value = serde_json::from_str(line).unwrap();
    said.as_object_mut().unwrap().remove("timestamp").expect("a time");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn each_cluster_event_is_logged_as_one_line_of_json() {
    let mut world = World::empty();
    world.options =
        ["--log-format", "json", "--snapshot-every", "40", "--entries-kept", "5"].map(String::from).to_vec();
    world.start_three().await;
    let client = world.client();
    for nth in 0..60 {
        client.create(&format!("item-{nth}")).await;
    }
    until("each has taken a snapshot", async || {
        (1..=3).all(|node| told(&world.words(node), "a snapshot was taken") >= 1)
    })
    .await;
    until("those that joined know that they have a vote", async || {
        [2, 3].iter().all(|node| told(&world.words(*node), "this node has a vote") == 1)
    })
    .await;
    for node in 1..=3 {
        let words = world.words(node);
        let roles: Vec<_> = words.lines().filter(|line| line.contains("\"message\":\"role\"")).map(untimed).collect();
        assert!(roles.len() >= 2, "{words}");
        for pair in roles.windows(2) {
            assert_ne!(pair[0], pair[1], "a line for each change of role, leader or term, and none without");
        }
    }
    for node in [3, 2] {
        assert_eq!(world.stop(node).await.code(), Some(0), "{}", world.words(node));
    }
    for node in [2, 3] {
        let words = world.words(node);
        for line in words.lines() {
            assert!(line.starts_with('{') && line.ends_with('}'), "node {node}: {line}");
        }
        for once in ["started", "stopping", "stopped", "this node has a vote"] {
            assert_eq!(told(&words, once), 1, "{once}\n{words}");
        }
        let index = "\"index\":";
        for line in words.lines().filter(|line| line.contains("a snapshot was taken") || line.contains("\"members\"")) {
            assert!(line.contains(index), "{line}");
        }
        assert_eq!(told(&words, "a node asks to join"), 0, "it asks many times");
        assert!(!words.contains("\"level\":\"ERROR\""), "nothing went wrong: {words}");
    }
    // Alone, as a learner is added, half and whole with two voters, and the same for the third node.
    let first = world.words(1);
    assert!((5..=9).contains(&told(&first, "members")), "{first}");
    let named = (1..=3).find(|node| world.words(*node).contains("item-"));
    assert_eq!(named, None, "nothing is said of single entries");
}
