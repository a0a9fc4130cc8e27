//! Restores a backup of the run as a second cluster, and records what it shows.

use crate::caller::calls::new_item;
use crate::cluster::{Cluster, LIMIT};
use crate::history::{Restored, SeenItem};
use crate::workloads::finish;
use crate::world::World;
use client::api::Code;
use client::api::claim::{Claim, Claimed};
use client::names::ItemId;
use client::{Client, Error};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The time for one call, to a node that answers.
const TRY: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(100);
const PROBE: &str = "restored-probe";

/// `None` when no backup was taken.
///
/// # Errors
/// When the backup cannot be restored, or the restored cluster does not serve.
pub async fn look(cluster: &Cluster, world: &Arc<World>) -> Result<Option<Restored>, String> {
    let Some(taken) = cluster.taken() else { return Ok(None) };
    let beside = match cluster.restore(&taken).await {
        Ok(beside) => beside,
        Err(error) => {
            let (began, ended, refused) = (taken.began, taken.ended, Some(error.to_string()));
            return Ok(Some(Restored { began, ended, refused, ..Restored::default() }));
        }
    };
    let seen = async {
        let client = &beside.client;
        let probe = new_item(PROBE, PROBE);
        let items = unheld(world, client).await?;
        let claimable = items.iter().find(|(_, item)| item.state == "queued");
        let mut before_activation = vec![code(&client.create(&probe).within(TRY).await)];
        if let Some((item, _)) = claimable {
            let item = ItemId::new(item).map_err(|bad| bad.to_string())?;
            before_activation.push(code(&client.request_claim(&item, &Claim::default()).within(TRY).await));
        }
        activate(client).await?;
        client.create(&probe).within(TRY).await.map_err(|error| format!("{PROBE}: {error}"))?;
        let token = match client.request_claim(&probe.id, &Claim::default()).within(TRY).await {
            Ok(Claimed::Granted(grant)) => grant.token.0,
            other => return Err(format!("{PROBE} is not granted: {other:?}")),
        };
        let (began, ended) = (taken.began, taken.ended);
        let items = items.into_iter().collect();
        Ok(Restored { began, ended, before_activation, items, token, refused: None })
    };
    seen.await.map(Some).map_err(|why: String| format!("{why}\n{}", beside.last_words()))
}

/// Reads every item after the last old lease has ended, or when the time is over. Leases end one after another, and
/// claims that wait in a line are granted at the activation: only between the two is no item held.
async fn unheld(world: &Arc<World>, client: &Client) -> Result<BTreeMap<String, SeenItem>, String> {
    let by = Instant::now() + LIMIT;
    loop {
        let items = finish::items(world, client).await?;
        if items.values().all(|item| item.holder.is_none()) || Instant::now() > by {
            return Ok(items);
        }
        sleep(AGAIN).await;
    }
}

async fn activate(client: &Client) -> Result<(), String> {
    let by = Instant::now() + LIMIT;
    loop {
        match client.activate().within(TRY).await {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > by => {
                return Err(format!("could not activate the restored cluster: {error}"));
            }
            Err(_) => sleep(AGAIN).await,
        }
    }
}

fn code<T: Debug>(answer: &Result<T, Error>) -> String {
    match answer {
        Ok(_) => "granted".into(),
        Err(error) => error.code().map_or_else(|| error.to_string(), |code: Code| code.name().to_owned()),
    }
}
