//! Requests whose answers are lost or discarded, and their retries: at other nodes at once, up to a minute later, and
//! with a different body. One effect, one answer; a different body is refused.

use super::Ground;
use crate::caller::{Caller, No};
use api::queue::PolicyChange;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Nodes remember an id for two minutes: most retries are sent well before.
const REPEAT_WITHIN_MS: u64 = 60_000;
/// The percentage of retries that are sent after nodes have forgotten the id, like those of a machine that was asleep.
const LATE: u64 = 15;
const LATE_MS: (u64, u64) = (125_000, 150_000);
/// The maximum number of requests that a caller still has to retry.
const PENDING_MAX: usize = 96;
/// The time limit of calls whose answers should be lost.
const HASTE: Duration = Duration::from_millis(4);

/// A request, which is sent again later.
#[derive(Clone, Debug)]
enum Wish {
    Create { item: String },
    Claim { item: String, lease_for_ms: u64 },
    Next { count: u32 },
    Release { item: String, token: u64 },
    Complete { item: String, token: u64 },
}

/// The result of a request, as far as the next one depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Came {
    /// The leases in its answer.
    Done(Vec<(String, u64)>),
    /// `next` found nothing, and this answer is not remembered.
    Empty,
    Refused,
    Open,
}

#[derive(Debug)]
struct Pending {
    due: u64,
    id: String,
    wish: Wish,
}

#[derive(Debug)]
struct Field {
    /// Where `next` finds items that others created.
    belt: String,
    items: Vec<String>,
    created: AtomicU64,
}

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let (queue, belt) = (ground.name.clone(), format!("{}-belt", ground.name));
    ground.set_queue(&queue, PolicyChange::default(), false).await?;
    ground.set_queue(&belt, PolicyChange::default(), true).await?;
    let items = ground.make_items(&queue, ground.size.items).await?;
    let field = Arc::new(Field { belt, items, created: AtomicU64::new(0) });
    for _ in 0..ground.size.callers {
        let (mut caller, field) = (ground.caller()?, field.clone());
        let mut twin = caller.twin()?;
        ground.spawn(async move {
            let mut pending = VecDeque::new();
            while caller.goes_on() {
                turn(&mut caller, &mut twin, &field, &mut pending).await;
            }
        });
    }
    Ok(())
}

async fn turn(caller: &mut Caller, twin: &mut Caller, field: &Field, pending: &mut VecDeque<Pending>) {
    let now = caller.world().clock.now();
    if let Some(at) = pending.iter().position(|pending| pending.due <= now)
        && let Some(Pending { id, wish, .. }) = pending.remove(at)
    {
        caller.elsewhere().under(&id, true);
        let _ = ask(caller, field, &wish).await;
        return;
    }
    let wish = match caller.dice.below(10) {
        0..3 => {
            let nth = field.created.fetch_add(1, Ordering::Relaxed);
            Wish::Create { item: format!("{}-{nth}", field.belt) }
        }
        3..7 => {
            Wish::Claim { item: caller.dice.pick(&field.items).clone(), lease_for_ms: 1_000 + caller.dice.below(2_000) }
        }
        _ => Wish::Next { count: 1 + u32::try_from(caller.dice.below(3)).unwrap_or(0) },
    };
    let came = repeatedly(caller, twin, field, &wish, pending).await;
    let Came::Done(leases) = came else {
        caller.rest_ms(1, 10).await;
        return;
    };
    for (item, token) in leases {
        let ending = match wish {
            Wish::Next { .. } if caller.dice.chance(80) => Wish::Complete { item, token },
            _ => Wish::Release { item, token },
        };
        if caller.dice.chance(8) {
            caller.world().recorder.lapsed(1);
        } else {
            repeatedly(caller, twin, field, &ending, pending).await;
        }
    }
}

/// Sends a request once, with whatever may happen to its answer, and again.
async fn repeatedly(
    caller: &mut Caller,
    twin: &mut Caller,
    field: &Field,
    wish: &Wish,
    pending: &mut VecDeque<Pending>,
) -> Came {
    let id = caller.id();
    let mut came = match caller.dice.below(10) {
        // At two nodes at once.
        0..3 => {
            caller.under(&id, false);
            twin.elsewhere().under(&id, false);
            let (came, other) = tokio::join!(ask(caller, field, wish), ask(twin, field, wish));
            if came == Came::Open { other } else { came }
        }
        // The answer is not waited for.
        3..5 => {
            caller.under(&id, false).hasty(HASTE);
            ask(caller, field, wish).await
        }
        _ => {
            caller.under(&id, false);
            ask(caller, field, wish).await
        }
    };
    for _ in 0..caller.dice.below(3) + u64::from(came == Came::Open) {
        if came == Came::Empty || !caller.goes_on() {
            break;
        }
        caller.elsewhere().under(&id, true);
        let again = ask(caller, field, wish).await;
        if came == Came::Open {
            came = again;
        }
    }
    if matches!(came, Came::Done(_) | Came::Refused) {
        if caller.dice.chance(20) {
            caller.elsewhere().under(&id, false);
            let _ = ask(caller, field, &other_body(wish)).await;
        }
        if pending.len() < PENDING_MAX && caller.dice.chance(30) {
            let after_ms = match caller.dice.chance(LATE) {
                true => LATE_MS.0 + caller.dice.below(LATE_MS.1 - LATE_MS.0),
                false => caller.dice.below(REPEAT_WITHIN_MS),
            };
            let due = caller.world().clock.now() + after_ms * 1_000;
            pending.push_back(Pending { due, id, wish: wish.clone() });
        }
    }
    came
}

/// The same request with a different body.
fn other_body(wish: &Wish) -> Wish {
    match wish {
        Wish::Create { item } => Wish::Create { item: format!("{item}-other") },
        Wish::Claim { item, lease_for_ms } => Wish::Claim { item: item.clone(), lease_for_ms: lease_for_ms + 1 },
        Wish::Next { count } => Wish::Next { count: count + 1 },
        Wish::Release { item, token } => Wish::Release { item: item.clone(), token: token + 1 },
        Wish::Complete { item, token } => Wish::Complete { item: item.clone(), token: token + 1 },
    }
}

async fn ask(caller: &mut Caller, field: &Field, wish: &Wish) -> Came {
    let came = match wish {
        Wish::Create { item } => caller.create(item, &field.belt).await.map(|_| Came::Done(Vec::new())),
        Wish::Claim { item, lease_for_ms } => {
            let held = caller.claim(item, Some(*lease_for_ms)).await;
            held.map(|held| Came::Done(vec![(held.item, held.token)]))
        }
        Wish::Next { count } => caller.next(&field.belt, *count, None).await.map(|granted| {
            let leases: Vec<_> = granted.into_iter().map(|held| (held.item, held.token)).collect();
            if leases.is_empty() { Came::Empty } else { Came::Done(leases) }
        }),
        Wish::Release { item, token } => caller.release(item, *token).await.map(|_| Came::Done(Vec::new())),
        Wish::Complete { item, token } => caller.complete(item, *token).await.map(|()| Came::Done(Vec::new())),
    };
    match came {
        Ok(came) => came,
        Err(No::Refused(_)) => Came::Refused,
        Err(No::Strange | No::Unavailable | No::Unknown(_)) => Came::Open,
    }
}
