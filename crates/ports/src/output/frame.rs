//! A frame on its way from a worker to the thread and back.

use std::cell::RefCell;

/// Bytes of a buffer for frames up to an ordinary MTU, `virtio_net_hdr` included.
const SMALL: usize = 2048;
/// Bytes of a buffer for any frame: 64 KiB, its link header with tags, and the `virtio_net_hdr`.
const LARGE: usize = 66 * 1024;
/// Buffers of each size that a thread keeps for the next frames: 6 MiB. The rest is freed.
const KEPT_SMALL: usize = 1024;
const KEPT_LARGE: usize = 64;

/// What the kernel said of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Not written yet.
    #[default]
    Pending,
    /// The kernel took it.
    Sent,
    /// No room, or the port is suspended.
    Full,
    /// The device takes no frame like this.
    Refused,
    /// The device is set down or gone.
    Down,
}

/// A frame with the header of the device in front.
#[derive(Debug)]
pub(super) struct Frame {
    buffer: Box<[u8]>,
    /// Bytes used, the header included.
    len: usize,
    /// Bytes of the header.
    prefix: usize,
    /// Interface that it came in by.
    pub(super) rx_if: u16,
    pub(super) outcome: Outcome,
}

impl Frame {
    /// What is written to the device.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }

    /// Bytes of the frame without the header.
    pub(super) const fn payload(&self) -> usize {
        self.len - self.prefix
    }

    /// Bytes of memory that it holds.
    pub(super) const fn memory(&self) -> usize {
        self.buffer.len()
    }
}

thread_local! {
    /// Of a worker: its queues have them in turn, so that they are warm, and as many ports as there are need no more.
    static BUFFERS: RefCell<Buffers> = const { RefCell::new(Buffers { small: Vec::new(), large: Vec::new() }) };
}

/// Buffers that are not in use. The last one that was given back comes first.
#[derive(Debug)]
struct Buffers {
    small: Vec<Box<[u8]>>,
    large: Vec<Box<[u8]>>,
}

impl Frame {
    /// A frame of `len` bytes with a header of `prefix` bytes that came in by `rx_if`, not yet filled. `None` for one that is longer than any.
    pub(super) fn new(prefix: usize, len: usize, rx_if: u16) -> Option<Self> {
        let all = prefix + len;
        let size = if all <= SMALL { SMALL } else { LARGE };
        (all <= size).then(|| {
            let kept = BUFFERS.with_borrow_mut(|buffers| buffers.of(size).0.pop());
            let buffer = kept.unwrap_or_else(|| vec![0; size].into_boxed_slice());
            Self { buffer, len: all, prefix, rx_if, outcome: Outcome::Pending }
        })
    }

    /// Gives its buffer back.
    pub(super) fn give_back(self) {
        BUFFERS.with_borrow_mut(|buffers| {
            let (kept, most) = buffers.of(self.buffer.len());
            if kept.len() < most {
                kept.push(self.buffer);
            }
        });
    }
}

impl Buffers {
    /// Those of a size, and how many are kept.
    const fn of(&mut self, size: usize) -> (&mut Vec<Box<[u8]>>, usize) {
        match size {
            SMALL => (&mut self.small, KEPT_SMALL),
            _ => (&mut self.large, KEPT_LARGE),
        }
    }
}

impl Frame {
    /// Header and room for the frame, to be filled.
    pub(super) fn parts_mut(&mut self) -> (&mut [u8], &mut [u8]) {
        let all = self.buffer.get_mut(..self.len).unwrap_or_default();
        all.split_at_mut_checked(self.prefix).unwrap_or_default()
    }
}
