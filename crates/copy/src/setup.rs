//! From settings to devices.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memory::simd::Tier;

use crate::cpu::Cpu;
use crate::dsa::hardware;
use crate::dsa::sysfs::{self, Queue, QueueError};
use crate::dsa::{Channel, Device, News, OpenError, Pauses};
use crate::engine::Engine;
use crate::learn;
use crate::model::{Model, ModelOptions};
use crate::near::Nearness;
use crate::open::{self, Opened, Places};

/// A body that a device hasn't copied after this time never will be, it seems.
const PATIENCE: Duration = Duration::from_millis(100);
/// The same where it waits for pages: one that is being swapped in takes its time, whoever asks for it, and closing the queue waits for it
/// as well.
const PATIENCE_WITH_PAGES: Duration = Duration::from_secs(1);
/// The same for the model, whose thread may have to wait for a core.
const PATIENCE_WITH_MODEL: Duration = Duration::from_secs(2);
/// How a queue that was given up is tried again.
const PAUSES: Pauses = Pauses { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// What the model gets, unless it is said: there is nothing to be measured on it.
const THRESHOLD_OF_MODEL: usize = 256;

/// Who copies bodies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Choice {
    /// The workers themselves.
    #[default]
    Cpu,
    /// Work queues of these names ("wq0.1"); none named: those nearest to the core of at least one worker.
    Dsa(Vec<String>),
    /// A model of a device, for tests.
    Model(ModelOptions),
}

/// How bodies are copied.
#[derive(Debug, Clone, Default)]
pub struct CopyOptions {
    /// Who does.
    pub choice: Choice,
    /// From how many bytes on an engine gets a body; `None`: from where on it was measured to pay.
    pub threshold: Option<usize>,
    /// Cores of the workers, to be near to; the threshold is measured with a queue near to the first.
    pub cores: Vec<usize>,
}

/// Why an engine that is asked for isn't there.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A queue can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A queue can't be found or used.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// A name that no queue has.
    #[error("copy.queues names {0:?}: work queues are named as in /dev/dsa, \"wq0.1\" for instance")]
    Name(String),
    /// A queue that is named twice.
    #[error("copy.queues names {0:?} twice: name every queue once")]
    Twice(String),
    /// Several queues, none of which can be had.
    #[error("none of the work queues can be used: {0}")]
    Refused(String),
    /// The model can't be started.
    #[error("no thread for the model of a DSA device: {0}")]
    Model(io::Error),
}

/// The devices that are in use, and how.
#[derive(Debug)]
pub struct Engines {
    name: &'static str,
    devices: Vec<Arc<Device>>,
    left_alone: Vec<SetupError>,
    threshold: Option<usize>,
    learnt: Vec<learn::Timing>,
    unmeasured: Option<String>,
    tier: Tier,
    nearness: Nearness,
}

impl Engines {
    /// Opens what was chosen; `None` for the CPU, which needs nothing.
    ///
    /// # Errors
    /// [`SetupError`] where nothing of it is there and can be used: nothing else takes its place unasked.
    pub fn open(options: &CopyOptions, tier: Tier) -> Result<Option<Self>, SetupError> {
        let (devices, nodes, files) = (sysfs::DEVICES, sysfs::NODES, sysfs::FILES);
        let places = Places { devices: devices.as_ref(), nodes: nodes.as_ref(), files: files.as_ref() };
        let cores = &options.cores[..];
        let (name, opened) = match &options.choice {
            Choice::Cpu => return Ok(None),
            Choice::Dsa(names) if names.is_empty() => ("dsa", open::nearest(&places, cores, open_queue)?),
            Choice::Dsa(names) => ("dsa", open::named(&places, names, cores, open_queue)?),
            Choice::Model(model) => {
                let (devices, nearness) = (vec![start_model(*model)?], Nearness::unknown(1));
                ("dsa-model", Opened { devices, nearness, left_alone: Vec::new() })
            }
        };
        let Opened { devices, nearness, left_alone } = opened;
        let threshold = options.threshold.or(Some(THRESHOLD_OF_MODEL));
        let (learnt, unmeasured) = (Vec::new(), None);
        let mut engines = Self { name, devices, left_alone, threshold, learnt, unmeasured, tier, nearness };
        if options.threshold.is_none() && matches!(options.choice, Choice::Dsa(_)) {
            engines.learn(cores.first().copied());
        }
        Ok(Some(engines))
    }

    /// Measures, on a worker's core, from how many bytes on a device near to it pays. One that is given up meanwhile says nothing of that: the
    /// next is asked.
    fn learn(&mut self, core: Option<usize>) {
        self.threshold = None;
        for _ in 0..self.devices.len() {
            let (mut cpu, mut channel) = (Cpu::new(self.tier), self.channel(core));
            if channel.is_up() {
                let timings = learn::measure(core, &mut cpu, &mut channel);
                if channel.device().given_up().is_none() {
                    (self.threshold, self.learnt) = (learn::threshold(&timings), timings);
                    return;
                }
            }
        }
        let why = |device: &Arc<Device>| Some(format!("{}: {}", device.name(), device.given_up()?.reason));
        self.unmeasured = Some(self.devices.iter().filter_map(why).collect::<Vec<_>>().join("; "));
    }

    /// A channel for a transmit queue of the worker on this core: the devices nearest to it take turns.
    #[must_use]
    pub fn channel(&self, core: Option<usize>) -> Channel {
        let device = self.nearness.next(core).unwrap_or(0);
        Channel::new(Arc::clone(&self.devices[device]), Cpu::new(self.tier))
    }

    /// "dsa" or "dsa-model".
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Bytes from which on a body goes to a device; `None` where that was measured not to pay, or couldn't be measured.
    #[must_use]
    pub const fn threshold(&self) -> Option<usize> {
        self.threshold
    }

    /// What was measured at start, where the threshold wasn't given.
    #[must_use]
    pub fn learnt(&self) -> &[learn::Timing] {
        &self.learnt
    }

    /// Why it couldn't be measured, where the devices were given up over that.
    #[must_use]
    pub fn unmeasured(&self) -> Option<&str> {
        self.unmeasured.as_deref()
    }

    /// Why queues that were named, or look as if they could be used, are not: they can't be opened, or what sysfs says of them can't be
    /// understood.
    #[must_use]
    pub fn left_alone(&self) -> &[SetupError] {
        &self.left_alone
    }

    /// Looks after the queues, which is to be done a few times a second: those that were given up are tried again. Gives what there is to be
    /// told of them, by name. Waits for devices, so not for a worker.
    pub fn tend(&self) -> impl Iterator<Item = (&str, News)> {
        self.devices.iter().filter_map(|device| Some((device.name(), device.tend()?)))
    }

    /// The devices in use.
    #[must_use]
    pub fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }
}

fn open_queue(queue: &Queue) -> Result<Arc<Device>, OpenError> {
    let (path, mode) = (Path::new(sysfs::FILES).join(&queue.name), queue.limits.mode);
    let portal = hardware::open(&path, mode)?;
    let patience = if queue.limits.block_on_fault { PATIENCE_WITH_PAGES } else { PATIENCE };
    let device = Device::new(&queue.name, queue.limits, patience, portal);
    Ok(Arc::new(
        device.with_retry(PAUSES, move || hardware::open(&path, mode).map_err(|error| error.to_string())),
    ))
}

fn start_model(options: ModelOptions) -> Result<Arc<Device>, SetupError> {
    let model = Model::start(options).map_err(SetupError::Model)?;
    let watch = model.watch();
    let device = Device::new("model", options.limits, PATIENCE_WITH_MODEL, Box::new(model));
    Ok(Arc::new(device.with_retry(PAUSES, move || match Model::opened(options, Arc::clone(&watch)) {
        Ok(model) => Ok(Box::new(model)),
        Err(error) => Err(error.to_string()),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Troubles;

    /// Engines of models, of which those that are `true` are dead.
    fn engines(dead: &[bool]) -> Engines {
        let device = |(at, dead): (usize, &bool)| {
            let troubles = Troubles { dies_after: dead.then_some(0), ..Troubles::default() };
            let options = ModelOptions { troubles, ..ModelOptions::default() };
            let portal = Box::new(Model::start(options).unwrap());
            let patience = if *dead { Duration::from_millis(20) } else { PATIENCE_WITH_MODEL };
            Arc::new(Device::new(format!("wq{at}.0"), options.limits, patience, portal))
        };
        Engines {
            name: "dsa-model",
            devices: dead.iter().enumerate().map(device).collect(),
            left_alone: Vec::new(),
            threshold: Some(THRESHOLD_OF_MODEL),
            learnt: Vec::new(),
            unmeasured: None,
            tier: Tier::detect(),
            nearness: Nearness::unknown(dead.len()),
        }
    }

    #[test]
    fn a_queue_that_is_given_up_while_it_is_measured_says_nothing_of_the_threshold() {
        let mut all = engines(&[true, true]);
        all.learn(Some(0));
        assert_eq!((all.threshold(), all.learnt().len()), (None, 0));
        let why = all.unmeasured().unwrap();
        assert_eq!(why, "wq0.0: no answer within 20ms; wq1.0: no answer within 20ms");
        let mut one = engines(&[true, false]);
        one.learn(Some(0));
        assert_eq!((one.learnt().len(), one.unmeasured()), (learn::SIZES.len(), None));
        let counts = one.devices()[1].counts();
        assert!(counts.completed > 0 && counts.fallbacks == 0, "{counts:?}");
    }
}
