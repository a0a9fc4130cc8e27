//! The encoding of values: one version byte, then bincode. It is positional, so fields and variants are only added as
//! new types under a new version. Golden files test that every version stays readable.

use bincode::config::{Configuration, Limit};
use bincode::enc::write::Writer;
use bincode::error::EncodeError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// The version in which new bytes are written.
pub const VERSION: u8 = 1;

/// No record and no entry is larger, and a decoder allocates no more than this.
const DECODE_LIMIT: usize = 128 * 1024 * 1024;

fn config() -> Configuration<bincode::config::LittleEndian, bincode::config::Varint, Limit<DECODE_LIMIT>> {
    bincode::config::standard().with_limit::<DECODE_LIMIT>()
}

/// Why bytes could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    Empty,
    /// The bytes have a later version than this build supports.
    Version(u8),
    /// There are bytes after the end of the value.
    Trailing(usize),
    Malformed(String),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "no bytes"),
            Self::Version(version) => {
                write!(f, "encoding version {version}, this build supports versions up to {VERSION}")
            }
            Self::Trailing(bytes) => write!(f, "{bytes} bytes after the value"),
            Self::Malformed(why) => write!(f, "malformed: {why}"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Appends the encoded value to `bytes`.
pub fn encode_into<T: Serialize>(bytes: &mut Vec<u8>, value: &T) {
    bytes.push(VERSION);
    bincode::serde::encode_into_writer(value, Appender(bytes), config()).expect("our own types encode into memory");
}

struct Appender<'a>(&'a mut Vec<u8>);

impl Writer for Appender<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

#[must_use]
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    encode_into(&mut bytes, value);
    bytes
}

/// The length of the bytes that [`encode`] returns for the value.
#[must_use]
pub fn encoded_len<T: Serialize>(value: &T) -> usize {
    let mut counted = Counter(size_of_val(&VERSION));
    bincode::serde::encode_into_writer(value, &mut counted, config()).expect("our own types encode into memory");
    counted.0
}

struct Counter(usize);

impl Writer for &mut Counter {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0 += bytes.len();
        Ok(())
    }
}

/// # Errors
/// When the bytes are not exactly one value of a version that this build supports.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let (version, rest) = bytes.split_first().ok_or(DecodeError::Empty)?;
    if *version != VERSION {
        return Err(DecodeError::Version(*version));
    }
    let (value, used) =
        bincode::serde::decode_from_slice(rest, config()).map_err(|error| DecodeError::Malformed(error.to_string()))?;
    if used != rest.len() {
        return Err(DecodeError::Trailing(rest.len() - used));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_a_length_above_the_limit_are_rejected() {
        assert_eq!(DECODE_LIMIT, 134_217_728);
        let length = u32::try_from(DECODE_LIMIT + 1).unwrap();
        let mut bytes = vec![VERSION, 252];
        bytes.extend_from_slice(&length.to_le_bytes());
        assert!(matches!(decode::<String>(&bytes), Err(DecodeError::Malformed(_))));
    }

    #[test]
    fn encoded_len_equals_the_length_of_the_bytes() {
        for value in [vec![], vec![String::new()], vec!["x".repeat(300), "y".into()]] {
            assert_eq!(encoded_len(&value), encode(&value).len());
        }
    }

    #[test]
    fn errors_name_the_problem() {
        assert_eq!(DecodeError::Empty.to_string(), "no bytes");
        assert_eq!(DecodeError::Version(9).to_string(), "encoding version 9, this build supports versions up to 1");
        assert_eq!(DecodeError::Trailing(3).to_string(), "3 bytes after the value");
        assert_eq!(DecodeError::Malformed("x".into()).to_string(), "malformed: x");
    }
}
