//! The worker itself.

use memory::simd::{Scalar, Simd, Tier, TierTask};

use crate::engine::{Engine, Transfer};

/// Copies at once.
#[derive(Debug)]
pub struct Cpu {
    tier: Tier,
    done: usize,
}

impl Cpu {
    /// With the instructions of a tier.
    #[must_use]
    pub const fn new(tier: Tier) -> Self {
        Self { tier, done: 0 }
    }

    /// Copies.
    ///
    /// # Safety
    /// As [`Engine::push`], for this moment.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn copy(&self, transfer: Transfer) {
        self.tier.dispatch(Task(transfer));
    }
}

impl Default for Cpu {
    fn default() -> Self {
        Self::new(Tier::detect())
    }
}

/// Made by [`Cpu::copy`] only, whose caller has promised that the ranges are there.
struct Task(Transfer);

impl TierTask for Task {
    type Output = ();

    #[allow(unsafe_code)]
    fn run<S: Simd>(self, simd: S) {
        let Transfer { to, from, len } = self.0;
        let len = len as usize;
        let overlap = to.addr() < from.addr() + len && from.addr() < to.addr() + len;
        // SAFETY: as promised to `Cpu::copy`.
        unsafe { if overlap { Scalar.copy(to, from, len) } else { simd.copy(to, from, len) } }
    }
}

impl Engine for Cpu {
    #[allow(unsafe_code)]
    unsafe fn push(&mut self, transfer: Transfer) {
        // SAFETY: the caller promises more.
        unsafe { self.copy(transfer) };
        self.done += 1;
    }

    fn submit(&mut self) {}

    fn poll(&mut self) -> usize {
        std::mem::take(&mut self.done)
    }

    fn finish(&mut self) {
        self.done = 0;
    }

    fn pending(&self) -> usize {
        self.done
    }
}
