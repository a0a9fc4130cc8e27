//! Connections that send nothing, or one byte at a time.

use super::http1::{connect, glance, request};
use super::{AGAIN, Target, Tasks, WORKER};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

const IDLE: usize = 1_000;
const WRITERS: usize = 150;
/// The time between two bytes.
const BYTE: Duration = Duration::from_secs(2);
/// Connections are opened one after another, not at once.
const APART: Duration = Duration::from_millis(3);

pub(super) fn idle(target: &Target, tasks: &mut Tasks) {
    for nth in 0..IDLE {
        let target = target.clone();
        tasks.spawn(async move {
            sleep(APART * u32::try_from(nth).unwrap_or(0)).await;
            loop {
                match connect(target.plan.edge).await {
                    Ok(stream) => {
                        target.counts.asked(0);
                        end(stream, &target).await;
                    }
                    Err(_) => target.counts.heard("not connected"),
                }
                sleep(AGAIN).await;
            }
        });
    }
}

/// Waits until the node closes it.
pub(super) async fn end(mut stream: TcpStream, target: &Target) {
    let mut buffer = [0; 512];
    let read = stream.read(&mut buffer).await.unwrap_or(0);
    target.counts.heard(glance(&buffer[..read]).unwrap_or_else(|| "closed".to_owned()));
}

/// Half of them never finish a head, and half of them never finish a body.
pub(super) fn slow_writers(target: &Target, tasks: &mut Tasks) {
    for nth in 0..WRITERS {
        let target = target.clone();
        tasks.spawn(async move {
            sleep(APART * u32::try_from(nth).unwrap_or(0)).await;
            let body = format!(r#"{{"id":"{}","queue":"hostile-slow"}}"#, "s".repeat(100));
            let asked = request("POST", "/v1/items", target.key(WORKER), None, &body);
            let at_once = if nth % 2 == 0 { 20 } else { asked.len() - body.len() };
            loop {
                let written = write_slowly(&target, &asked, at_once).await;
                if written.is_err() {
                    target.counts.heard("closed");
                }
                sleep(AGAIN).await;
            }
        });
    }
}

async fn write_slowly(target: &Target, asked: &[u8], at_once: usize) -> io::Result<()> {
    let stream = connect(target.plan.edge).await?;
    let (mut read, mut write) = stream.into_split();
    write.write_all(&asked[..at_once]).await?;
    target.counts.asked(at_once);
    let writing = async {
        for byte in &asked[at_once..] {
            sleep(BYTE).await;
            write.write_all(&[*byte]).await?;
            target.counts.sent(1);
        }
        io::Result::Ok(())
    };
    let mut buffer = [0; 1_024];
    tokio::select! {
        written = writing => written?,
        read = read.read(&mut buffer) => {
            target.counts.heard(glance(&buffer[..read?]).unwrap_or_else(|| "closed".to_owned()));
        }
    }
    Ok(())
}
