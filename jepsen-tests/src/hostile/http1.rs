//! A minimal HTTP/1.1 client: the bytes of a request are made once and sent often, and only the status and the code of
//! an answer are parsed. A flooding caller should cost less than its requests.

use super::{AGAIN, Target};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// The time limit for an answer, even from a busy node.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
/// The code of a refusal is within this many first bytes.
const KEPT: usize = 2_048;
const HEAD_MAX: usize = 64 * 1024;

/// A request with an optional body.
pub(super) fn request(method: &str, path: &str, key: Option<&str>, session: Option<&str>, body: &str) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: tenure\r\n");
    for (name, value) in [("authorization: Bearer", key), ("tenure-session:", session)] {
        if let Some(value) = value {
            head += &format!("{name} {value}\r\n");
        }
    }
    if !body.is_empty() {
        head += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    }
    head += "\r\n";
    let mut request = head.into_bytes();
    request.extend(body.as_bytes());
    request
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The code of a refusal.
    pub(super) code: Option<String>,
    /// The beginning of the body.
    pub(super) body: String,
}

impl Answer {
    /// The answer as it is counted.
    pub(super) fn name(&self) -> String {
        match &self.code {
            Some(code) => format!("{} {code}", self.status),
            None => self.status.to_string(),
        }
    }
}

/// A connection that is opened again when it is lost.
#[derive(Debug)]
pub(super) struct Caller {
    target: Target,
    stream: Option<TcpStream>,
    /// Bytes that were read but not parsed yet.
    buffer: Vec<u8>,
}

impl Caller {
    pub(super) fn new(target: &Target) -> Self {
        Self { target: target.clone(), stream: None, buffer: Vec::new() }
    }

    /// Sends the request and counts the answer. `None`: no answer came.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Option<Answer> {
        let counts = self.target.counts.clone();
        let answered = timeout(ANSWERED_WITHIN, self.try_ask(request)).await;
        match answered {
            Ok(Ok(answer)) => {
                counts.heard(answer.name());
                Some(answer)
            }
            failed => {
                counts.heard(if failed.is_err() { "not answered" } else { "closed" });
                self.stream = None;
                self.buffer.clear();
                sleep(AGAIN).await;
                None
            }
        }
    }

    async fn try_ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        if self.stream.is_none() {
            self.stream = Some(connect(self.target.plan.edge).await?);
        }
        let Some(stream) = &mut self.stream else { return Err(io::ErrorKind::NotConnected.into()) };
        let sent = stream.write_all(request).await;
        // It may be refused before all of it is sent; the answer is then already there.
        let answer = read(stream, &mut self.buffer).await;
        self.target.counts.asked(request.len());
        if sent.is_err() {
            self.stream = None;
            self.buffer.clear();
        }
        answer
    }
}

pub(super) async fn connect(at: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(at).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<()> {
    match stream.read_buf(buffer).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Reads one answer; the bytes after it stay in the buffer.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Answer> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let ends = loop {
        if let Some(at) = find(buffer, b"\r\n\r\n") {
            break at + 4;
        }
        if buffer.len() > HEAD_MAX {
            return Err(wrong("the head of the answer does not end"));
        }
        fill(stream, buffer).await?;
    };
    let head = String::from_utf8_lossy(&buffer[..ends]).to_ascii_lowercase();
    buffer.drain(..ends);
    let status = head.get(9..12).and_then(|status| status.parse().ok()).ok_or_else(|| wrong("no status"))?;
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let mut kept = Vec::new();
    if field("transfer-encoding:").is_some_and(|coding| coding.contains("chunked")) {
        while take_chunk(stream, buffer, &mut kept).await? {}
    } else {
        let length = field("content-length:").and_then(|length| length.parse().ok()).unwrap_or(0);
        take(stream, buffer, length, &mut kept).await?;
    }
    let body = String::from_utf8_lossy(&kept).into_owned();
    Ok(Answer { status, code: (status >= 400).then(|| code(&body)).flatten(), body })
}

/// Returns false for the last chunk.
async fn take_chunk(stream: &mut TcpStream, buffer: &mut Vec<u8>, kept: &mut Vec<u8>) -> io::Result<bool> {
    let ends = loop {
        match find(buffer, b"\r\n") {
            Some(at) => break at,
            None => fill(stream, buffer).await?,
        }
    };
    let length = String::from_utf8_lossy(&buffer[..ends]).into_owned();
    buffer.drain(..ends + 2);
    let length = usize::from_str_radix(length.split(';').next().unwrap_or_default().trim(), 16);
    let length = length.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    take(stream, buffer, length, kept).await?;
    take(stream, buffer, 2, &mut Vec::new()).await?;
    Ok(length > 0)
}

async fn take(stream: &mut TcpStream, buffer: &mut Vec<u8>, length: usize, kept: &mut Vec<u8>) -> io::Result<()> {
    let mut left = length;
    while left > 0 {
        if buffer.is_empty() {
            fill(stream, buffer).await?;
        }
        let here = left.min(buffer.len());
        let room = KEPT.saturating_sub(kept.len());
        kept.extend(&buffer[..here.min(room)]);
        buffer.drain(..here);
        left -= here;
    }
    Ok(())
}

/// The status and the code of an answer, as they are counted, from its first bytes. `None`: the bytes are not an
/// answer.
pub(super) fn glance(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3))?;
    Some(code(&text).map_or_else(|| status.to_owned(), |code| format!("{status} {code}")))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// The code in a problem document.
fn code(body: &str) -> Option<String> {
    let (_, behind) = body.split_once("\"code\":\"")?;
    behind.split_once('"').map(|(code, _)| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Parses the answers in these bytes one after another, until the connection ends.
    async fn answers(bytes: &'static [u8]) -> Vec<(u16, Option<String>)> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let telling = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // The bytes arrive in pieces, split at any position.
            for piece in bytes.chunks(7) {
                stream.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        let (mut stream, mut buffer, mut all) = (connect(at).await.unwrap(), Vec::new(), Vec::new());
        while let Ok(answer) = read(&mut stream, &mut buffer).await {
            all.push((answer.status, answer.code));
        }
        telling.await.unwrap();
        all
    }

    #[tokio::test]
    async fn answers_are_separated_with_and_without_a_length() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"code\":\"none\"}\
            HTTP/1.1 429 Too Many Requests\r\ntransfer-encoding: chunked\r\n\r\n10\r\n{\"code\":\"rate_li\r\n7\r\nmited\"}\r\n0\r\n\r\n\
            HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n";
        let limited = Some("rate_limited".to_owned());
        assert_eq!(answers(bytes).await, [(200, None), (429, limited), (408, None)]);
    }

    #[test]
    fn a_request_contains_only_what_it_was_given() {
        let bare = String::from_utf8(request("GET", "/v1/items", None, None, "")).unwrap();
        assert_eq!(bare, "GET /v1/items HTTP/1.1\r\nhost: tenure\r\n\r\n");
        let full = String::from_utf8(request("POST", "/v1/items", Some("k"), Some("s"), "{}")).unwrap();
        assert!(full.contains("\r\nauthorization: Bearer k\r\ntenure-session: s\r\n"), "{full}");
        assert!(full.ends_with("content-length: 2\r\n\r\n{}"), "{full}");
    }
}
