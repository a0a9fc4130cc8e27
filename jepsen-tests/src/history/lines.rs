//! A history as JSON lines: the settings of the run, then a line for each operation, event, fault and leader, then its
//! end.

use super::soak::Soak;
use super::{About, Burst, Death, End, Fault, History, Leader, Members, Operation, Restored, Seen};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Written<'h> {
    About(&'h About),
    Operation(&'h Operation),
    Seen(&'h Seen),
    Fault(&'h Fault),
    Leader(&'h Leader),
    End(&'h End),
    Burst(&'h Burst),
    Death(&'h Death),
    Members(&'h Members),
    Restored(&'h Restored),
    Soak(&'h Soak),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Read {
    About(About),
    Operation(Operation),
    Seen(Seen),
    Fault(Fault),
    Leader(Leader),
    End(End),
    Burst(Burst),
    Death(Death),
    Members(Members),
    Restored(Restored),
    Soak(Soak),
}

/// # Errors
/// When it cannot be written.
pub fn write(history: &History, mut out: impl Write) -> io::Result<()> {
    let has_members = !history.members.changes.is_empty() || !history.members.seen.is_empty();
    let about = [Written::About(&history.about)].into_iter();
    let all = about
        .chain(history.operations.iter().map(Written::Operation))
        .chain(history.seen.iter().map(Written::Seen))
        .chain(history.faults.iter().map(Written::Fault))
        .chain(history.leaders.iter().map(Written::Leader))
        .chain(history.end.iter().map(Written::End))
        .chain(history.bursts.iter().map(Written::Burst))
        .chain(history.deaths.iter().map(Written::Death))
        .chain(has_members.then_some(Written::Members(&history.members)))
        .chain(history.restored.iter().map(Written::Restored))
        .chain(history.soak.iter().map(Written::Soak));
    for line in all {
        serde_json::to_writer(&mut out, &line)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// # Errors
/// When a line cannot be read or is invalid; the error names it.
pub fn read(from: impl BufRead) -> io::Result<History> {
    let mut history = History::default();
    for (at, line) in from.lines().enumerate() {
        let read = serde_json::from_str(&line?)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("line {}: {error}", at + 1)))?;
        match read {
            Read::About(about) => history.about = about,
            Read::Operation(operation) => history.operations.push(operation),
            Read::Seen(seen) => history.seen.push(seen),
            Read::Fault(fault) => history.faults.push(fault),
            Read::Leader(leader) => history.leaders.push(leader),
            Read::End(end) => history.end = Some(end),
            Read::Burst(burst) => history.bursts.push(burst),
            Read::Death(death) => history.deaths.push(death),
            Read::Members(members) => history.members = members,
            Read::Restored(restored) => history.restored = Some(restored),
            Read::Soak(soak) => history.soak = Some(soak),
        }
    }
    Ok(history)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::sample;
    use expect_test::expect;

    fn written(history: &History) -> String {
        let mut bytes = Vec::new();
        write(history, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_history_has_one_line_for_each_record() {
        expect![[r#"
            {"about":{"seed":5,"workload":"mutex","nemesis":"","nodes":3,"broken":null,"queues":[]}}
            {"operation":{"process":0,"actor":"actor-0","session":"s1","node":2,"request_id":null,"is_repeat":false,"invoked":10,"completed":20,"asked":{"claim":{"item":"disk","lease_for_ms":2000,"waits":false}},"outcome":{"ok":{"sent":11,"grants":[{"item":"disk","token":7,"expires_in_ms":2000,"renewed":false}]}}}}
            {"operation":{"process":1,"actor":"actor-1","session":"s1","node":2,"request_id":null,"is_repeat":false,"invoked":20,"completed":null,"asked":{"update":{"item":"disk","token":7,"read_at":null,"value":4}},"outcome":"unknown"}}
            {"operation":{"process":2,"actor":"actor-2","session":"s1","node":2,"request_id":null,"is_repeat":false,"invoked":30,"completed":30,"asked":{"write":{"item":"disk","token":6,"value":3}},"outcome":{"refused":{"code":"stale_token"}}}}
            {"operation":{"process":0,"actor":"actor-0","session":"s1","node":2,"request_id":null,"is_repeat":false,"invoked":40,"completed":50,"asked":{"read":{"item":"disk"}},"outcome":{"ok":{"sent":42,"item":{"state":"active","revision":"0.9","value":4,"holder":null,"token":null,"assignee":null}}}}}
            {"operation":{"process":3,"actor":"actor-3","session":"s1","node":2,"request_id":"1-2","is_repeat":true,"invoked":60,"completed":70,"asked":{"update":{"item":"disk","token":7,"read_at":null,"value":4}},"outcome":"unavailable"}}
            {"operation":{"process":0,"actor":"actor-0","session":"s1","node":2,"request_id":null,"is_repeat":false,"invoked":80,"completed":90,"asked":"renew_all","outcome":{"ok":{"sent":0}}}}
            {"seen":{"watcher":0,"at":55,"event":{"number":"0.9","at_ms":5,"at":"2026-01-01T00:00:00.000Z","kind":"updated","item":"disk"}}}
            {"fault":{"kind":"kill","what":"node 2, the leader","nodes":[2],"began":15,"ended":85,"took_hold":true,"in_force":[16,84]}}
            {"leader":{"at":5,"node":2,"term":3}}
            {"end":{"healed":85,"served":null,"items":[["disk",{"state":"active","revision":"0.9","value":4,"holder":null,"token":null,"assignee":null}]],"created":1,"live":1,"terminal":0,"purged":0,"hashes":[],"deaths":[]}}
        "#]].assert_eq(&written(&sample()));
    }

    #[test]
    fn a_history_survives_a_round_trip() {
        let text = written(&sample());
        assert_eq!(written(&read(text.as_bytes()).unwrap()), text);
    }

    #[test]
    fn a_truncated_line_is_named_in_the_error() {
        let text = written(&sample());
        let error = read(&text.as_bytes()[..text.len() - 3]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("line {}: ", text.lines().count())), "{error}");
    }
}
