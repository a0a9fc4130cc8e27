//! Frames, each in an envelope, over a stream of bytes.
//!
//! A reader never holds much more memory than has arrived, and never more than its limit; a writer sends no frame that
//! is too large for its peer. Neither knows what the frames mean.

use raft_store::codec::{CodecError, HEADER_BYTES, Header, Kind, encode_into};
use std::fmt;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes per read, and per write if this much is waiting.
pub const BUFFER_BYTES: usize = 64 * 1024;

/// A buffer larger than this is freed after a large frame.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// Why a frame could not be read or written.
#[derive(Debug)]
pub enum FrameError {
    Io(io::Error),
    /// The peer sent an invalid frame.
    Rubbish(CodecError),
    /// The connection ended within a frame.
    Cut,
}

impl FrameError {
    /// Whether the peer caused the error, not the network.
    #[must_use]
    pub fn is_rubbish(&self) -> bool {
        matches!(self, Self::Rubbish(_))
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Rubbish(error) => write!(f, "invalid frame: {error}"),
            Self::Cut => write!(f, "the connection ended within a frame"),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<CodecError> for FrameError {
    fn from(error: CodecError) -> Self {
        Self::Rubbish(error)
    }
}

#[derive(Debug)]
pub struct FrameReader<R> {
    stream: R,
    max: usize,
    buffer: Vec<u8>,
    /// The buffer has been read up to here.
    start: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub fn new(stream: R, max: usize) -> Self {
        Self { stream, max, buffer: Vec::new(), start: 0 }
    }

    /// From here on frames may have this size.
    pub fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// The next frame, or None if the peer ended the connection after a whole frame.
    ///
    /// Nothing is lost when this future is dropped: the next call continues where it stopped.
    ///
    /// # Errors
    /// After an error the stream cannot be used any more.
    pub async fn next<T: Kind>(&mut self) -> Result<Option<T>, FrameError> {
        loop {
            let here = &self.buffer[self.start..];
            let mut wanted = HEADER_BYTES;
            if here.len() >= HEADER_BYTES {
                let header = Header::read(here, self.max)?;
                if header.kind != T::KIND {
                    return Err(CodecError::Kind { wanted: T::KIND, found: header.kind }.into());
                }
                wanted += header.length;
                if here.len() >= wanted {
                    let value = header.open(&here[HEADER_BYTES..wanted])?;
                    self.start += wanted;
                    return Ok(Some(value));
                }
            }
            if !self.fill(wanted).await? {
                return if self.start == self.buffer.len() { Ok(None) } else { Err(FrameError::Cut) };
            }
        }
    }

    /// Reads available bytes of a frame of this size; false at the end of the stream.
    async fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
            if self.buffer.len() < KEPT_BYTES_MAX && self.buffer.capacity() > KEPT_BYTES_MAX {
                self.buffer.shrink_to(KEPT_BYTES_MAX);
            }
        }
        // The length is not trusted: the buffer grows with the bytes that arrived, up to the stated length.
        let missing = wanted.saturating_sub(self.buffer.len());
        self.buffer.reserve(missing.min(self.buffer.len()).max(BUFFER_BYTES));
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }
}

#[derive(Debug)]
pub struct FrameWriter<W> {
    stream: W,
    max: usize,
    buffer: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    pub fn new(stream: W, max: usize) -> Self {
        Self { stream, max, buffer: Vec::new() }
    }

    /// From here on frames may have this size.
    pub fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// Adds a frame to those that wait to be sent.
    ///
    /// # Errors
    /// When it is too large. Waiting frames are unaffected.
    pub fn push<T: Kind>(&mut self, value: &T) -> Result<(), CodecError> {
        let start = self.buffer.len();
        let fits = encode_into(&mut self.buffer, value).and_then(|()| {
            let bytes = self.buffer.len() - start - HEADER_BYTES;
            if bytes <= self.max { Ok(()) } else { Err(CodecError::TooLong { bytes, max: self.max }) }
        });
        fits.inspect_err(|_| self.buffer.truncate(start))
    }

    /// Whether enough bytes wait for a write.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.buffer.len() >= BUFFER_BYTES
    }

    /// Sends the waiting frames. If this future is dropped early, the stream cannot be used any more.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.buffer).await?;
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_BYTES_MAX);
        self.stream.flush().await
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// When it is too large, or the connection is gone.
    pub async fn send<T: Kind>(&mut self, value: &T) -> Result<(), FrameError> {
        self.push(value)?;
        Ok(self.flush().await?)
    }
}
