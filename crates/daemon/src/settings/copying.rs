//! Who copies the bodies of packets.

use copy::dsa::{Limits, Mode};
use copy::model::{ModelOptions, Troubles};
use copy::{Choice, CopyOptions};
use serde::Deserialize;

/// Who copies the bodies of packets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Copying {
    /// Who.
    pub engine: CopyEngine,
    /// For "dsa": names of work queues; none: those nearest to the first worker.
    pub queues: Vec<String>,
    /// From how many bytes on a piece of a body goes to the engine; none: from where on that was measured to pay.
    pub threshold: Option<usize>,
    /// For "dsa-model": what the model can do, and how it goes wrong.
    pub model: ModelSettings,
}

/// Who copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopyEngine {
    /// The workers.
    #[default]
    Cpu,
    /// Intel DSA.
    Dsa,
    /// A software model of DSA, for tests.
    DsaModel,
}

/// A model of DSA: its limits as `accel-config` sets them, and how often it goes wrong, in percent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "see the model's own options, which have the same names")]
pub struct ModelSettings {
    pub mode: ModelMode,
    pub size: u32,
    pub max_batch: u32,
    pub max_transfer: u64,
    pub block_on_fault: bool,
    pub page_faults: u8,
    pub errors: u8,
    pub short_batches: u8,
    pub full: u8,
    pub delays: u8,
    pub reorder: bool,
    pub dies_after: Option<u64>,
    pub seed: u64,
}

/// How the model takes descriptors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelMode {
    /// As with MOVDIR64B.
    #[default]
    Dedicated,
    /// As with ENQCMD.
    Shared,
}

impl Default for ModelSettings {
    fn default() -> Self {
        let ModelOptions { limits, troubles, seed } = ModelOptions::default();
        let Troubles { page_faults, errors, short_batches, full, delays, reorder, dies_after } = troubles;
        Self {
            mode: ModelMode::default(),
            size: limits.size,
            max_batch: limits.max_batch,
            max_transfer: limits.max_transfer,
            block_on_fault: limits.block_on_fault,
            page_faults,
            errors,
            short_batches,
            full,
            delays,
            reorder,
            dies_after,
            seed,
        }
    }
}

impl ModelSettings {
    fn options(&self) -> ModelOptions {
        ModelOptions {
            limits: Limits {
                mode: match self.mode {
                    ModelMode::Dedicated => Mode::Dedicated,
                    ModelMode::Shared => Mode::Shared,
                },
                // One that holds nothing is no queue.
                size: self.size.max(1),
                max_batch: self.max_batch,
                max_transfer: self.max_transfer,
                block_on_fault: self.block_on_fault,
            },
            troubles: Troubles {
                page_faults: self.page_faults,
                errors: self.errors,
                short_batches: self.short_batches,
                full: self.full,
                delays: self.delays,
                reorder: self.reorder,
                dies_after: self.dies_after,
            },
            seed: self.seed,
        }
    }
}

impl Copying {
    /// As the engine takes it; `core` is the first worker's.
    #[must_use]
    pub fn options(&self, core: Option<usize>) -> CopyOptions {
        let choice = match self.engine {
            CopyEngine::Cpu => Choice::Cpu,
            CopyEngine::Dsa => Choice::Dsa(self.queues.clone()),
            CopyEngine::DsaModel => Choice::Model(self.model.options()),
        };
        CopyOptions { choice, threshold: self.threshold, core }
    }
}
