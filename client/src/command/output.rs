//! The standard output of a command, kept as the result of its item.

use std::collections::VecDeque;
use std::io::{self, PipeReader, Read as _};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// A result has at most this many bytes. Bytes that are not UTF-8 become three bytes each, and a body has at most 64 KiB.
const KEPT: usize = 16 * 1024;
/// How long the end of the output may come after the end of the command: a process that left its group may hold it open.
const END_WITHIN: Duration = Duration::from_secs(1);

/// The end of what a command has written.
#[derive(Default)]
struct Tail {
    bytes: VecDeque<u8>,
    left_out: usize,
}

/// Reads the output of a command while it runs.
pub(crate) struct Output {
    tail: Arc<Mutex<Tail>>,
    ended: oneshot::Receiver<()>,
}

impl Output {
    /// # Errors
    /// When no pipe can be made.
    pub(crate) fn of(command: &mut Command) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        command.stdout(writer);
        let tail = Arc::<Mutex<Tail>>::default();
        let (end, ended) = oneshot::channel();
        let filled = tail.clone();
        std::thread::spawn(move || {
            read(reader, &filled);
            // Nobody may wait for it any more.
            let _ = end.send(());
        });
        Ok(Self { tail, ended })
    }

    /// The output of a command that has ended. None: it has written nothing.
    pub(crate) async fn text(self) -> Option<String> {
        // Without the end, this is what has arrived.
        let _ = timeout(END_WITHIN, self.ended).await;
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).text()
    }
}

fn read(mut reader: PipeReader, tail: &Mutex<Tail>) {
    let mut part = [0; 8 * 1024];
    // After an error there is no more output.
    while let Ok(count @ 1..) = reader.read(&mut part) {
        tail.lock().unwrap_or_else(PoisonError::into_inner).add(&part[..count]);
    }
}

impl Tail {
    fn add(&mut self, part: &[u8]) {
        self.bytes.extend(part);
        let excess = self.bytes.len().saturating_sub(KEPT);
        self.bytes.drain(..excess);
        self.left_out += excess;
    }

    fn text(&mut self) -> Option<String> {
        let text = String::from_utf8_lossy(self.bytes.make_contiguous());
        let text = text.trim_end();
        match self.left_out {
            0 => Some(text.to_owned()).filter(|text| !text.is_empty()),
            left_out => Some(format!("[{left_out} bytes of output before this are left out]\n{text}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_output_is_kept() {
        let mut tail = Tail::default();
        assert_eq!(tail.text(), None);
        tail.add(b"done\n\n");
        assert_eq!(tail.text().as_deref(), Some("done"));
        tail.add(&vec![b'x'; KEPT]);
        let text = tail.text().unwrap();
        assert!(text.starts_with("[6 bytes of output before this are left out]\nxxx"), "{text}");
        tail.add(&[0xff; KEPT]);
        assert!(tail.text().unwrap().len() < 64 * 1024);
    }
}
