//! SIGSTOP: a leader that was paused for longer than an election does not know what it missed.

use lease::command::Renew;
use lease::numbers::{Span, Time};
use lease::{Command, Outcome};
use node::replica::role::Role;
use test_support::fleet::{self, item};
use test_support::peer_client::{Submitted, request};
use test_support::until;
use test_support::world::World;

/// Longer than an election takes on a busy machine.
const LEASE: Span = Span::secs(10);

/// etcd12528: a deposed leader's revoke was forwarded and killed a live lease.
#[tokio::test(flavor = "multi_thread")]
async fn etcd12528_a_deposed_leader_ends_no_lease_renewed_with_its_successor() {
    let mut world = World::of_three().await;
    let everyone = world.client();
    let client = &everyone;
    client.create("kept").await;
    client.create("left").await;
    let old = world.leader().await;
    let others: Vec<_> = world.running().into_iter().filter(|node| *node != old).collect();
    let granted = client.carry_out("ada", fleet::claim("kept", LEASE)).await;
    let (token, expires_at) = granted.grant().map(|grant| (grant.token, grant.expires_at)).unwrap();
    client.claim("bob", "left", LEASE).await;
    let renew = || Command::Renew(Renew { item: item("kept"), token, lease_for: Some(LEASE) });
    let renewed = |outcome: &Outcome| match outcome {
        Outcome::Renewed(renewal) => renewal.expires_at,
        other => panic!("the lease is lost: {other:?}"),
    };

    world.pause(old);
    // Sent to the paused leader: it may receive it, and carry it out when it resumes.
    let on_its_way = request("cy", fleet::create("once"));
    let sending = tokio::spawn({
        let (client, request) = (everyone.clone(), on_its_way.clone());
        async move { client.submit(old, &request).await }
    });
    let new = world.leader_of(&others).await;
    assert_ne!(new, old);
    let client = &world.client_of(&others);
    // Until the lease as the old leader knows it is over.
    let mut lives_until = Time(0);
    until("the first term of the lease is over", async || {
        lives_until = renewed(&client.carry_out("ada", renew()).await);
        lives_until >= expires_at.after(LEASE)
    })
    .await;

    let lost = sending.await.unwrap();
    assert!(!matches!(lost, Submitted::Answered(_)), "{lost:?}");
    world.resume(old);
    until("the old leader follows", async || {
        renewed(&client.carry_out("ada", renew()).await);
        let status = world.status(old).await;
        status.is_some_and(|status| status.role == Role::Follower && status.leader != Some(old))
    })
    .await;
    // All that it had wanted to do is refused or done by now.
    world.leader().await;
    world.in_step().await;
    let still = renewed(&client.carry_out("ada", renew()).await);
    assert!(still >= lives_until);
    assert!(matches!(everyone.finish(on_its_way).await, Outcome::Created { created: true, .. }));
    // The lease that was not renewed has expired.
    until("the other lease has lapsed", async || {
        renewed(&client.carry_out("ada", renew()).await);
        client.carry_out("cy", fleet::claim("left", LEASE)).await.grant().is_some()
    })
    .await;
    let stranger = client.carry_out("cy", fleet::claim("kept", LEASE)).await;
    assert!(stranger.refusal().is_some(), "{stranger:?}");
    world.stop_and_compare().await;
}
