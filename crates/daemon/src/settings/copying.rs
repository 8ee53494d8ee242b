//! Who copies the bodies of packets.

use std::num::{NonZeroU32, NonZeroU64};

use copy::dsa::{Limits, Mode};
use copy::model::{ModelOptions, Troubles};
use copy::{Choice, CopyOptions};
use serde::Deserialize;

use super::percent::Percent;

/// Who copies the bodies of packets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Copying {
    /// Who.
    pub engine: CopyEngine,
    /// For "dsa": names of work queues; none: those nearest to a worker's core. Each worker uses those of them that are nearest to it.
    pub queues: Vec<String>,
    /// From how many bytes on a piece of a body goes to the engine; none: from where on that was measured to pay.
    pub threshold: Option<usize>,
    /// For "dsa-model": what the model can do, and how it goes wrong.
    pub model: Option<ModelSettings>,
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

impl std::fmt::Display for CopyEngine {
    /// As it is written in the file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Dsa => "dsa",
            Self::DsaModel => "dsa-model",
        })
    }
}

/// A model of DSA: its limits as `accel-config` sets them, and how often it goes wrong, in percent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "see the model's own options, which have the same names")]
pub struct ModelSettings {
    pub mode: ModelMode,
    pub size: NonZeroU32,
    pub max_batch: NonZeroU32,
    pub max_transfer: NonZeroU64,
    pub block_on_fault: bool,
    pub page_faults: Percent,
    pub page_wait: u32,
    pub refused_pages: Percent,
    pub errors: Percent,
    pub short_batches: Percent,
    pub full: Percent,
    pub delays: Percent,
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
        let Troubles {
            page_faults,
            page_wait,
            refused_pages,
            errors,
            short_batches,
            full,
            delays,
            reorder,
            dies_after,
        } = troubles;
        Self {
            mode: ModelMode::default(),
            size: NonZeroU32::new(limits.size).unwrap_or(NonZeroU32::MIN),
            max_batch: NonZeroU32::new(limits.max_batch).unwrap_or(NonZeroU32::MIN),
            max_transfer: NonZeroU64::new(limits.max_transfer).unwrap_or(NonZeroU64::MIN),
            block_on_fault: limits.block_on_fault,
            page_faults: Percent::at_most(page_faults),
            page_wait,
            refused_pages: Percent::at_most(refused_pages),
            errors: Percent::at_most(errors),
            short_batches: Percent::at_most(short_batches),
            full: Percent::at_most(full),
            delays: Percent::at_most(delays),
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
                size: self.size.get(),
                max_batch: self.max_batch.get(),
                max_transfer: self.max_transfer.get(),
                block_on_fault: self.block_on_fault,
            },
            troubles: Troubles {
                page_faults: self.page_faults.get(),
                page_wait: self.page_wait,
                refused_pages: self.refused_pages.get(),
                errors: self.errors.get(),
                short_batches: self.short_batches.get(),
                full: self.full.get(),
                delays: self.delays.get(),
                reorder: self.reorder,
                dies_after: self.dies_after,
            },
            seed: self.seed,
        }
    }
}

impl Copying {
    /// As the engine takes it; `cores` are the workers'.
    #[must_use]
    pub fn options(&self, cores: &[usize]) -> CopyOptions {
        let choice = match self.engine {
            CopyEngine::Cpu => Choice::Cpu,
            CopyEngine::Dsa => Choice::Dsa(self.queues.clone()),
            CopyEngine::DsaModel => Choice::Model(self.model.clone().unwrap_or_default().options()),
        };
        CopyOptions { choice, threshold: self.threshold, cores: cores.to_vec() }
    }

    /// Settings that are there and have no effect with this engine, as they are written in the file. They may stand there: an
    /// engine is changed by one word.
    #[must_use]
    pub fn without_effect(&self) -> Vec<&'static str> {
        let settings = [
            ("copy.queues", !self.queues.is_empty() && self.engine != CopyEngine::Dsa),
            ("copy.threshold", self.threshold.is_some() && self.engine == CopyEngine::Cpu),
            ("copy.model", self.model.is_some() && self.engine != CopyEngine::DsaModel),
        ];
        settings.into_iter().filter_map(|(name, idle)| idle.then_some(name)).collect()
    }
}
