//! A resource for commands under a lease: a server that records the time of each write and rejects writes with an older
//! token than it has seen.
//!
//! A writer sends a line `‹item› ‹token› ‹who› begins` or `… ends`, and gets the answer `taken`, `refused` or `done
//! already`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// For `bash`: defines `says`, which sends a line and reads the answer.
const WRITER: &str = r#"
exec 3<> "/dev/tcp/127.0.0.1/$RESOURCE"
says() { echo "$TENURE_ITEM $TENURE_TOKEN $1 $2" >&3 && read -r answer <&3; }
"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Taken,
    /// A newer holder has written.
    Refused,
    /// The item has already ended; another end changes nothing.
    DoneAlready,
}

#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) item: String,
    pub(crate) token: u64,
    pub(crate) who: String,
    pub(crate) is_end: bool,
    pub(crate) answer: Answer,
    /// In milliseconds since 1970.
    pub(crate) at: u64,
}

/// The writes in the order of arrival.
type Writes = Arc<Mutex<Vec<Write>>>;

pub(crate) struct Resource {
    pub(crate) port: u16,
    writes: Writes,
    _task: AbortOnDropHandle<()>,
}

impl Resource {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let writes = Writes::default();
        let log = writes.clone();
        let task = tokio::spawn(async move {
            // Dropped with this task: writers then get no answer and end.
            let mut writers = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                writers.spawn(serve(stream, log.clone()));
            }
        });
        Self { port, writes, _task: AbortOnDropHandle::new(task) }
    }

    /// A script in which `says WHO begins` and `says WHO ends` write to this resource and store its answer in
    /// `$answer`.
    pub(crate) fn script(&self, rest: &str) -> String {
        format!("RESOURCE={}\n{WRITER}\n{rest}", self.port)
    }

    pub(crate) fn writes(&self) -> Vec<Write> {
        self.writes.lock().unwrap().clone()
    }

    pub(crate) fn writes_of(&self, who: &str) -> Vec<Write> {
        self.writes().into_iter().filter(|write| write.who == who).collect()
    }

    /// The number of accepted ends of each item.
    pub(crate) fn ends(&self) -> BTreeMap<String, usize> {
        let mut ends = BTreeMap::new();
        for write in self.writes().into_iter().filter(|write| write.is_end && write.answer == Answer::Taken) {
            *ends.entry(write.item).or_default() += 1;
        }
        ends
    }
}

async fn serve(stream: TcpStream, writes: Writes) {
    let (from, mut to) = stream.into_split();
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let words: Vec<&str> = line.split(' ').collect();
        let [item, token, who, what] = words[..] else { panic!("{line:?} is not a valid line") };
        let answer = take(&writes, item, token.parse().unwrap(), who, what == "ends");
        let said = match answer {
            Answer::Taken => "taken\n",
            Answer::Refused => "refused\n",
            Answer::DoneAlready => "done already\n",
        };
        if to.write_all(said.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn take(writes: &Writes, item: &str, token: u64, who: &str, is_end: bool) -> Answer {
    let mut writes = writes.lock().unwrap();
    let of_item = || writes.iter().filter(|write| write.item == item && write.answer != Answer::Refused);
    let answer = if of_item().any(|write| write.token > token) {
        Answer::Refused
    } else if is_end && of_item().any(|write| write.is_end) {
        Answer::DoneAlready
    } else {
        Answer::Taken
    };
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let at = u64::try_from(at).unwrap();
    writes.push(Write { item: item.to_owned(), token, who: who.to_owned(), is_end, answer, at });
    answer
}
