//! The writing side.

use crate::port::{Link, LinkState};
use crate::wrap::capture::{CaptureFile, CaptureFileError};
use graph::port::{PortFault, Sent, TxQueue};
use memory::packet::{Packets, SlotId};
use memory::simd::Tier;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Packets that may wait for the disk.
const BACKLOG: usize = 4096;
/// Longest wait for them to be written in the end.
const PATIENCE: Duration = Duration::from_secs(1);

struct Written {
    timestamp_ns: u64,
    bytes: Box<[u8]>,
}

/// The thread that writes; it ends when the last queue is gone.
#[derive(Debug)]
pub(super) struct Writer {
    thread: JoinHandle<()>,
    fault: Arc<Mutex<Option<String>>>,
}

/// A file is a link that goes down with the first error.
#[derive(Debug)]
struct FileLink(Arc<Mutex<Option<String>>>);

impl Link for FileLink {
    fn state(&self) -> LinkState {
        let works = self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        if works { LinkState::Up } else { LinkState::Down }
    }
}

impl Writer {
    /// Starts it on a file whose interface 0 has been described, with `count` queues for it.
    pub(super) fn start(file: CaptureFile, count: u16) -> std::io::Result<(Self, Vec<Box<dyn TxQueue>>)> {
        let (sender, receiver) = sync_channel(BACKLOG);
        let fault: Arc<Mutex<Option<String>>> = Arc::default();
        let theirs = Arc::clone(&fault);
        let thread = std::thread::Builder::new().name("pcap-writer".into()).spawn(move || {
            if let Err(error) = write(file, &receiver) {
                *theirs.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            }
        })?;
        let queue =
            || -> Box<dyn TxQueue> { Box::new(PcapTx { sender: sender.clone(), fault: Arc::clone(&fault) }) };
        let queues = (0..count).map(|_| queue()).collect();
        Ok((Self { thread, fault }, queues))
    }

    /// Whether it can still write.
    pub(super) fn link(&self) -> Arc<dyn Link> {
        Arc::new(FileLink(Arc::clone(&self.fault)))
    }

    /// Waits until everything is written, but not for long: queues that are still in use hold the thread.
    pub(super) fn finish(self) {
        let end = Instant::now() + PATIENCE;
        while !self.thread.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Writes what comes; whenever nothing more waits, the file is brought up to date.
fn write(mut file: CaptureFile, packets: &Receiver<Written>) -> Result<(), CaptureFileError> {
    file.wait()?;
    while let Ok(packet) = packets.recv() {
        let mut next = Some(packet);
        while let Some(Written { timestamp_ns, bytes }) = next {
            file.packet(0, timestamp_ns, &bytes, bytes.len() as u32, None, "")?;
            next = packets.try_recv().ok();
        }
        file.flush()?;
    }
    Ok(())
}

struct PcapTx {
    sender: SyncSender<Written>,
    fault: Arc<Mutex<Option<String>>>,
}

impl TxQueue for PcapTx {
    fn send(&mut self, _tier: Tier, packets: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let mut sent = Sent::default();
        for slot in slots {
            let len = packets.meta(*slot).len();
            let mut bytes = vec![0; len as usize].into_boxed_slice();
            packets.copy_out(*slot, &mut bytes);
            match self.sender.try_send(Written { timestamp_ns: now, bytes }) {
                Ok(()) => {
                    sent.packets += 1;
                    sent.bytes += u64::from(len);
                }
                Err(TrySendError::Full(_)) => break,
                Err(TrySendError::Disconnected(_)) => {
                    let reason = self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    return Err(PortFault {
                        kind: "file",
                        reason: reason.unwrap_or_else(|| "the file's writer ended".into()),
                    });
                }
            }
        }
        Ok(sent)
    }
}
