//! A collector, reached by plain HTTP/1.1: one request per connection, no TLS. Calls block their thread.

use super::Endpoint;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// Limit from the first byte of a request to the first line of its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// A server with a longer first line is not a collector.
const LINE_BYTES_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Collector {
    endpoint: Endpoint,
    /// Set while the collector is unavailable, so that this is logged once.
    is_away: AtomicBool,
}

impl Collector {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, is_away: AtomicBool::new(false) }
    }

    /// Sends this and returns whether the collector accepted it.
    pub(super) fn take(&self, body: &[u8]) -> bool {
        let why = match self.send(body) {
            Ok(200..=299) => None,
            Ok(status) => Some(format!("it answered {status}")),
            Err(error) => Some(error.to_string()),
        };
        let was_away = self.is_away.swap(why.is_some(), Ordering::Relaxed);
        if let Some(why) = &why
            && !was_away
        {
            let to = self.endpoint.authority();
            tracing::warn!(to, why, "the collector does not accept spans: they are dropped until it does");
        }
        why.is_none()
    }

    /// Returns the status of the answer.
    fn send(&self, body: &[u8]) -> io::Result<u16> {
        let by = Instant::now() + CONNECT_WITHIN + ANSWER_WITHIN;
        let mut connection = self.connect()?;
        connection.set_write_timeout(Some(ANSWER_WITHIN))?;
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/x-protobuf\r\n\
             content-length: {}\r\n\r\n",
            self.endpoint.path,
            self.endpoint.authority(),
            body.len()
        );
        connection.write_all(head.as_bytes())?;
        connection.write_all(body)?;
        let mut line = Vec::new();
        let mut piece = [0; LINE_BYTES_MAX];
        while !line.contains(&b'\n') && line.len() < LINE_BYTES_MAX {
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
            }
            connection.set_read_timeout(Some(left))?;
            let read = connection.read(&mut piece)?;
            if read == 0 {
                break;
            }
            line.extend_from_slice(&piece[..read]);
        }
        status(&line).ok_or_else(|| io::Error::other("the answer is not HTTP"))
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "host name did not resolve");
        for address in (self.endpoint.host.as_str(), self.endpoint.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_the_second_word_of_http() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\nx: y"), Some(200));
        assert_eq!(status(b"HTTP/1.0 503\r\n"), Some(503));
        for other in [&b""[..], b"SSH-2.0", b"HTTP/2 200", b"HTTP/1.1 abc", b"\xff\xfe 200"] {
            assert_eq!(status(other), None, "{other:?}");
        }
    }
}
