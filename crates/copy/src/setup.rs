//! From settings to devices.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memory::simd::Tier;

use crate::cpu::Cpu;
use crate::dsa::hardware::{self, OpenError};
use crate::dsa::sysfs::{self, Queue, QueueError};
use crate::dsa::{Channel, Device, News, Pauses};
use crate::engine::Engine;
use crate::learn;
use crate::model::{Model, ModelOptions};
use crate::near::{Nearness, wanted};

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
    /// The model can't be started.
    #[error("no thread for the model of a DSA device: {0}")]
    Model(io::Error),
}

/// The devices that are in use, and how.
#[derive(Debug)]
pub struct Engines {
    name: &'static str,
    devices: Vec<Arc<Device>>,
    left_alone: Vec<QueueError>,
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
    /// [`SetupError`] where it isn't there or can't be used: nothing else takes its place unasked.
    pub fn open(options: &CopyOptions, tier: Tier) -> Result<Option<Self>, SetupError> {
        let nodes = Path::new(sysfs::NODES);
        let (name, opened, left_alone) = match &options.choice {
            Choice::Cpu => return Ok(None),
            Choice::Dsa(names) if names.is_empty() => {
                let (opened, left_alone) = open_nearest(nodes, &options.cores)?;
                ("dsa", opened, left_alone)
            }
            Choice::Dsa(names) => ("dsa", open_all(nodes, names, &options.cores)?, Vec::new()),
            Choice::Model(model) => {
                let (devices, nearness) = (vec![start_model(*model)?], Nearness::unknown(1));
                ("dsa-model", Opened { devices, nearness }, Vec::new())
            }
        };
        let Opened { devices, nearness } = opened;
        let threshold = options.threshold.or(Some(THRESHOLD_OF_MODEL));
        let (learnt, unmeasured) = (Vec::new(), None);
        let mut engines = Self { name, devices, left_alone, threshold, learnt, unmeasured, tier, nearness };
        if options.threshold.is_none() && matches!(options.choice, Choice::Dsa(_)) {
            engines.learn(options.cores.first().copied());
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

    /// Why queues that look as if they could be used are not: what sysfs says of them can't be understood.
    #[must_use]
    pub fn left_alone(&self) -> &[QueueError] {
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

/// Devices, and which of them are near to which worker.
struct Opened {
    devices: Vec<Arc<Device>>,
    nearness: Nearness,
}

/// Opens queues by their names.
fn open_all(nodes: &Path, names: &[String], cores: &[usize]) -> Result<Opened, SetupError> {
    if let Some((_, name)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return Err(SetupError::Twice(name.clone()));
    }
    let (mut queues, mut devices) = (Vec::new(), Vec::new());
    for name in names {
        let (queue, device) = open_named(Path::new(sysfs::DEVICES), name)?;
        queues.push(queue);
        devices.push(device);
    }
    Ok(Opened { devices, nearness: Nearness::of(nodes, &queues, cores) })
}

/// Opens the queues that are nearest to any of the cores, and says which could not even be understood.
fn open_nearest(nodes: &Path, cores: &[usize]) -> Result<(Opened, Vec<QueueError>), SetupError> {
    let found = sysfs::discover(Path::new(sysfs::DEVICES))?;
    // One that another process has is no reason not to use the others.
    let (mut queues, mut devices, mut refused) = (Vec::new(), Vec::new(), None);
    for queue in wanted(nodes, found.queues, cores) {
        match open_queue(&queue) {
            Ok(device) => {
                devices.push(device);
                queues.push(queue);
            }
            Err(error @ SetupError::Open(OpenError::Busy { .. })) => refused = Some(error),
            Err(error) => return Err(error),
        }
    }
    match refused {
        Some(error) if devices.is_empty() => Err(error),
        _ => Ok((Opened { devices, nearness: Nearness::of(nodes, &queues, cores) }, found.left_alone)),
    }
}

/// Opens a queue by name.
fn open_named(devices: &Path, name: &str) -> Result<(Queue, Arc<Device>), SetupError> {
    let numbers = name.strip_prefix("wq").and_then(|rest| rest.split_once('.'));
    let good = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !numbers.is_some_and(|(device, queue)| good(device) && good(queue)) {
        return Err(SetupError::Name(name.to_owned()));
    }
    if !devices.join(name).exists() {
        // Says it more plainly than what is missing in sysfs.
        hardware::open_file(&Path::new(sysfs::FILES).join(name))?;
    }
    let queue = sysfs::queue(devices, name)?;
    let device = open_queue(&queue)?;
    Ok((queue, device))
}

fn open_queue(queue: &Queue) -> Result<Arc<Device>, SetupError> {
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
