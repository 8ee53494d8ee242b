//! A frame on its way from a worker to the thread and back.

/// Bytes of a buffer for frames up to an ordinary MTU, `virtio_net_hdr` included.
const SMALL: usize = 2048;
/// Bytes of a buffer for any frame: 64 KiB, its link header with tags, and the `virtio_net_hdr`.
const LARGE: usize = 66 * 1024;
/// Buffers of each size that a queue keeps for the next frames, and large ones that it keeps while none is on its way: the rest is freed.
const KEPT_SMALL: usize = 256;
const KEPT_LARGE: usize = 64;
const KEPT_IDLE: usize = 8;

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

/// Buffers that are not in use, of one worker's queue.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    small: Vec<Box<[u8]>>,
    large: Vec<Box<[u8]>>,
}

impl Buffers {
    /// A frame of `len` bytes with a header of `prefix` bytes that came in by `rx_if`, not yet filled. `None` for one that is longer than any.
    pub(super) fn frame(&mut self, prefix: usize, len: usize, rx_if: u16) -> Option<Frame> {
        let all = prefix + len;
        let (kept, size) = if all <= SMALL { (&mut self.small, SMALL) } else { (&mut self.large, LARGE) };
        (all <= size).then(|| {
            let buffer = kept.pop().unwrap_or_else(|| vec![0; size].into_boxed_slice());
            Frame { buffer, len: all, prefix, rx_if, outcome: Outcome::Pending }
        })
    }

    /// Takes a frame's buffer back.
    pub(super) fn give_back(&mut self, frame: Frame) {
        let (kept, most) = match frame.buffer.len() {
            SMALL => (&mut self.small, KEPT_SMALL),
            _ => (&mut self.large, KEPT_LARGE),
        };
        if kept.len() < most {
            kept.push(frame.buffer);
        }
    }
}

impl Buffers {
    /// No frame is on its way: frees what a burst needed.
    pub(super) fn trim(&mut self) {
        self.large.truncate(KEPT_IDLE);
    }
}

impl Frame {
    /// Header and room for the frame, to be filled.
    pub(super) fn parts_mut(&mut self) -> (&mut [u8], &mut [u8]) {
        let all = self.buffer.get_mut(..self.len).unwrap_or_default();
        all.split_at_mut_checked(self.prefix).unwrap_or_default()
    }
}
