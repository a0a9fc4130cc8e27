//! Checks the write-ahead files before RocksDB replays them. Only reads.
//!
//! RocksDB tolerates an incomplete record at the end, and must: a crash leaves one, and it was never acknowledged. But
//! near the end of a file it also treats a damaged *length* as an incomplete record, and then silently drops every
//! complete record after it. This check tells the two apart: after an incomplete record there can be no complete
//! record, in this file or a later one.
//!
//! A file is a sequence of blocks, and a block is a sequence of records, each `crc32c u32, length u16, type u8,
//! payload`. A record that does not fit into its block is split. The checksum covers type and payload, and is masked.

use super::open_error::OpenError;
use std::fs;
use std::path::{Path, PathBuf};

const BLOCK_BYTES: usize = 32 * 1024;
const HEADER_BYTES: usize = 7;
/// The types of records with data; the type between them is a middle piece.
const WHOLE: u8 = 1;
const FIRST: u8 = 2;
const LAST: u8 = 4;

pub(super) fn check(path: &Path) -> Result<(), OpenError> {
    let mut cut: Option<String> = None;
    for file in files(path)? {
        let bytes = fs::read(&file).map_err(|error| OpenError::disk(path, error))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let found = scan(&bytes);
        if let Some(earlier) = &cut
            && found.records > 0
        {
            return Err(OpenError::damaged(path, format!("{earlier}, but {name} continues after it")));
        }
        if let Some(offset) = found.broken {
            if let Some(whole) = whole_record_behind(&bytes, offset) {
                let why = format!("{name} is damaged at byte {offset}, but a complete record follows at byte {whole}");
                return Err(OpenError::damaged(path, why));
            }
            cut = Some(format!("{name} ends at byte {offset} in the middle of a record"));
        }
    }
    Ok(())
}

/// In the order in which they were written.
fn files(path: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(OpenError::disk(path, error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|error| OpenError::disk(path, error))?.path();
        let number = file.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let (Some(number), Some("log")) = (number, file.extension().and_then(|extension| extension.to_str())) {
            files.push((number, file));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, file)| file).collect())
}

struct Scan {
    records: usize,
    /// The position where the complete records end, if not at the end of the file.
    broken: Option<usize>,
}

fn scan(bytes: &[u8]) -> Scan {
    let mut records = 0;
    let mut unfinished = false;
    for (nth, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
        let mut at = 0;
        loop {
            let offset = nth * BLOCK_BYTES + at;
            let rest = &block[at..];
            if rest.len() < HEADER_BYTES {
                if rest.iter().any(|byte| *byte != 0) {
                    return Scan { records, broken: Some(offset) };
                }
                break;
            }
            // Zeros are not a record, although RocksDB skips them.
            let Some(length) = record(rest).filter(|_| rest[..HEADER_BYTES] != [0; HEADER_BYTES]) else {
                return Scan { records, broken: Some(offset) };
            };
            match rest[6] {
                FIRST => unfinished = true,
                WHOLE | LAST => unfinished = false,
                _ => {}
            }
            records += usize::from(is_data(rest[6]));
            at += length;
        }
    }
    Scan { records, broken: unfinished.then_some(bytes.len()) }
}

fn is_data(kind: u8) -> bool {
    (WHOLE..=LAST).contains(&kind)
}

/// The position of a complete record after `offset`. In the same block it may begin at any byte, later only at the
/// beginning of a block.
fn whole_record_behind(bytes: &[u8], offset: usize) -> Option<usize> {
    let next_block = (offset / BLOCK_BYTES + 1) * BLOCK_BYTES;
    let block = &bytes[..next_block.min(bytes.len())];
    let is_whole = |bytes: &[u8]| bytes.get(6).is_some_and(|kind| is_data(*kind)) && record(bytes).is_some();
    let near = (offset + 1..block.len()).find(|at| is_whole(&block[*at..]));
    near.or_else(|| {
        (next_block..bytes.len())
            .step_by(BLOCK_BYTES)
            .find(|at| is_whole(&bytes[*at..bytes.len().min(at + BLOCK_BYTES)]))
    })
}

/// The length of the record that begins here, if it is complete.
fn record(block: &[u8]) -> Option<usize> {
    let (header, rest) = block.split_first_chunk::<HEADER_BYTES>()?;
    let [c0, c1, c2, c3, l0, l1, kind] = *header;
    let payload = rest.get(..usize::from(u16::from_le_bytes([l0, l1])))?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&[kind]), payload);
    let masked = crc.rotate_right(15).wrapping_add(0xa282_ead8);
    (masked == u32::from_le_bytes([c0, c1, c2, c3])).then_some(HEADER_BYTES + payload.len())
}
