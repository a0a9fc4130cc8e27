//! A minimal HTTP/2 client that requests much and reads nothing: the window of every answer is one byte.

use super::Target;
use super::http1::connect;
use std::io;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const INITIAL_WINDOW_SIZE: u16 = 4;
/// END_STREAM and END_HEADERS.
const WHOLE: u8 = 5;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(0);
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Below 127 bytes a length is one byte. API keys and paths are shorter.
fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap_or(0).min(126);
    [&[length], &text.as_bytes()[..usize::from(length)]].concat()
}

fn get(stream: u32, path: &str, key: Option<&str>) -> Vec<u8> {
    let mut head = vec![0x82, 0x86, 0x41];
    head.extend(text("tenure"));
    head.push(0x04);
    head.extend(text(path));
    if let Some(key) = key {
        // A literal that is not indexed, with a name that is not in the table.
        head.push(0);
        head.extend(text("authorization"));
        head.extend(text(&format!("Bearer {key}")));
    }
    frame(HEADERS, WHOLE, stream, &head)
}

/// Sends this many requests on one connection and reads one byte of each answer, until the node closes it.
pub(super) async fn ask_and_take_nothing(target: &Target, path: &str, key: Option<&str>, times: u32) -> io::Result<()> {
    let mut stream = connect(target.plan.edge).await?;
    let window = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &1_u32.to_be_bytes()].concat();
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    said.extend(frame(SETTINGS, 0, 0, &window));
    for nth in 0..times {
        let ask = get(2 * nth + 1, path, key);
        target.counts.asked(ask.len());
        said.extend(ask);
    }
    stream.write_all(&said).await?;
    let (mut head, mut payload) = ([0; 9], Vec::new());
    loop {
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        payload.resize(usize::try_from(length).unwrap_or(0), 0);
        stream.read_exact(&mut payload).await?;
        match head[3] {
            // The body, and with it the code, is not read.
            HEADERS => target.counts.heard(format!("head of {}", status(&payload))),
            RST_STREAM => target.counts.heard("reset"),
            GOAWAY => target.counts.heard("GOAWAY"),
            _ => {}
        }
    }
}

/// The status of an answer is its first field: one of the static table, or a literal with the name of one of these.
fn status(head: &[u8]) -> String {
    let known = ["200", "204", "206", "304", "400", "404", "500"];
    match head {
        [first @ 0x88..=0x8e, ..] => known[usize::from(first - 0x88)].to_owned(),
        // Three digits, Huffman-coded or plain.
        [0x08 | 0x48, 0x82 | 0x83, code @ ..] => huffman(code),
        [0x08 | 0x48, 3, code @ ..] => String::from_utf8_lossy(code.get(..3).unwrap_or(code)).into_owned(),
        // From the dynamic table: the same status as an earlier answer.
        _ => "one before".to_owned(),
    }
}

/// Three digits: 0, 1 and 2 have five bits, the others six.
fn huffman(bytes: &[u8]) -> String {
    let bits: u32 = bytes.iter().take(3).fold(0, |bits, byte| bits << 8 | u32::from(*byte));
    let bits = bits << (8 * 3_usize.saturating_sub(bytes.len().min(3)));
    let (mut at, mut digits) = (24, String::new());
    while digits.len() < 3 {
        let five = bits >> (at - 5) & 0x1f;
        if five < 3 {
            at -= 5;
            digits.push(char::from(b'0' + u8::try_from(five).unwrap_or(0)));
        } else {
            at -= 6;
            let six = bits >> at & 0x3f;
            let digit = six
                .checked_sub(0x19)
                .filter(|digit| *digit < 7)
                .map_or(b'?', |digit| b'3' + u8::try_from(digit).unwrap_or(0));
            digits.push(char::from(digit));
        }
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_from_the_table_plain_and_huffman_coded() {
        assert_eq!(status(&[0x88, 0, 0]), "200");
        assert_eq!(status(&[0x08, 3, b'4', b'2', b'9', 0]), "429");
        // 5 (0x1b, six bits), 0 and 3 (0x19): 011011 00000 011001, padded with ones.
        assert_eq!(status(&[0x48, 0x83, 0b0110_1100, 0b0000_1100, 0b1111_1111]), "503");
    }

    #[test]
    fn a_frame_has_its_length_its_kind_and_its_stream() {
        assert_eq!(frame(SETTINGS, 0, 3, &[7]), [0, 0, 1, 4, 0, 0, 0, 0, 3, 7]);
    }
}
