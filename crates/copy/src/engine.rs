//! What every engine can do.

use memory::packet::Bodies;
use memory::simd::Simd;

/// Bytes to be copied. Plain addresses: what holds for them, [`Engine::push`] says.
#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    /// Where to.
    pub to: *mut u8,
    /// Where from.
    pub from: *const u8,
    /// How many.
    pub len: u32,
}

/// Copies bytes, now or later.
///
/// Transfers are *pushed* one by one, *submitted* together (once per vector, so that a device gets them in one go), and reported as done in
/// the order in which they were pushed, whatever the order in which they were done. None is ever lost: what a device can't do, the
/// CPU does.
///
/// Whoever drops an engine has no use for what it hasn't reported: what wasn't submitted is forgotten, and nothing is read or written any
/// more when it has been dropped.
pub trait Engine: Send {
    /// Takes a transfer on.
    ///
    /// # Safety
    /// Until it is reported as done, or the engine has been dropped, the source must be readable and the destination writable, from any thread. They may overlap; then it
    /// isn't said which of the source's bytes end up in the destination. Both may be changed by others meanwhile.
    #[allow(unsafe_code)]
    unsafe fn push(&mut self, transfer: Transfer);

    /// Hands on what was pushed.
    fn submit(&mut self);

    /// Transfers that were done since the last time, from the front of those pushed.
    fn poll(&mut self) -> usize;

    /// Submits, and waits until all are done; they count as reported.
    fn finish(&mut self);

    /// Whether it copies at all for the moment. If not, what is pushed is copied at once by the CPU: whoever can may do that himself.
    fn is_up(&self) -> bool {
        true
    }

    /// Transfers that were pushed and not yet reported as done.
    fn pending(&self) -> usize;
}

/// An engine that is offered the bodies of packets: it gets those of `threshold` bytes and more, the CPU copies the rest at once.
#[derive(Debug)]
pub struct Offer<'e, E> {
    /// The engine.
    pub engine: &'e mut E,
    /// Fewer bytes are copied at once.
    pub threshold: usize,
}

impl<E: Engine> Bodies for Offer<'_, E> {
    #[inline]
    #[allow(unsafe_code)]
    unsafe fn copy<S: Simd>(&mut self, simd: S, to: *mut u8, from: *const u8, len: usize) {
        match u32::try_from(len) {
            // SAFETY: the caller promises it until we are done, which is when the engine says so.
            Ok(len) if len as usize >= self.threshold => unsafe {
                self.engine.push(Transfer { to, from, len })
            },
            // SAFETY: as promised for this moment.
            _ => unsafe { simd.copy(to, from, len) },
        }
    }
}
