//! The socket of a connection, plain or TLS. It notes incoming bytes and the closing in the connection's pulse.

use super::pulse::Pulse;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Maximum number of incoming bytes to drop after the last response.
const LINGER_BYTES_MAX: usize = 256 * 1024;

pub(super) struct Socket {
    stream: Stream,
    pulse: Arc<Pulse>,
    is_shut: bool,
    thrown_away: usize,
}

pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    pub(super) fn new(stream: Stream, pulse: Arc<Pulse>) -> Self {
        Self { stream, pulse, is_shut: false, thrown_away: 0 }
    }
}

impl Stream {
    fn read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(self.stream.read(cx, buf))?;
        if buf.filled().len() > before {
            self.pulse.has_read();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Closes the sending side, then reads for a moment. A socket that is closed with unread bytes is reset, and the
    /// caller would lose the response.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_shut {
            let shut = match &mut self.stream {
                Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
                Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            };
            ready!(shut)?;
            self.is_shut = true;
        }
        self.pulse.lingers();
        let mut bytes = [0; 1024];
        while self.thrown_away < LINGER_BYTES_MAX {
            let mut buf = ReadBuf::new(&mut bytes);
            match ready!(self.stream.read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => self.thrown_away += buf.filled().len(),
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}
