//! The one place where values become bytes on disk and between nodes: an envelope around bincode.
//!
//! ```text
//! "Tn"  version  codec  kind u16  length u32  crc32c u32  payload
//! ```
//!
//! The checksum covers the header before it and the payload. Our own record types stand in it, never those of a
//! library: a kind is never reused, a field or variant never moved or removed; a new shape is a new kind. Golden
//! files keep every kind readable.
//!
//! The lease machine's records are not wrapped: each begins with a version byte of its own, and stands in a store
//! whose blocks are checksummed.

pub mod records;

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

const MAGIC: [u8; 2] = *b"Tn";
/// Of the envelope.
pub const VERSION: u8 = 1;
/// bincode 2, standard configuration.
const BINCODE: u8 = 1;
pub const HEADER_BYTES: usize = 14;

/// No frame and no record is larger: a reader allocates nothing beyond it.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A type that has an envelope of its own.
pub trait Kind: Serialize + DeserializeOwned {
    const KIND: u16;
}

/// Gives types their numbers.
#[macro_export]
macro_rules! kinds {
    ($($type:ty = $kind:literal),+ $(,)?) => {
        $(impl $crate::codec::Kind for $type {
            const KIND: u16 = $kind;
        })+
    };
}

/// Why bytes are not what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// Shorter than a header or than the header says.
    Short {
        wanted: usize,
        found: usize,
    },
    NotOurs,
    Version(u8),
    Codec(u8),
    Kind {
        wanted: u16,
        found: u16,
    },
    TooLong {
        bytes: usize,
        max: usize,
    },
    Trailing(usize),
    Checksum,
    Malformed(String),
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { wanted, found } => write!(f, "{found} bytes where {wanted} are needed"),
            Self::NotOurs => write!(f, "not written by Tenure"),
            Self::Version(version) => {
                write!(f, "envelope version {version}, this build knows up to {VERSION}: upgrade this node")
            }
            Self::Codec(codec) => write!(f, "codec {codec}, this build knows only {BINCODE}: upgrade this node"),
            Self::Kind { wanted, found } => write!(f, "a record of kind {found} where kind {wanted} belongs"),
            Self::TooLong { bytes, max } => write!(f, "{bytes} bytes, at most {max} are allowed"),
            Self::Trailing(bytes) => write!(f, "{bytes} bytes behind the value"),
            Self::Checksum => write!(f, "the checksum does not match: damaged"),
            Self::Malformed(why) => write!(f, "malformed: {why}"),
        }
    }
}

impl std::error::Error for CodecError {}

impl From<CodecError> for std::io::Error {
    fn from(error: CodecError) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, error)
    }
}

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<PAYLOAD_BYTES_MAX>()
}

/// A header that was found to be ours, and how much comes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: u16,
    pub length: usize,
    crc: u32,
    covered: [u8; HEADER_BYTES - 4],
}

impl Header {
    /// # Errors
    /// When the bytes begin no envelope that this build reads, or one longer than `max`.
    pub fn read(bytes: &[u8], max: usize) -> Result<Self, CodecError> {
        let Some((header, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(CodecError::Short { wanted: HEADER_BYTES, found: bytes.len() });
        };
        let [m0, m1, version, codec, k0, k1, l0, l1, l2, l3, c0, c1, c2, c3] = *header;
        if [m0, m1] != MAGIC {
            return Err(CodecError::NotOurs);
        }
        if version != VERSION {
            return Err(CodecError::Version(version));
        }
        if codec != BINCODE {
            return Err(CodecError::Codec(codec));
        }
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let max = max.min(PAYLOAD_BYTES_MAX);
        if length > max {
            return Err(CodecError::TooLong { bytes: length, max });
        }
        Ok(Self {
            kind: u16::from_le_bytes([k0, k1]),
            length,
            crc: u32::from_le_bytes([c0, c1, c2, c3]),
            covered: [m0, m1, version, codec, k0, k1, l0, l1, l2, l3],
        })
    }

    /// # Errors
    /// When the payload is not the one that was written, or not one whole value.
    pub fn open<T: Kind>(&self, payload: &[u8]) -> Result<T, CodecError> {
        if self.kind != T::KIND {
            return Err(CodecError::Kind { wanted: T::KIND, found: self.kind });
        }
        if payload.len() < self.length {
            return Err(CodecError::Short { wanted: self.length, found: payload.len() });
        }
        if payload.len() > self.length {
            return Err(CodecError::Trailing(payload.len() - self.length));
        }
        if crc32c::crc32c_append(crc32c::crc32c(&self.covered), payload) != self.crc {
            return Err(CodecError::Checksum);
        }
        let (value, used) = bincode::serde::decode_from_slice(payload, config())
            .map_err(|error| CodecError::Malformed(error.to_string()))?;
        if used == payload.len() { Ok(value) } else { Err(CodecError::Trailing(payload.len() - used)) }
    }
}

/// Appends the value in its envelope.
///
/// # Errors
/// When it is larger than any envelope may be.
pub fn encode_into<T: Kind>(bytes: &mut Vec<u8>, value: &T) -> Result<(), CodecError> {
    let start = bytes.len();
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[VERSION, BINCODE]);
    bytes.extend_from_slice(&T::KIND.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    let payload = bytes.len();
    bincode::serde::encode_into_std_write(value, bytes, config())
        .map_err(|error| CodecError::Malformed(error.to_string()))?;
    let length = bytes.len() - payload;
    if length > PAYLOAD_BYTES_MAX {
        bytes.truncate(start);
        return Err(CodecError::TooLong { bytes: length, max: PAYLOAD_BYTES_MAX });
    }
    let length = u32::try_from(length).expect("bounded above");
    bytes[payload - 8..payload - 4].copy_from_slice(&length.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[start..payload - 4]), &bytes[payload..]);
    bytes[payload - 4..payload].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// # Errors
/// When it is larger than any envelope may be.
pub fn encode<T: Kind>(value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(128);
    encode_into(&mut bytes, value)?;
    Ok(bytes)
}

/// Reads exactly one envelope.
///
/// # Errors
/// When the bytes are not one whole value of this kind, as it was written.
pub fn decode<T: Kind>(bytes: &[u8]) -> Result<T, CodecError> {
    let header = Header::read(bytes, PAYLOAD_BYTES_MAX)?;
    header.open(&bytes[HEADER_BYTES..])
}
