//! `top`: a live view of nodes, queues, leases and wait lines.

use super::failure::{Failure, needed};
use super::global::Context;
use super::out::{Out, Paint, Table, clean, word};
use super::span::{Span, when};
use super::{cluster, queue};
use api::cluster::ClusterStatus;
use api::item::{Item, ItemPage};
use api::queue::QueuePage;
use api::words::ClaimStatus;
use clap::Args;
use client::{Consistency, Error, ItemsQuery, PageQuery};
use serde::Serialize;
use std::io::{self, IsTerminal as _};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{SignalKind, signal};

/// More queues than a screen has lines.
const QUEUES: usize = 100;
const LEASES: usize = 200;

/// Show nodes, queues, leases and wait lines, and keep updating the view
///
/// Reads from the called node, which may be slightly behind. Ctrl-C ends it.
#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Refresh interval
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    every: Span,
    /// Print once and exit (default when stdout is not a terminal)
    #[arg(long)]
    once: bool,
}

/// One refresh. Parts that the caller may not see are left out.
#[derive(Serialize)]
struct Look {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queues: Option<QueuePage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leases: Option<ItemPage>,
    #[serde(skip)]
    without: Vec<String>,
}

impl Top {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        if self.once || context.out.is_json || !io::stdout().is_terminal() {
            let look = look(context).await?;
            return context.out.answer(&look, |out, look| out.raw(&frame(out, look).join("")));
        }
        let invalid = |error: io::Error| Failure::other(format!("cannot listen for signals: {error}"));
        let mut interrupt = signal(SignalKind::interrupt()).map_err(invalid)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(invalid)?;
        let mut resized = signal(SignalKind::window_change()).map_err(invalid)?;
        let screen = Screen::enter(context.out)?;
        loop {
            let lines = match look(context).await {
                Ok(look) => frame(&context.out, &look),
                Err(Failure::Client(error @ (Error::Unavailable { .. } | Error::Unknown { .. }))) => {
                    vec![format!("{}\n", clean(&error.to_string()))]
                }
                Err(failure) => return Err(failure),
            };
            screen.show(&lines)?;
            tokio::select! {
                () = tokio::time::sleep(self.every.0) => {}
                _ = resized.recv() => {}
                _ = interrupt.recv() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
            }
        }
    }
}

async fn look(context: &Context) -> Result<Look, Failure> {
    let consistency = Consistency::Local;
    let queues = PageQuery { limit: Some(QUEUES), consistency, ..PageQuery::default() };
    let claim = Some(ClaimStatus::Claimed);
    let leases = ItemsQuery { claim, limit: Some(LEASES), consistency, ..ItemsQuery::default() };
    let client = &context.client;
    let mut without = Vec::new();
    let cluster = seen(client.cluster().await, "nodes", &mut without)?;
    let queues = seen(client.queues(&queues).await, "queues", &mut without)?;
    let leases = seen(client.items(&leases).await, "leases", &mut without)?;
    Ok(Look { cluster, queues, leases, without })
}

/// Leaves out a part that the caller may not see, so that the other parts are still shown.
fn seen<T>(asked: Result<T, Error>, what: &str, without: &mut Vec<String>) -> Result<Option<T>, Failure> {
    match asked {
        Ok(value) => Ok(Some(value)),
        Err(Error::Refused(problem)) if problem.code == api::Code::Forbidden => {
            let need = problem.needs.map(needed).unwrap_or_default();
            without.push(format!("{what}: not shown, requires {need}"));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn frame(out: &Out, look: &Look) -> Vec<String> {
    let mut text = String::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = api::dates::Date(lease::numbers::Wall(u64::try_from(now.as_millis()).unwrap_or(u64::MAX)));
    text += &format!("{}\n\n", out.paint(Paint::Dim, &super::span::day(now)));
    for part in &look.without {
        text += &format!("{}\n\n", out.paint(Paint::Dim, &clean(part)));
    }
    if let Some(status) = &look.cluster {
        text += &cluster::members(status).text(out);
        text.push('\n');
    }
    if let Some(page) = &look.queues {
        let mut table = queue::table();
        page.queues.iter().for_each(|queue| queue::row(&mut table, queue));
        text += &table.text(out);
        text.push('\n');
    }
    if let Some(page) = &look.leases {
        let mut held: Vec<&Item> = page.items.iter().collect();
        // The longest wait line first.
        held.sort_by(|a, b| b.line_length.cmp(&a.line_length).then(a.since_ms.cmp(&b.since_ms)));
        let mut table = Table::new(&["HELD", "QUEUE", "BY", "LINE", "SINCE", "DOING"]);
        for item in held {
            let holder = item.holder.as_ref();
            let who = holder.map_or_else(
                || "somebody".into(),
                |holder| holder.actor.as_ref().map_or_else(|| word(holder.kind), ToString::to_string),
            );
            let action = holder.and_then(|holder| holder.action.clone()).unwrap_or_default();
            let paint = if item.line_length > 0 { Paint::Warn } else { Paint::Plain };
            let plain = |text: String| (text, Paint::Plain);
            table.row([
                plain(item.id.to_string()),
                plain(item.queue.to_string()),
                plain(who),
                (item.line_length.to_string(), paint),
                (item.claimed_at.or(item.since).map_or_else(String::new, when), Paint::Dim),
                plain(action),
            ]);
        }
        text += &table.text(out);
    }
    text.split_inclusive('\n').map(ToOwned::to_owned).collect()
}

/// The alternate screen of a terminal. Dropping it restores the main screen.
struct Screen(Out);

impl Screen {
    fn enter(out: Out) -> Result<Self, Failure> {
        out.raw("\x1b[?1049h\x1b[?25l")?;
        Ok(Self(out))
    }

    fn show(&self, lines: &[String]) -> Result<(), Failure> {
        // A terminal may not know its size: a serial line reports 0.
        let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok();
        let size = size.filter(|size| size.ws_row > 0 && size.ws_col > 0);
        let (rows, columns) = size.map_or((24, 80), |size| (usize::from(size.ws_row), usize::from(size.ws_col)));
        let mut text = String::from("\x1b[H");
        let shown = lines.len().min(rows.max(1));
        for (nth, line) in lines[..shown].iter().enumerate() {
            text += &clipped(line.trim_end_matches('\n'), columns);
            text += "\x1b[K";
            // A line break after the last row would scroll the screen.
            if nth + 1 < shown {
                text += "\r\n";
            }
        }
        text += "\x1b[J";
        self.0.raw(&text)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.0.raw("\x1b[?25h\x1b[?1049l");
    }
}

/// Cuts a line to `columns`; colour codes take no column.
fn clipped(line: &str, columns: usize) -> String {
    let mut text = String::new();
    let mut left = columns;
    let mut is_code = false;
    for c in line.chars() {
        if c == '\x1b' {
            is_code = true;
        } else if is_code {
            is_code = c != 'm';
        } else if left == 0 {
            continue;
        } else {
            left -= 1;
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::clipped;

    #[test]
    fn colour_codes_do_not_count_when_a_line_is_clipped() {
        assert_eq!(clipped("\x1b[1mabc\x1b[0mdef", 4), "\x1b[1mabc\x1b[0md");
        assert_eq!(clipped("ab\x1b[2mcd\x1b[0m", 1), "a\x1b[2m\x1b[0m");
    }
}
