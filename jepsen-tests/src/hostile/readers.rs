//! Readers: searches and list walks, event streams from the beginning, and answers that are not read.

use super::http1::{Caller, connect, glance, request};
use super::http2::ask_and_take_nothing;
use super::{AGAIN, DISPATCHER, READER, Target, Tasks, pace};
use std::fmt::Write as _;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

/// Three nodes get 150 views at a time.
const VIEWERS: usize = 50;
/// Child items of the root, whose claims are counted.
const CHILDREN: u64 = 1_000;
const STREAMS: usize = 400;
/// Bytes to read of a stream.
const TAKEN: usize = 256 * 1024;
const OPEN_FOR: Duration = Duration::from_secs(10);
const LISTERS: usize = 12;
const LISTS: u32 = 100;
const STRANGERS: usize = 20;
/// The limit of a connection without an API key.
const DOCUMENTS: u32 = 32;

/// This many at a time, each repeated as soon as it is answered.
pub(super) fn views(target: &Target, tasks: &mut Tasks) {
    let root = target.named("root");
    let paths = [
        "/v1/items?text=zzzz".to_owned(),
        "/v1/items?text=zzzz&consistency=local".to_owned(),
        format!("/v1/items/{root}/claims"),
        "/v1/queues?limit=1000".to_owned(),
    ];
    tasks.spawn(grow(target.clone(), root));
    for nth in 0..VIEWERS {
        let mut caller = Caller::new(target);
        let asked = request("GET", &paths[nth % paths.len()], target.key(READER), None, "");
        tasks.spawn(async move {
            loop {
                let answer = caller.ask(&asked).await;
                if answer.is_some_and(|answer| answer.status >= 400) {
                    // A refusal costs almost nothing: pause, so that no caller spends its time on refusals only.
                    sleep(Duration::from_millis(10)).await;
                }
            }
        });
    }
}

/// Creates items to walk over.
async fn grow(target: Target, root: String) {
    let (mut caller, key) = (Caller::new(&target), target.key(DISPATCHER));
    let new = format!(r#"{{"id":"{root}","queue":"hostile-tree"}}"#);
    caller.ask(&request("POST", "/v1/items", key, None, &new)).await;
    let mut body = String::from(r#"{"items":["#);
    for nth in 0..CHILDREN {
        let comma = if nth == 0 { "" } else { "," };
        let _ = write!(body, r#"{comma}{{"id":"{root}-{nth}","queue":"hostile-tree","parent":"{root}"}}"#);
    }
    caller.ask(&request("POST", "/v1/items/batch", key, None, &(body + "]}"))).await;
}

pub(super) fn streams(target: &Target, tasks: &mut Tasks) {
    for nth in 0..STREAMS {
        let target = target.clone();
        tasks.spawn(async move {
            // Not all at the same time.
            sleep(OPEN_FOR * u32::try_from(nth).unwrap_or(0) / u32::try_from(STREAMS).unwrap_or(1)).await;
            loop {
                if stream(&target).await.is_err() {
                    target.counts.heard("closed");
                    sleep(AGAIN).await;
                }
            }
        });
    }
}

/// Reads some of the stream from its beginning, and then stops reading.
async fn stream(target: &Target) -> io::Result<()> {
    let asked = request("GET", "/v1/events/stream?after=0.0", target.key(READER), None, "");
    let mut stream = connect(target.plan.edge).await?;
    stream.write_all(&asked).await?;
    target.counts.asked(asked.len());
    let (mut buffer, mut taken, mut is_answered) = (vec![0; 16 * 1024], 0, false);
    let reading = async {
        while taken < TAKEN {
            let read = stream.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            if !is_answered {
                is_answered = true;
                let heard = glance(&buffer[..read]).unwrap_or_else(|| "no answer".to_owned());
                let is_refused = heard != "200";
                target.counts.heard(heard);
                if is_refused {
                    sleep(AGAIN).await;
                    return Ok(());
                }
            }
            taken += read;
        }
        std::future::pending::<io::Result<()>>().await
    };
    timeout(OPEN_FOR, reading).await.unwrap_or(Ok(()))
}

/// Long lists by a reader, and the node's own documents by callers without an API key.
pub(super) fn slow(target: &Target, tasks: &mut Tasks) {
    for nth in 0..LISTERS + STRANGERS {
        let target = target.clone();
        tasks.spawn(async move {
            let mut pace = pace(1.0);
            loop {
                pace.tick().await;
                let (path, key, times) = match nth < LISTERS {
                    true => ("/v1/items?limit=1000", target.key(READER), LISTS),
                    false if nth % 2 == 0 => ("/openapi.json", None, DOCUMENTS),
                    false => ("/docs", None, DOCUMENTS),
                };
                let cut_off = ask_and_take_nothing(&target, path, key, times).await;
                target.counts.heard(if cut_off.is_err() { "closed" } else { "ended" });
            }
        });
    }
}
