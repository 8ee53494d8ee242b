//! The engine on the model of a device, whatever goes wrong there: the bytes are those of a copy, none is lost, and what is said to be done is
//! done.

#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test may panic, and has bytes of its own to be copied"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proptest::prelude::*;
use quiver_copy::dsa::{CAPACITY, Channel, Counts, Device, Limits, Mode, SLOTS};
use quiver_copy::model::{Model, ModelOptions, Troubles, Watch};
use quiver_copy::{Cpu, Engine, Transfer};

/// Long, because another thread does it; short where it is known to do nothing.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes before and behind each destination, which stay as they are.
const GUARD: usize = 16;

struct Lab {
    device: Arc<Device>,
    watch: Arc<Watch>,
    channel: Channel,
}

impl Lab {
    fn new(options: ModelOptions, patience: Duration) -> Self {
        let model = Model::start(options).unwrap();
        let watch = model.watch();
        let device = Arc::new(Device::new("model", options.limits, patience, Box::new(model)));
        let channel = Channel::new(Arc::clone(&device), Cpu::default());
        Self { device, watch, channel }
    }

    fn counts(&self) -> Counts {
        self.device.counts()
    }
}

/// A body of so many bytes, unlike any other.
fn body(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number.wrapping_mul(31) ^ at.wrapping_mul(7) ^ (at >> 8)) as u8).collect()
}

/// Copies bodies of these lengths, submitting after each of `vectors`; looks at what is said to be done at once.
fn copy(engine: &mut impl Engine, lengths: &[usize], vectors: &[usize], poll: bool) {
    let sources = lengths.iter().enumerate().map(|(number, len)| body(number, *len)).collect::<Vec<_>>();
    let mut targets = lengths.iter().map(|len| vec![0xa5_u8; len + 2 * GUARD]).collect::<Vec<_>>();
    let places = targets.iter_mut().map(|target| target.as_mut_ptr()).collect::<Vec<_>>();
    // What the device has written is looked at through the same pointers it was given.
    let look = |number: usize| {
        // SAFETY: the vector is there, and whoever wrote to this one is done with it.
        let target = unsafe { std::slice::from_raw_parts(places[number], lengths[number] + 2 * GUARD) };
        let (before, rest) = target.split_at(GUARD);
        let (bytes, behind) = rest.split_at(lengths[number]);
        assert!(bytes == sources[number], "body {number} of {} bytes isn't there", bytes.len());
        assert!(
            before.iter().chain(behind).all(|byte| *byte == 0xa5),
            "bytes beside body {number} were written"
        );
    };
    let (mut pushed, mut done) = (0, 0);
    for vector in vectors.iter().cycle() {
        for _ in 0..*vector {
            if pushed == lengths.len() {
                break;
            }
            // SAFETY: sources and targets outlive `finish`.
            let to = unsafe { places[pushed].add(GUARD) };
            let from = sources[pushed].as_ptr();
            // SAFETY: as above.
            unsafe { engine.push(Transfer { to, from, len: lengths[pushed] as u32 }) };
            pushed += 1;
        }
        engine.submit();
        if poll {
            let now = engine.poll();
            (done..done + now).for_each(look);
            done += now;
            assert_eq!(engine.pending(), pushed - done);
        }
        if pushed == lengths.len() {
            break;
        }
    }
    engine.finish();
    assert_eq!(engine.pending(), 0);
    (done..pushed).for_each(look);
}

fn options(mode: Mode, troubles: Troubles) -> ModelOptions {
    let limits = Limits { mode, ..ModelOptions::default().limits };
    ModelOptions { limits, troubles, ..ModelOptions::default() }
}

fn anything() -> impl Strategy<Value = ModelOptions> {
    let percent = || prop_oneof![2 => Just(0_u8), 2 => 1_u8..30, 1 => Just(100_u8)];
    let troubles = (percent(), percent(), percent(), percent(), percent(), 0_u8..20, any::<bool>());
    let limits =
        (any::<bool>(), 1_u32..20, 1_u32..70, prop_oneof![Just(2_u64 << 20), 100_u64..5000], any::<bool>());
    (troubles, limits, any::<u64>()).prop_map(|(troubles, limits, seed)| {
        let (page_faults, refused_pages, errors, short_batches, full, delays, reorder) = troubles;
        let (shared, size, max_batch, max_transfer, block_on_fault) = limits;
        let mode = if shared { Mode::Shared } else { Mode::Dedicated };
        ModelOptions {
            limits: Limits { mode, size, max_batch, max_transfer, block_on_fault },
            troubles: Troubles {
                page_faults,
                page_wait: 50,
                refused_pages,
                errors,
                short_batches,
                full,
                delays,
                reorder,
                dies_after: None,
            },
            seed,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_bytes_are_those_of_a_copy(
        options in anything(),
        lengths in prop::collection::vec(prop_oneof![1_usize..300, 300_usize..9000], 1..400),
        vectors in prop::collection::vec(1_usize..100, 1..6),
        poll in any::<bool>(),
    ) {
        let mut lab = Lab::new(options, PATIENCE);
        copy(&mut lab.channel, &lengths, &vectors, poll);
        let counts = lab.counts();
        prop_assert_eq!(counts.transfers, lengths.len() as u64);
        prop_assert_eq!(counts.completed + counts.fallbacks, counts.transfers, "{:?}", counts);
        let bytes = lengths.iter().sum::<usize>() as u64;
        prop_assert_eq!(counts.bytes + counts.fallback_bytes, bytes, "{:?}", counts);
        prop_assert_eq!(counts.submitted, lab.watch.taken.load(Ordering::Relaxed));
        prop_assert_eq!(lab.watch.overflows.load(Ordering::Relaxed), 0, "a dedicated queue was overrun");
        prop_assert_eq!(lab.watch.unreportable.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_device_that_dies_takes_nothing_with_it(
        dies_after in 0_u64..150,
        seed in any::<u64>(),
        reorder in any::<bool>(),
        lengths in prop::collection::vec(1_usize..3000, 200..400),
        vectors in prop::collection::vec(1_usize..100, 1..6),
    ) {
        let troubles = Troubles { reorder, dies_after: Some(dies_after), ..Troubles::default() };
        let mut options = ModelOptions { seed, ..options(Mode::Dedicated, troubles) };
        // As much as a channel has on its way: the device gets what it takes to die.
        options.limits.size = CAPACITY as u32;
        let mut lab = Lab::new(options, Duration::from_millis(20));
        copy(&mut lab.channel, &lengths, &vectors, true);
        // And again, without it.
        copy(&mut lab.channel, &lengths, &vectors, false);
        let counts = lab.counts();
        prop_assert!(lab.device.given_up().unwrap().reason.to_string().contains("no answer"));
        prop_assert_eq!(counts.completed + counts.fallbacks, 2 * lengths.len() as u64);
        prop_assert!(counts.completed <= dies_after);
    }
}

#[test]
fn all_goes_well_where_nothing_goes_wrong() {
    let mut lab = Lab::new(ModelOptions::default(), PATIENCE);
    for _ in 0..4 {
        copy(&mut lab.channel, &[1500; 64], &[64], false);
    }
    let counts = lab.counts();
    let wanted = Counts {
        transfers: 256,
        submitted: 4,
        batches: 4,
        completed: 256,
        bytes: 256 * 1500,
        ..Counts::default()
    };
    assert_eq!(counts, wanted);
    copy(&mut lab.channel, &[9000], &[1], false);
    assert_eq!((lab.counts().submitted, lab.counts().batches), (5, 4), "one transfer is no batch");
}

#[test]
fn a_page_fault_costs_the_rest_of_a_transfer() {
    let troubles = Troubles { page_faults: 100, ..Troubles::default() };
    let mut lab = Lab::new(options(Mode::Dedicated, troubles), PATIENCE);
    copy(&mut lab.channel, &[4000; 100], &[10], false);
    let counts = lab.counts();
    assert_eq!((counts.faults, counts.fallbacks, counts.completed, counts.errors), (100, 100, 0, 0));
    assert!(counts.bytes > 0 && counts.fallback_bytes > 0 && counts.bytes + counts.fallback_bytes == 400_000);
}

/// As where a peer has punched holes: the device asks for the page, and the kernel has none.
#[test]
fn a_queue_that_blocks_on_faults_is_not_given_up_for_pages_that_cannot_be_had() {
    let troubles = Troubles { page_faults: 100, refused_pages: 100, ..Troubles::default() };
    let mut options = options(Mode::Shared, troubles);
    options.limits.block_on_fault = true;
    let mut lab = Lab::new(options, PATIENCE);
    for _ in 0..20 {
        copy(&mut lab.channel, &[4000; 50], &[10], false);
    }
    let counts = lab.counts();
    assert_eq!((counts.faults, counts.fallbacks, counts.errors, counts.completed), (1000, 1000, 0, 0));
    assert_eq!(counts.fallback_bytes, 1000 * 4000, "what was done of them isn't known");
    assert_eq!(lab.device.given_up(), None);
}

/// As where a peer's pages are there, but not in the device's tables yet: it asks for them, waits, and goes on.
#[test]
fn a_queue_that_blocks_on_faults_waits_for_pages_and_goes_on() {
    for mode in [Mode::Dedicated, Mode::Shared] {
        let troubles = Troubles { page_faults: 40, page_wait: 300, reorder: true, ..Troubles::default() };
        let mut options = options(mode, troubles);
        options.limits = Limits { block_on_fault: true, size: 2, ..options.limits };
        let mut lab = Lab::new(options, PATIENCE);
        for _ in 0..5 {
            copy(&mut lab.channel, &[4000; 100], &[10, 1], true);
        }
        let counts = lab.counts();
        assert_eq!((counts.faults, counts.errors, counts.full), (0, 0, counts.fallbacks), "{counts:?}");
        assert!(counts.completed > 50 && counts.completed + counts.fallbacks == 500, "{counts:?}");
        assert!(lab.watch.waits.load(Ordering::Relaxed) > 10);
        assert_eq!(lab.device.given_up(), None);
        // All places of the queue are free again.
        copy(&mut lab.channel, &[4000, 4000], &[1], true);
        assert_eq!(lab.counts().completed, counts.completed + 2);
    }
}

/// A transfer that waits is overtaken by those behind it in its batch, and they are reported behind it all the same.
#[test]
fn what_waits_for_a_page_is_reported_in_its_turn() {
    let troubles = Troubles { page_faults: 50, page_wait: 20_000, ..Troubles::default() };
    let mut options = options(Mode::Dedicated, troubles);
    options.limits.block_on_fault = true;
    let mut lab = Lab::new(options, PATIENCE);
    copy(&mut lab.channel, &[1000; 60], &[20], true);
    assert_eq!((lab.counts().completed, lab.counts().faults), (60, 0));
    assert!(lab.watch.overtaken.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_full_queue_is_tried_again_and_then_left() {
    let mut lab = Lab::new(options(Mode::Shared, Troubles { full: 100, ..Troubles::default() }), PATIENCE);
    copy(&mut lab.channel, &[1000; 20], &[10], false);
    let counts = lab.counts();
    assert_eq!((counts.submitted, counts.full, counts.fallbacks), (0, 20, 20));
    assert_eq!(counts.retries, 2 * 63, "tried a bounded number of times for each vector");

    let mut options = options(Mode::Shared, Troubles { full: 50, ..Troubles::default() });
    options.limits.size = 64;
    let mut lab = Lab::new(options, PATIENCE);
    copy(&mut lab.channel, &[1000; 200], &[4], false);
    let counts = lab.counts();
    assert!(counts.retries > 0 && counts.completed == 200, "{counts:?}");
}

#[test]
fn a_device_that_fails_for_good_is_given_up() {
    let mut lab =
        Lab::new(options(Mode::Dedicated, Troubles { errors: 100, ..Troubles::default() }), PATIENCE);
    for _ in 0..20 {
        copy(&mut lab.channel, &[800; 64], &[64], false);
    }
    let counts = lab.counts();
    assert!(lab.device.given_up().unwrap().reason.to_string().contains("failed"), "{counts:?}");
    assert!(counts.errors >= 512 && counts.errors < 640, "{counts:?}");
    assert_eq!(counts.fallbacks, 20 * 64);
    // All that use the device know.
    let mut other = Channel::new(Arc::clone(&lab.device), Cpu::default());
    copy(&mut other, &[800; 64], &[64], false);
    assert_eq!(lab.counts().submitted, counts.submitted);
}

#[test]
fn pages_that_are_not_there_are_no_fault_of_the_device() {
    let mut lab =
        Lab::new(options(Mode::Dedicated, Troubles { page_faults: 100, ..Troubles::default() }), PATIENCE);
    // A peer whose pages are never there.
    for _ in 0..20 {
        copy(&mut lab.channel, &[800; 64], &[64], false);
    }
    assert_eq!((lab.counts().faults, lab.device.given_up()), (20 * 64, None));
    // Others go on with the device.
    let mut other = Channel::new(Arc::clone(&lab.device), Cpu::default());
    copy(&mut other, &[800; 64], &[64], false);
    assert_eq!(lab.counts().submitted, 21);
}

#[test]
fn a_dedicated_queue_has_room_for_as_many_as_it_is_done_with() {
    let mut lab = Lab::new(ModelOptions::default(), PATIENCE);
    let (from, mut to) = (body(1, 64 * 600), vec![0; 64 * 600]);
    // Four times as many as it holds, each done before the next.
    for (number, (from, to)) in from.chunks_exact(600).zip(to.chunks_exact_mut(600)).enumerate() {
        // SAFETY: both outlive `finish`.
        unsafe { lab.channel.push(Transfer { to: to.as_mut_ptr(), from: from.as_ptr(), len: 600 }) };
        lab.channel.submit();
        // All that it has taken, which is less than all if there was no room.
        while lab.watch.done.load(Ordering::Acquire) < lab.watch.taken.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        assert_eq!(lab.channel.pending(), number + 1, "not reported yet");
    }
    assert_eq!(lab.channel.poll(), 64);
    assert_eq!(lab.channel.pending(), 0);
    assert_eq!(to, from);
    let counts = lab.counts();
    assert_eq!(
        (counts.completed, counts.fallbacks, counts.full, counts.retries),
        (64, 0, 0, 0),
        "{counts:?}"
    );
    assert_eq!(lab.watch.overflows.load(Ordering::Relaxed), 0);
}

#[test]
fn channels_share_a_dedicated_queue_without_overrunning_it() {
    for mode in [Mode::Dedicated, Mode::Shared] {
        let mut options = options(mode, Troubles { reorder: true, page_faults: 5, ..Troubles::default() });
        options.limits.size = 2;
        let lab = Lab::new(options, PATIENCE);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mut channel = Channel::new(Arc::clone(&lab.device), Cpu::default());
                scope.spawn(move || (0..10).for_each(|_| copy(&mut channel, &[700; 40], &[1, 5, 9], true)));
            }
        });
        let counts = lab.counts();
        assert_eq!(lab.watch.overflows.load(Ordering::Relaxed), 0);
        assert_eq!(counts.completed + counts.fallbacks, 4 * 10 * 40, "{counts:?}");
    }
}

#[test]
fn more_than_a_channel_holds_is_done_by_the_cpu() {
    let mut lab =
        Lab::new(options(Mode::Dedicated, Troubles { delays: 100, ..Troubles::default() }), PATIENCE);
    copy(&mut lab.channel, &[100; 3 * CAPACITY], &[3 * CAPACITY], true);
    let counts = lab.counts();
    assert_eq!(counts.completed + counts.fallbacks, 3 * CAPACITY as u64);
    assert!(counts.completed >= 64 && counts.full > 0 && counts.full == counts.fallbacks, "{counts:?}");
}

#[test]
fn a_vector_of_jumbo_frames_is_the_devices_from_the_first_burst_on() {
    let mut options = ModelOptions::default();
    options.limits.size = 64;
    let mut lab = Lab::new(options, PATIENCE);
    // Five buffers each.
    let (from, mut to) = (body(1, 200 * 5 * 512), vec![0; 200 * 5 * 512]);
    for (from, to) in from.chunks_exact(512).zip(to.chunks_exact_mut(512)) {
        // SAFETY: both outlive `finish`.
        unsafe { lab.channel.push(Transfer { to: to.as_mut_ptr(), from: from.as_ptr(), len: 512 }) };
    }
    assert_eq!(
        lab.watch.taken.load(Ordering::Relaxed),
        15,
        "of 64 each, before anybody has said that it is all"
    );
    lab.channel.finish();
    assert_eq!(to, from);
    assert_eq!((lab.counts().completed, lab.counts().fallbacks), (1000, 0));
}

#[test]
fn descriptors_go_by_all_slots_of_the_portal_in_turn() {
    for mode in [Mode::Dedicated, Mode::Shared] {
        let mut lab = Lab::new(options(mode, Troubles::default()), PATIENCE);
        let seen = |lab: &Lab| lab.watch.slots.load(Ordering::Relaxed);
        for number in 1..=SLOTS as u32 {
            copy(&mut lab.channel, &[300; 2], &[2], false);
            assert_eq!(seen(&lab).count_ones(), number);
        }
        // Channels don't begin where others are: neither where that of the lab is.
        let lab = Lab::new(options(mode, Troubles::default()), PATIENCE);
        for number in 1..=3 {
            let mut channel = Channel::new(Arc::clone(&lab.device), Cpu::default());
            copy(&mut channel, &[300; 12], &[1], false);
            assert_eq!(seen(&lab).count_ones(), 12 * number);
        }
    }
}

#[test]
fn the_cpu_is_an_engine_too() {
    copy(&mut Cpu::default(), &[1, 63, 64, 65, 300, 1500, 9000], &[3], true);
}

#[test]
fn a_channel_that_is_dropped_waits_for_what_is_on_its_way() {
    let troubles = Troubles { delays: 100, ..Troubles::default() };
    let mut lab = Lab::new(options(Mode::Dedicated, troubles), PATIENCE);
    let (from, mut to) = (body(1, 5000), vec![0; 5000]);
    // SAFETY: both outlive the channel.
    unsafe { lab.channel.push(Transfer { to: to.as_mut_ptr(), from: from.as_ptr(), len: 5000 }) };
    lab.channel.submit();
    drop(lab.channel);
    assert_eq!(to, from);
}

#[test]
fn a_channel_that_is_dropped_forgets_what_was_not_submitted() {
    let lab = Lab::new(ModelOptions::default(), PATIENCE);
    let Lab { device, mut channel, .. } = lab;
    let (from, mut to) = (vec![1; 500], vec![0; 500]);
    for submitted in [true, false] {
        // SAFETY: both outlive the channel.
        unsafe {
            channel.push(Transfer {
                to: to.as_mut_ptr(),
                from: from.as_ptr(),
                len: 250 + 250 * u32::from(!submitted),
            })
        };
        if submitted {
            channel.submit();
        }
    }
    drop(channel);
    assert_eq!(
        to,
        [vec![1; 250], vec![0; 250]].concat(),
        "nobody knows whether the second was still to be read"
    );
    let counts = device.counts();
    assert_eq!((counts.transfers, counts.completed), (1, 1));
}
