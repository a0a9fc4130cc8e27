//! A collector, spoken to in plain HTTP/1.1 by the one thread that exports: one request, one connection, no TLS.
//!
//! It blocks that thread, so it must be given to nobody else.

use super::Endpoint;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use std::future::Future;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// From the first byte of a request to the last of its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Of an answer only its first line is read; whoever says more than this is no collector.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

#[derive(Debug)]
pub(super) struct Collector {
    endpoint: Endpoint,
    /// Told once, until it is there again.
    is_away: AtomicBool,
}

impl Collector {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, is_away: AtomicBool::new(false) }
    }

    fn send(&self, request: &Request<Bytes>) -> io::Result<Response<Bytes>> {
        let by = Instant::now() + ANSWER_WITHIN;
        let mut connection = self.connect()?;
        connection.set_write_timeout(Some(ANSWER_WITHIN))?;
        connection.write_all(&self.head(request))?;
        connection.write_all(request.body())?;
        let mut answer = Vec::new();
        let mut piece = [0; 1024];
        while !answer.contains(&b'\n') {
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() || answer.len() as u64 > ANSWER_BYTES_MAX {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
            }
            connection.set_read_timeout(Some(left))?;
            let read = connection.read(&mut piece)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            answer.extend_from_slice(&piece[..read]);
        }
        let status = status(&answer).ok_or_else(|| io::Error::other("what answers there speaks no HTTP"))?;
        Response::builder().status(status).body(Bytes::new()).map_err(io::Error::other)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "its name leads nowhere");
        for address in (self.endpoint.host.as_str(), self.endpoint.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn head(&self, request: &Request<Bytes>) -> Vec<u8> {
        let mut head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n",
            self.endpoint.path,
            self.endpoint.authority(),
            request.body().len()
        )
        .into_bytes();
        for (name, value) in request.headers() {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    fn told(&self, sent: io::Result<Response<Bytes>>) -> io::Result<Response<Bytes>> {
        let why = match &sent {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(answer.status().to_string()),
            Err(error) => Some(error.to_string()),
        };
        match why {
            None => self.is_away.store(false, Ordering::Relaxed),
            Some(why) if !self.is_away.swap(true, Ordering::Relaxed) => {
                let to = self.endpoint.authority();
                tracing::warn!(to, why, "a collector does not take spans: they are dropped until it does");
            }
            Some(_) => {}
        }
        sent
    }
}

impl HttpClient for Collector {
    fn send_bytes<'own, 'answer>(
        &'own self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'answer>>
    where
        'own: 'answer,
        Self: 'answer,
    {
        Box::pin(async move { Ok(self.told(self.send(&request))?) })
    }
}

fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.trim().parse().ok()
}
