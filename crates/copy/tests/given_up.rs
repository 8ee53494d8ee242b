//! Queues that are given up, and come back.

#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test may panic, and has bytes of its own to be copied"
)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quiver_copy::dsa::{Accepted, Channel, Descriptor, Device, Limits, Mode, News, Pauses, Portal, Reason};
use quiver_copy::model::{Model, ModelOptions, Troubles};
use quiver_copy::{Cpu, Engine, Transfer};

const PAUSES: Pauses = Pauses { first: Duration::from_millis(50), longest: Duration::from_millis(200) };
const SHORT: Duration = Duration::from_millis(20);

/// A queue that is opened again as whatever `next` says then.
fn device(options: ModelOptions, next: impl Fn() -> ModelOptions + Send + Sync + 'static) -> Arc<Device> {
    let model = Model::start(options).unwrap();
    let open = move || match Model::start(next()) {
        Ok(model) => Ok(Box::new(model) as Box<dyn Portal>),
        Err(error) => Err(error.to_string()),
    };
    Arc::new(Device::new("model", options.limits, SHORT, Box::new(model)).with_retry(PAUSES, open))
}

fn with(troubles: Troubles) -> ModelOptions {
    ModelOptions { troubles, ..ModelOptions::default() }
}

fn channel(device: &Arc<Device>) -> Channel {
    Channel::new(Arc::clone(device), Cpu::default())
}

/// Copies so many bodies, and looks at them.
fn copy(channel: &mut Channel, count: usize) {
    let (from, mut to) = (vec![0x17_u8; count * 600], vec![0_u8; count * 600]);
    for (from, to) in from.chunks_exact(600).zip(to.chunks_exact_mut(600)) {
        // SAFETY: both outlive `finish`.
        unsafe { channel.push(Transfer { to: to.as_mut_ptr(), from: from.as_ptr(), len: 600 }) };
    }
    channel.finish();
    assert!(to == from && channel.pending() == 0);
}

/// Looks after a device until there is news of it.
fn news(device: &Device) -> News {
    let begin = Instant::now();
    loop {
        if let Some(news) = device.tend() {
            return news;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", device.given_up());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_page_that_takes_too_long_costs_the_queue_a_pause_and_no_more() {
    // It holds up what is behind it, for longer than anybody waits.
    let slow = Troubles { page_faults: 100, page_wait: 400_000, ..Troubles::default() };
    let mut options = with(slow);
    (options.limits.block_on_fault, options.seed) = (true, 3);
    let device = device(options, ModelOptions::default);
    let (mut first, mut other) = (channel(&device), channel(&device));
    copy(&mut first, 4);
    let given_up = device.given_up().unwrap();
    assert_eq!(given_up.reason, Reason::NoAnswer(SHORT));
    assert!(given_up.again_in.unwrap() <= PAUSES.first);
    // Meanwhile all copy by themselves.
    let before = device.counts();
    copy(&mut first, 10);
    copy(&mut other, 10);
    assert_eq!(
        (device.counts().submitted, device.counts().fallbacks),
        (before.submitted, before.fallbacks + 20)
    );
    assert!(!first.is_up() && !other.is_up());
    assert!(matches!(news(&device), News::GivenUp(what) if what.reason == Reason::NoAnswer(SHORT)));
    assert_eq!(news(&device), News::Back);
    assert_eq!((device.given_up(), device.times_given_up()), (None, 1));
    let before = device.counts();
    for channel in [&mut first, &mut other] {
        assert!(channel.is_up());
        copy(channel, 100);
    }
    let counts = device.counts();
    assert_eq!(
        (counts.completed, counts.fallbacks),
        (before.completed + 200, before.fallbacks),
        "{counts:?}"
    );
}

#[test]
fn a_queue_that_is_dead_is_tried_by_nobody_who_moves_packets() {
    let dead = with(Troubles { dies_after: Some(0), ..Troubles::default() });
    let device = device(dead, move || dead);
    let mut channel = channel(&device);
    copy(&mut channel, 4);
    assert!(matches!(news(&device), News::GivenUp(_)));
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(1) {
        assert_eq!(device.tend(), None);
        let before = device.counts();
        copy(&mut channel, 4);
        assert_eq!(device.counts().submitted, before.submitted, "workers are kept from it");
        std::thread::sleep(Duration::from_millis(5));
    }
    let given_up = device.given_up().unwrap();
    assert!(given_up.tried.unwrap().contains("no answer"));
    assert!(given_up.again_in.unwrap() <= PAUSES.longest);
    assert_eq!(device.times_given_up(), 1);
}

#[test]
fn a_queue_that_fails_comes_back_when_it_has_stopped_failing() {
    let repaired = Arc::new(AtomicBool::new(false));
    let broken = with(Troubles { errors: 100, ..Troubles::default() });
    let now = Arc::clone(&repaired);
    let device =
        device(broken, move || if now.load(Ordering::Relaxed) { ModelOptions::default() } else { broken });
    let mut channel = channel(&device);
    (0..20).for_each(|_| copy(&mut channel, 64));
    assert!(matches!(news(&device), News::GivenUp(what) if what.reason == Reason::Failures(512)));
    while device.given_up().unwrap().tried.is_none() {
        assert_eq!(device.tend(), None);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(
        device.given_up().unwrap().tried.unwrap().contains("ended with Error"),
        "{:?}",
        device.given_up()
    );
    repaired.store(true, Ordering::Relaxed);
    assert_eq!(news(&device), News::Back);
    // As many failures as at first are needed: those of before don't count.
    let errors = device.counts().errors;
    copy(&mut channel, 64);
    assert_eq!((device.counts().errors, device.given_up()), (errors, None));
}

#[test]
fn a_queue_of_which_nothing_is_known_but_its_portal_is_given_up_for_good() {
    let options = with(Troubles { dies_after: Some(0), ..Troubles::default() });
    let model = Model::start(options).unwrap();
    let device = Arc::new(Device::new("model", options.limits, SHORT, Box::new(model)));
    copy(&mut channel(&device), 2);
    assert!(matches!(news(&device), News::GivenUp(_)));
    assert_eq!(device.given_up().unwrap().again_in, None);
    std::thread::sleep(PAUSES.first);
    assert_eq!(device.tend(), None);
}

/// Swallows what it gets, and lets it be seen.
#[derive(Debug, Clone, Default)]
struct Swallow(Arc<Mutex<Vec<Descriptor>>>);

impl Portal for Swallow {
    unsafe fn submit(&self, descriptor: &Descriptor, _: usize) -> Accepted {
        self.0.lock().unwrap().push(*descriptor);
        Accepted::Yes
    }
}

/// A channel that looks late at what it had on its way: the queue has been closed and opened again meanwhile, and is full of others' things.
#[test]
fn what_an_earlier_opening_had_is_over_and_takes_no_place_of_the_next() {
    let options = ModelOptions::default();
    assert_eq!(options.limits.mode, Mode::Dedicated);
    let open = || match Model::start(ModelOptions::default()) {
        Ok(model) => Ok(Box::new(model) as Box<dyn Portal>),
        Err(error) => Err(error.to_string()),
    };
    let swallow = Swallow::default();
    let device = Device::new("swallow", options.limits, SHORT, Box::new(swallow.clone()));
    let device = Arc::new(device.with_retry(PAUSES, open));
    let (mut late, mut prompt) = (channel(&device), channel(&device));
    let (from, mut to) = (vec![0x17_u8; 1200], vec![0_u8; 1200]);
    for (from, to) in from.chunks_exact(600).zip(to.chunks_exact_mut(600)) {
        // SAFETY: both outlive `finish`.
        unsafe { late.push(Transfer { to: to.as_mut_ptr(), from: from.as_ptr(), len: 600 }) };
        late.submit();
    }
    assert_eq!((late.poll(), swallow.0.lock().unwrap().len()), (0, 2));
    copy(&mut prompt, 4);
    assert!(device.given_up().is_some());
    assert!(matches!(news(&device), News::GivenUp(_)));
    assert_eq!(news(&device), News::Back);
    assert_eq!(late.poll(), 2, "done by the CPU, without any waiting");
    assert_eq!(to, from);
    let before = device.counts();
    (0..40).for_each(|_| copy(&mut late, 2));
    let counts = device.counts();
    assert_eq!((counts.completed, counts.full), (before.completed + 80, before.full), "{counts:?}");
}

/// Copies what it gets first, and says so; swallows the rest.
#[derive(Debug, Clone, Default)]
struct Once(Swallow);

impl Portal for Once {
    unsafe fn submit(&self, descriptor: &Descriptor, slot: usize) -> Accepted {
        if self.0.0.lock().unwrap().is_empty() {
            let &Descriptor { source, destination, size, completion, .. } = descriptor;
            let at = std::ptr::with_exposed_provenance_mut::<u8>;
            let from = std::ptr::with_exposed_provenance::<u8>(source as usize);
            // SAFETY: as a device may.
            unsafe {
                at(destination as usize).copy_from(from, size as usize);
                (*at(completion as usize).cast::<AtomicU64>()).store(1, Ordering::Release);
            }
        }
        // SAFETY: it does nothing.
        unsafe { self.0.submit(descriptor, slot) }
    }
}

#[test]
fn places_that_an_earlier_opening_had_are_not_given_back_to_the_next() {
    let options = ModelOptions::default();
    let limits = Limits { size: 3, ..options.limits };
    let (next, opened) = (Once::default(), Swallow::default());
    let reopened = next.clone();
    let device = Device::new("swallow", limits, SHORT, Box::new(opened));
    let device = Arc::new(device.with_retry(PAUSES, move || Ok(Box::new(reopened.clone()))));
    let (from, mut to) = (vec![0x17_u8; 600], vec![0_u8; 600]);
    let (from, to) = (from.as_ptr(), to.as_mut_ptr());
    let submit = |channel: &mut Channel, count: usize| {
        for _ in 0..count {
            // SAFETY: both outlive the channels.
            unsafe { channel.push(Transfer { to, from, len: 600 }) };
            channel.submit();
        }
    };
    let (mut late, mut holder, mut more) = (channel(&device), channel(&device), channel(&device));
    submit(&mut late, 2);
    submit(&mut holder, 1);
    holder.finish();
    assert!(matches!(news(&device), News::GivenUp(_)));
    assert_eq!(news(&device), News::Back);
    submit(&mut holder, 3);
    let seen = || next.0.0.lock().unwrap().len();
    assert_eq!(seen(), 1 + 3, "full, the first was to see whether it is back");
    assert_eq!(late.poll(), 2);
    submit(&mut more, 1);
    assert_eq!((seen(), more.poll()), (1 + 3, 1), "and still full");
}
