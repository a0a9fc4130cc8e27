//! Encodes and decodes all values on disk and between nodes: an envelope around bincode.
//!
//! ```text
//! "Tn"  version  codec  kind u16  length u32  crc32c u32  payload
//! ```
//!
//! The checksum covers the header before it and the payload. The payload holds only our own record types, never those
//! of a library. A kind is never reused, and a field or variant is never moved or removed; a new shape gets a new kind.
//! Golden files test that every kind stays readable.
//!
//! The lease machine's records have no envelope: each begins with its own version byte, and is stored in RocksDB, whose
//! blocks have checksums.

pub mod records;

use serde::Serialize;
use serde::de::DeserializeOwned;

const MAGIC: [u8; 2] = *b"Tn";
/// The version of the envelope.
pub const VERSION: u8 = 1;
/// bincode 2 with its standard configuration.
const BINCODE: u8 = 1;
pub const HEADER_BYTES: usize = 14;

/// The maximum size of a frame or record: a reader never allocates more.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A type that has its own envelope kind.
pub trait Kind: Serialize + DeserializeOwned {
    const KIND: u16;
}

/// Assigns kinds to types.
#[macro_export]
macro_rules! kinds {
    ($($type:ty = $kind:literal),+ $(,)?) => {
        $(impl $crate::codec::Kind for $type {
            const KIND: u16 = $kind;
        })+
    };
}

/// The reason why bytes could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Fewer bytes than a header needs, or than the header states.
    #[error("got {found} bytes, {wanted} are needed")]
    Short { wanted: usize, found: usize },
    #[error("not written by Tenure")]
    NotOurs,
    #[error("envelope version {0}, but this build knows only up to {known}: upgrade this node", known = VERSION)]
    Version(u8),
    #[error("codec {0}, but this build knows only {known}: upgrade this node", known = BINCODE)]
    Codec(u8),
    #[error("got a record of kind {found}, expected kind {wanted}")]
    Kind { wanted: u16, found: u16 },
    #[error("got {bytes} bytes, at most {max} are allowed")]
    TooLong { bytes: usize, max: usize },
    #[error("{0} extra bytes after the value")]
    Trailing(usize),
    #[error("the checksum does not match: damaged")]
    Checksum,
    #[error("malformed: {0}")]
    Malformed(String),
}

impl From<CodecError> for std::io::Error {
    fn from(error: CodecError) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, error)
    }
}

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<PAYLOAD_BYTES_MAX>()
}

/// A valid header, with the length of the payload after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: u16,
    pub length: usize,
    crc: u32,
    covered: [u8; HEADER_BYTES - 4],
}

impl Header {
    /// # Errors
    /// When the bytes do not begin with an envelope that this build reads, or its payload is longer than `max`.
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
    /// When the payload's checksum is wrong, or the payload is not exactly one value.
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

/// Appends the value in its envelope to a buffer.
///
/// # Errors
/// When the value is larger than an envelope may be.
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
/// When the value is larger than an envelope may be.
pub fn encode<T: Kind>(value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(128);
    encode_into(&mut bytes, value)?;
    Ok(bytes)
}

/// Decodes exactly one envelope.
///
/// # Errors
/// When the bytes are not exactly one valid value of this kind.
pub fn decode<T: Kind>(bytes: &[u8]) -> Result<T, CodecError> {
    let header = Header::read(bytes, PAYLOAD_BYTES_MAX)?;
    header.open(&bytes[HEADER_BYTES..])
}
