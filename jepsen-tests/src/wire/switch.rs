//! The switch: reads the packets of every device and writes each to the device of its destination, as the link decides.
//!
//! One thread for each device; a packet of a link without trouble is written by the thread that read it. Delayed
//! packets wait in one bounded queue.

use super::link::{Links, Verdict};
use super::{NETWORK, Port, SEATS, port_at};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use tun_rs::{DeviceBuilder, SyncDevice};

/// Larger than usual, so that a snapshot needs fewer packets.
const MTU: u16 = 9_000;
/// The maximum number of waiting packets: about 100 MB of the largest.
const LATE_MAX: usize = 12_000;
const GONE_WITHIN: Duration = Duration::from_secs(2);

/// The device of a place. Must be called in its namespace.
pub(super) fn device(port: Port, host: Ipv4Addr) -> io::Result<SyncDevice> {
    DeviceBuilder::new().name(format!("wire{port}")).mtu(MTU).ipv4(host, 24, None::<Ipv4Addr>).build_sync()
}

#[derive(Debug)]
pub(super) struct Switch {
    shared: Arc<Shared>,
    threads: Threads,
}

/// The threads that read and write packets. They notice the end of the switch by the packet that each place sends at
/// its end, so this is dropped after the places, and waits until the threads have released the devices.
#[derive(Debug, Default)]
pub(super) struct Threads(Vec<JoinHandle<()>>);

impl Drop for Threads {
    fn drop(&mut self) {
        let by = Instant::now() + GONE_WITHIN;
        // A thread that is left all the same holds only its device.
        while self.0.iter().any(|thread| !thread.is_finished()) && Instant::now() < by {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

struct Shared {
    links: Arc<Links>,
    devices: Vec<OnceLock<SyncDevice>>,
    late: Mutex<Late>,
    sooner: Condvar,
    stopped: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

#[derive(Default)]
struct Late {
    queue: BinaryHeap<Reverse<Packet>>,
    number: u64,
}

/// Ordered by when it is due, then by when it arrived.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    due: Instant,
    number: u64,
    to: Port,
    bytes: Vec<u8>,
}

impl Switch {
    pub(super) fn new(links: Arc<Links>) -> Self {
        let devices = (0..=SEATS).map(|_| OnceLock::new()).collect();
        let shared =
            Shared { links, devices, late: Mutex::default(), sooner: Condvar::new(), stopped: AtomicBool::new(false) };
        Self { shared: Arc::new(shared), threads: Threads::default() }
    }

    pub(super) fn plug(&mut self, port: Port, device: SyncDevice) -> io::Result<()> {
        self.shared.devices[port as usize].set(device).map_err(|_| io::Error::other("the port is taken"))?;
        let reading = self.shared.clone();
        self.threads.0.push(Builder::new().name(format!("wire {port}")).spawn(move || reading.read(port))?);
        if self.threads.0.len() == 1 {
            let sending = self.shared.clone();
            self.threads.0.push(Builder::new().name("wire late".into()).spawn(move || sending.send_late())?);
        }
        Ok(())
    }

    pub(super) fn take_threads(&mut self) -> Threads {
        std::mem::take(&mut self.threads)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // Under the lock, so that a thread that checks before it waits cannot miss it.
        let late = self.shared.late.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.stopped.store(true, Ordering::Release);
        drop(late);
        self.shared.sooner.notify_all();
    }
}

impl Shared {
    fn read(&self, from: Port) {
        let Some(device) = self.devices[from as usize].get() else { return };
        let mut buffer = vec![0; 65_536];
        while !self.stopped.load(Ordering::Acquire) {
            match device.recv(&mut buffer) {
                Ok(length) => self.switch(from, &buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Its namespace is being removed.
                Err(_) => return,
            }
        }
    }

    fn switch(&self, from: Port, packet: &[u8]) {
        let Some(to) = destination(packet) else { return };
        match self.links.verdict(from, to) {
            Verdict::Now => self.write(to, packet),
            Verdict::Drop => {}
            Verdict::Later { after, twice } => {
                let due = Instant::now() + after;
                for _ in 0..=u8::from(twice) {
                    self.put_off(from, to, due, packet);
                }
            }
        }
    }

    fn put_off(&self, from: Port, to: Port, due: Instant, packet: &[u8]) {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        if late.queue.len() >= LATE_MAX {
            return self.links.overflowed(from, to);
        }
        late.number += 1;
        let number = late.number;
        late.queue.push(Reverse(Packet { due, number, to, bytes: packet.to_vec() }));
        self.sooner.notify_one();
    }

    fn send_late(&self) {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.stopped.load(Ordering::Acquire) {
            let wait = late.queue.peek().map(|Reverse(first)| first.due.saturating_duration_since(Instant::now()));
            match wait {
                None => late = self.sooner.wait(late).unwrap_or_else(PoisonError::into_inner),
                Some(wait) if !wait.is_zero() => {
                    late = self.sooner.wait_timeout(late, wait).unwrap_or_else(PoisonError::into_inner).0;
                }
                Some(_) => {
                    let due = late.queue.pop();
                    drop(late);
                    if let Some(Reverse(packet)) = due {
                        self.write(packet.to, &packet.bytes);
                    }
                    late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn write(&self, to: Port, packet: &[u8]) {
        if let Some(device) = self.devices[to as usize].get() {
            // A full queue loses packets, as in any network.
            let _ = device.send(packet);
        }
    }
}

fn destination(packet: &[u8]) -> Option<Port> {
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let [a, b, c, host] = *packet.get(16..20)?.first_chunk::<4>()?;
    if is_v4 && [a, b, c] == NETWORK { port_at(host) } else { None }
}
