//! Splits a byte stream into frames of server-sent events.

/// Maximum size of a frame, more than any event has.
const FRAME_MAX: usize = 4 * 1024 * 1024;

/// One frame: the lines between two empty lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) id: Option<String>,
    pub(super) event: Option<String>,
    pub(super) data: String,
}

#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Bytes that have not been returned as a frame yet.
    bytes: Vec<u8>,
    /// Where the search for the next end continues.
    searched: usize,
}

impl Frames {
    /// Adds bytes. Returns false if the frame is too long.
    pub(super) fn add(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        self.bytes.len() <= FRAME_MAX
    }

    /// The next complete frame.
    pub(super) fn next(&mut self) -> Option<Frame> {
        let from = self.searched.saturating_sub(1);
        let Some(end) = self.bytes[from..].windows(2).position(|pair| pair == b"\n\n") else {
            self.searched = self.bytes.len();
            return None;
        };
        let frame: Vec<u8> = self.bytes.drain(..from + end + 2).collect();
        self.searched = 0;
        Some(parse(&String::from_utf8_lossy(&frame)))
    }
}

fn parse(text: &str) -> Frame {
    let mut frame = Frame::default();
    for line in text.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => frame.id = Some(value.to_owned()),
            "event" => frame.event = Some(value.to_owned()),
            "data" => {
                if !frame.data.is_empty() {
                    frame.data.push('\n');
                }
                frame.data += value;
            }
            _ => {}
        }
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_do_not_depend_on_where_the_bytes_are_split() {
        let text = ": heartbeat\nid: 0.7\n\nid: 0.8\nevent: granted\ndata: {\"a\":\"ä\"}\n\nid: 0.9\n\n";
        let frame = |id: &str, event: Option<&str>, data: &str| Frame {
            id: Some(id.to_owned()),
            event: event.map(ToOwned::to_owned),
            data: data.to_owned(),
        };
        let all = [frame("0.7", None, ""), frame("0.8", Some("granted"), "{\"a\":\"ä\"}"), frame("0.9", None, "")];
        for size in 1..text.len() {
            let mut frames = Frames::default();
            let mut seen = Vec::new();
            for part in text.as_bytes().chunks(size) {
                assert!(frames.add(part));
                while let Some(frame) = frames.next() {
                    seen.push(frame);
                }
            }
            assert_eq!(seen, all, "in parts of {size}");
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_rejected() {
        let mut frames = Frames::default();
        assert!(frames.add(&vec![b'x'; FRAME_MAX]));
        assert!(!frames.add(b"x"));
    }
}
