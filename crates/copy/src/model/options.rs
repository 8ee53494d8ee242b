//! What the model can do, and how it goes wrong.

use crate::dsa::{Limits, Mode};

/// How often it goes wrong, in percent unless it says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Troubles {
    /// Transfers that meet a page that isn't there, some bytes done. They end there; where the queue blocks on faults, they wait for it.
    pub page_faults: u8,
    /// How long such a page takes to come, at most, in microseconds.
    pub page_wait: u32,
    /// Of the pages that are waited for: those that can't be had.
    pub refused_pages: u8,
    /// Transfers that end with an error, having written anything.
    pub errors: u8,
    /// Batches of which only the first descriptors are read.
    pub short_batches: u8,
    /// Descriptors that a shared queue refuses as if it were full.
    pub full: u8,
    /// Descriptors that take longer, by up to 200 µs.
    pub delays: u8,
    /// Descriptors are done in any order, in batches and from the queue.
    pub reorder: bool,
    /// Transfers after which it does and says nothing any more.
    pub dies_after: Option<u64>,
}

/// A model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelOptions {
    /// What it can do.
    pub limits: Limits,
    /// How it goes wrong.
    pub troubles: Troubles,
    /// What chance begins with: the same seed and the same descriptors go wrong in the same way.
    pub seed: u64,
}

impl Default for ModelOptions {
    /// As a queue of a Sapphire Rapids server may be configured, and nothing goes wrong.
    fn default() -> Self {
        let limits = Limits {
            mode: Mode::Dedicated,
            size: 16,
            max_batch: 1024,
            max_transfer: 2 << 20,
            block_on_fault: false,
        };
        Self { limits, troubles: Troubles::default(), seed: 1 }
    }
}
