//! Bytes of every version stay readable forever, and today's bytes are the same on every machine.
//!
//! `golden/v1.txt` holds one line per encoded value: its type, and its bytes in hex. A line is never changed or
//! removed; a new shape is a new type with a line of its own. `v1-without-usage.txt` holds records of before there were
//! those of what a queue is used for.

use lease::caller::{ActorKind, Holder, Role, Verified};
use lease::command::*;
use lease::encoding::{DecodeError, decode, encode};
use lease::item::{ActivityKind, Edit, Mirrors, Mode, NewItem, Part, RunsIn, Transition};
use lease::names::{ItemId, SessionId, SpaceName};
use lease::numbers::{Epoch, EventNumber, ItemNo, Span, Time, Token, Wall};
use lease::policy::{
    AtMaxLeases, Backoff, Disclosure, IdentityPolicy, OnDependencyFailed, RequireLease, Setting, SpacePolicy,
};
use lease::record::Key;
use lease::{Applied, Command, Entry, Outcome, Records, Request, Salt, State};
use std::fmt::Write as _;
use test_support::names::{self, actor, item, label, phase, queue};

const GOLDEN: &str = include_str!("golden/v1.txt");

#[test]
fn encoded_bytes_equal_the_golden_file() {
    let mut lines = String::new();
    for entry in history() {
        let _ = writeln!(lines, "entry {}", hex(&encode(&entry)));
    }
    let (records, outcomes) = play(&history());
    for outcome in outcomes {
        let _ = writeln!(lines, "outcome {}", hex(&encode(&outcome)));
    }
    for (key, value) in &records.0 {
        let _ = writeln!(lines, "record {} {}", hex(key), hex(value));
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        #[expect(clippy::disallowed_methods, reason = "a test may write where the library may not")]
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v1.txt"), &lines).unwrap();
        return;
    }
    assert!(
        lines == GOLDEN,
        "the encoding has changed: bytes that are on disks out there would no longer be read. \
         Give the new shape a new type and version instead."
    );
}

#[test]
fn golden_bytes_decode_and_encode_to_themselves() {
    let mut records = Records::default();
    let mut entries = Vec::new();
    let mut outcomes = 0;
    for line in GOLDEN.lines() {
        let mut words = line.split(' ');
        let kind = words.next().unwrap();
        let bytes = unhex(words.next().unwrap());
        match kind {
            "entry" => {
                let entry: Entry = decode(&bytes).unwrap();
                assert_eq!(encode(&entry), bytes);
                entries.push(entry);
            }
            "outcome" => {
                let outcome: Outcome = decode(&bytes).unwrap();
                assert_eq!(encode(&outcome), bytes);
                outcomes += 1;
            }
            "record" => {
                assert_eq!(Key::decode(&bytes).unwrap().encode(), bytes);
                records.0.insert(bytes, unhex(words.next().unwrap()));
            }
            other => panic!("{other}"),
        }
    }
    assert!(outcomes > 0);
    let (played, _) = play(&entries);
    assert_eq!(played, records, "the golden entries still make the golden records");
    let state = State::load(records.live(), lease::StateHash::default()).unwrap();
    assert_eq!(state.violations(), Vec::<String>::new());
    let mut dumped = Records::default();
    dumped.write(&state.dump());
    assert!(dumped.live().eq(records.live()));
}

/// Reads records of stores in which queues had no usage record.
#[test]
fn records_of_an_earlier_version_are_read() {
    let mut records = Records::default();
    for line in include_str!("golden/v1-without-usage.txt").lines() {
        let [_, key, value] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        records.0.insert(unhex(key), unhex(value));
    }
    let mut state = State::load(records.live(), lease::StateHash::default()).unwrap();
    assert_eq!(state.violations(), Vec::<String>::new());
    let mut dumped = Records::default();
    dumped.write(&state.dump());
    assert!(dumped.live().eq(records.live()));
    // Nothing says what is in the archive of such a queue, so it stays.
    let later = Entry { at: Time(1 << 40), wall: Wall(1_790_000_000_000), commands: Vec::new() };
    let queues = |state: &State| state.spaces()[0].counts.queues;
    let before = queues(&state);
    for _ in 0..3 {
        records.write(&state.apply(&later, &records).changes);
    }
    assert_eq!((queues(&state), state.violations()), (before, Vec::new()));
}

#[test]
fn the_golden_history_has_every_command_and_every_kind_of_record() {
    let kinds: std::collections::BTreeSet<u8> = play(&history()).0.0.keys().map(|key| key[0]).collect();
    assert_eq!(
        String::from_utf8(kinds.into_iter().collect()).unwrap(),
        "ABCEILMQRSTUWXZ",
        "all but the wake, which is pinned next to its definition"
    );
    let mut variants: Vec<String> = history()
        .iter()
        .flat_map(|entry| &entry.commands)
        .map(|request| format!("{:?}", request.command))
        .map(|debug| debug.split([' ', '(', '{']).next().unwrap().to_owned())
        .collect();
    variants.sort();
    variants.dedup();
    assert_eq!(variants.len(), 37, "one of each command: {variants:?}");
}

#[test]
fn cut_lengthened_or_newer_bytes_do_not_decode() {
    for line in GOLDEN.lines().filter(|line| line.starts_with("entry")) {
        let bytes = unhex(line.split(' ').nth(1).unwrap());
        for end in 0..bytes.len() {
            assert!(decode::<Entry>(&bytes[..end]).is_err(), "cut at {end}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(decode::<Entry>(&longer), Err(DecodeError::Trailing(1)));
        let mut newer = bytes.clone();
        newer[0] += 1;
        assert_eq!(decode::<Entry>(&newer), Err(DecodeError::Version(2)));
    }
    assert_eq!(decode::<Entry>(&[]), Err(DecodeError::Empty));
}

#[test]
fn a_name_that_no_caller_could_have_given_does_not_decode() {
    let good = encode(&ItemId::new("ab").unwrap());
    for bad in [b"\n ".as_slice(), b" b", b"a\0"] {
        let mut bytes = good.clone();
        let at = bytes.len() - 2;
        bytes[at..].copy_from_slice(bad);
        assert!(decode::<ItemId>(&bytes).is_err(), "{bad:?}");
    }
}

#[test]
fn keys_sort_as_their_numbers_do() {
    use lease::line::PlaceNo;
    let place = |no: i64| Key::Place(ItemNo(7), PlaceNo(no)).encode();
    assert!(place(-300) < place(-1) && place(-1) < place(0) && place(0) < place(1) && place(1) < place(70_000));
    let due = |time: u64, no: u64| Key::Retention(Time(time), ItemNo(no)).encode();
    assert!(due(1, 900) < due(2, 1) && due(255, 1) < due(256, 0));
    let event = |epoch: u32, seq: u64| {
        Key::Event(lease::numbers::SpaceNo(1), EventNumber { epoch: Epoch(epoch), seq }).encode()
    };
    assert!(event(0, 900) < event(1, 1));
    for bytes in [&b"I\0\0"[..], b"?", b"", b"M\0", b"B\0\0\0\0\0\0\0\x01\x09"] {
        assert!(Key::decode(bytes).is_err(), "{bytes:?}");
    }
}

fn play(entries: &[Entry]) -> (Records, Vec<Outcome>) {
    let mut state = State::new(Salt([3, 4]));
    let mut records = Records::default();
    let mut outcomes = Vec::new();
    for entry in entries {
        let Applied { outcomes: answers, changes, .. } = state.apply(entry, &records);
        records.write(&changes);
        outcomes.extend(answers);
    }
    (records, outcomes)
}

/// Every command once, and a state with every kind of record.
fn history() -> Vec<Entry> {
    let mut book = Book::default();
    let mut first = NewItem::new(item("disk"), queue("ops"));
    first.title = "Clean the disk".into();
    first.labels = vec![label("linux")];
    first.needs = vec![label("ssh"), label("root")];
    first.phase = Some(phase("work"));
    first.body = vec![(Part::Prompt, "df -h".into()), (Part::Instructions, "Only /tmp.".into())];
    book.at(1_000, "dee", Command::Create(Box::new(first)));
    let mut child = NewItem::new(item("report"), queue("ops"));
    child.parent = Some(item("disk"));
    child.target = Some(item("disk"));
    child.depends_on = vec![item("disk")];
    child.not_before = Some(Wall(1_800_000_000_000));
    child.delay = Some(Span(5_000));
    let mut local = NewItem::new(item("mine"), queue("home"));
    local.mode = Mode::Local { owner: actor("dee") };
    local.priority = 9;
    let plain = |id: &str| NewItem::new(item(id), queue("ops"));
    let mut cloud = plain("cloud");
    cloud.mode = Mode::Cloud;
    book.at(
        1_001,
        "dee",
        Command::CreateMany(vec![child, local, cloud, plain("a"), plain("b"), plain("c"), plain("d"), plain("e")]),
    );
    book.at(1_002, "op", Command::SetPolicy(SetPolicy { queue: queue("ops"), settings: settings(), version: Some(0) }));
    let registration = Registration {
        capabilities: vec![label("ssh"), label("root")],
        labels: vec![label("eu")],
        mode: RunsIn::Cloud,
        alive_for: Span(60_000),
    };
    book.at(1_003, "ada", Command::RegisterWorker(registration));
    let mut claim = Claim::new(item("disk"));
    claim.lease_for = Some(Span(30_000));
    claim.action = Some("cleaning".into());
    claim.field = Some("/tmp".into());
    claim.mirrors = Mirrors::NONE.with(Transition::Completed);
    book.at(1_004, "ada", Command::Claim(claim.clone()));
    claim.on_conflict = OnConflict::Wait { wait_for: Some(Span(25_000)), line_max: Some(5) };
    claim.takeover = true;
    book.at(1_005, "bob", Command::Claim(claim.clone()));
    book.at(1_006, "cy", Command::Claim(claim));
    book.at(1_007, "op", Command::Reorder { item: item("disk"), actors: vec![actor("cy")] });
    book.at(1_008, "cy", Command::Withdraw { item: item("disk") });
    book.at(1_009, "ada", Command::Renew(Renew { item: item("disk"), token: Token(1), lease_for: Some(Span(31_000)) }));
    book.at(
        1_010,
        "ada",
        Command::RenewAll(RenewAll {
            lease_for: None,
            expected: vec![(item("disk"), Token(1)), (item("a"), Token(9))],
        }),
    );
    book.at(1_011, "ada", Command::Extend(Extend { item: item("disk"), token: Token(1), by: Span(40_000) }));
    let write = |id: &str, token: u64| Write { item: item(id), token: Some(Token(token)), read_at: None };
    let progress = Activity { write: write("disk", 1), kind: ActivityKind::PlanUpdated, note: "1. look".into() };
    book.at(1_012, "ada", Command::Activity(progress));
    book.at(1_013, "ada", Command::AwaitInput(AwaitInput { write: write("disk", 1), question: "Sure?".into() }));
    book.at(1_014, "ada", Command::Resume(write("disk", 1)));
    let edits = vec![
        Edit::Title("Clean /tmp".into()),
        Edit::Priority(7),
        Edit::Labels(vec![label("linux"), label("urgent")]),
        Edit::Body(Part::Data, "{}".into()),
    ];
    let read_at = Some(EventNumber { epoch: Epoch(0), seq: 10 });
    let update = Write { item: item("a"), token: None, read_at };
    book.at(1_015, "dee", Command::Update(Update { write: update, edits, start: false }));
    let releases = vec![Release { item: item("e"), token: None, keep_assignment: true }];
    let claims = vec![Claim::new(item("b")), Claim::new(item("c"))];
    book.at(1_016, "ada", Command::ClaimMany(ClaimMany { claims, releases, all_or_none: true }));
    book.at(1_017, "ada", Command::Reserve(Reserve { item: item("b"), token: Token(2), span: Some(Span(9_000)) }));
    book.at(1_018, "ada", Command::HandOn(HandOn { write: write("c", 3), phase: phase("review") }));
    let mut next = Next::new(queue("ops"));
    next.filter = Filter {
        labels: vec![label("urgent")],
        capabilities: Some(vec![label("ssh")]),
        phase: None,
        mode: Some(RunsIn::Any),
        parent: None,
        ancestor: None,
        priority_min: Some(1),
        priority_max: Some(9),
    };
    next.order = Order::Oldest;
    next.cursor = Some(Cursor { priority: 9, item: ItemNo(1) });
    book.at(1_019, "bob", Command::Next(next));
    let fail = Fail { write: write("a", 4), error: Some("no space".into()), is_final: false };
    book.at(1_020, "bob", Command::Fail(fail));
    book.at(1_021, "bob", Command::Claim(Claim::new(item("d"))));
    let revoke = Revoke { item: item("d"), reason: "wrong host".into(), assign_to: Some(actor("cy")) };
    book.at(1_022, "op", Command::Revoke(revoke));
    book.at(1_023, "dee", Command::Unassign { item: item("d"), actor: actor("cy") });
    book.at(1_024, "dee", Command::Assign { item: item("d"), actor: actor("ada") });
    book.at(1_025, "dee", Command::Cancel(Cancel { item: item("e"), reason: "moot".into(), force: true }));
    book.at(1_026, "dee", Command::Reopen { item: item("e") });
    book.at(1_027, "op", Command::Retry { item: item("e") });
    book.at(1_028, "op", Command::Pause { queue: queue("home") });
    book.at(1_029, "op", Command::Unpause { queue: queue("home") });
    book.at(1_030, "op", Command::Drain { queue: queue("home") });
    let space_policy =
        SpacePolicy { items_max: 1_000, body_bytes_max: 1_000_000, identity: IdentityPolicy::AcceptCached };
    book.at(1_031, "op", Command::SetSpacePolicy(space_policy));
    let worker = Holder::new(actor("ada"), Some(SessionId::new("s1").unwrap()));
    book.at(1_032, "op", Command::DrainWorker { worker });
    let nobody = Holder::new(actor("ada"), None);
    book.at(1_033, "op", Command::RemoveWorker { worker: nobody });
    book.at(1_034, "root", Command::RaiseRules { version: 1 });
    book.at(1_035, "root", Command::Activate);
    book.at(1_036, "root", Command::BeginEpoch { token_floor: Some(Token(1 << 60)) });
    let release = Release { item: item("a"), token: Some(Token(4)), keep_assignment: false };
    book.at(1_037, "bob", Command::Release(release));
    let waiting = |n: usize| {
        let mut new = plain(&format!("waits-{n}"));
        new.depends_on = vec![item("cloud"), item("disk")];
        new
    };
    book.at(1_038, "dee", Command::CreateMany((0..3).map(waiting).collect()));
    book.entries.push(Entry { at: Time(2_000), wall: book.wall(2_000), commands: Vec::new() });
    book.at(1_900, "ada", Command::Complete(Complete { write: write("disk", 1), result: Some("done".into()) }));
    book.together(
        1_901,
        vec![
            ("dee", Command::Cancel(Cancel { item: item("cloud"), reason: String::new(), force: false })),
            ("dee", Command::Cancel(Cancel { item: item("report"), reason: String::new(), force: false })),
        ],
    );
    let mut wait = Claim::new(item("d"));
    wait.on_conflict = OnConflict::Wait { wait_for: None, line_max: None };
    book.together(1_902, vec![("bob", Command::Claim(Claim::new(item("d")))), ("cy", Command::Claim(wait))]);
    // Later commands leave no trace in the records: they are refused before any state is read.
    let mut late = book.request("root", Command::BeginEpochAcceptingClock { token_floor: Some(Token(1 << 60)) });
    late.attempt = Attempt::LateRepeat;
    book.entries.push(Entry { at: Time(1_903), wall: book.wall(1_902), commands: vec![late] });
    book.entries
}

#[derive(Default)]
struct Book {
    entries: Vec<Entry>,
    requests: u32,
}

impl Book {
    fn wall(&self, at: u64) -> Wall {
        Wall(1_790_000_000_000 + at)
    }

    fn at(&mut self, at: u64, who: &str, command: Command) {
        self.together(at, vec![(who, command)]);
    }

    fn together(&mut self, at: u64, commands: Vec<(&str, Command)>) {
        let commands = commands.into_iter().map(|(who, command)| self.request(who, command)).collect();
        self.entries.push(Entry { at: Time(at), wall: self.wall(at), commands });
    }

    fn request(&mut self, who: &str, command: Command) -> Request {
        self.requests += 1;
        let role = match who {
            "dee" => Role::Dispatcher,
            "op" => Role::Operator,
            "root" => Role::Admin,
            _ => Role::Worker,
        };
        let mut caller = names::caller(who, &[role]);
        caller.session = (who == "ada").then(|| SessionId::new("s1").unwrap());
        caller.verified = Verified::FromCache;
        if role == Role::Worker {
            caller.parent = Some(actor("dee"));
        } else {
            caller.kind = ActorKind::User;
        }
        let mut request = names::request(caller, self.requests, command);
        request.space = SpaceName::new("acme").unwrap();
        request.attempt = if self.requests.is_multiple_of(2) { Attempt::Repeat } else { Attempt::First };
        request
    }
}

fn settings() -> Vec<Setting> {
    vec![
        Setting::LeaseFor(Span(60_000)),
        Setting::LeaseMax(Span(600_000)),
        Setting::LeaseMin(Span(500)),
        Setting::Pickup(Span(5_000)),
        Setting::LockDelay(Span(0)),
        Setting::LineMax(100),
        Setting::AttemptsMax(3),
        Setting::Backoff(Backoff { first: Span(2_000), factor_percent: 150, max: Span(60_000) }),
        Setting::Retention(Span(3_600_000)),
        Setting::MaxLeases(50),
        Setting::AtMaxLeases(AtMaxLeases::ReleaseOldest),
        Setting::RequireLease(RequireLease::IfHeld),
        Setting::Disclosure(Disclosure::Open),
        Setting::OnDependencyFailed(OnDependencyFailed::Ignore),
        Setting::Concurrency(500),
        Setting::ReservationMax(Span(86_400_000)),
        Setting::Phases(vec![phase("work"), phase("review"), phase("in_progress")]),
        Setting::Mirrors(vec![(Transition::Completed, phase("review"))]),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
