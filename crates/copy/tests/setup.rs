//! From options to engines.

#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test may panic, and has bytes of its own to be copied"
)]

use memory::simd::Tier;
use quiver_copy::dsa::OpenError;
use quiver_copy::learn::{SIZES, measure};
use quiver_copy::model::ModelOptions;
use quiver_copy::{Choice, CopyOptions, Cpu, Engine, Engines, SetupError, Transfer};

fn open(choice: Choice, threshold: Option<usize>) -> Result<Option<Engines>, SetupError> {
    Engines::open(&CopyOptions { choice, threshold, cores: vec![0] }, Tier::detect())
}

#[test]
fn the_cpu_needs_nothing() {
    assert!(open(Choice::Cpu, None).unwrap().is_none());
}

#[test]
fn channels_of_a_model_copy() {
    let engines = open(Choice::Model(ModelOptions::default()), None).unwrap().unwrap();
    assert_eq!((engines.name(), engines.devices().len()), ("dsa-model", 1));
    assert!(engines.threshold().is_some() && engines.learnt().is_empty(), "nothing is measured on a model");
    for mut channel in [engines.channel(Some(0)), engines.channel(None)] {
        let (from, mut to) = (vec![7_u8; 3000], vec![0_u8; 3000]);
        // SAFETY: both outlive `finish`.
        unsafe { channel.push(Transfer { to: to.as_mut_ptr(), from: from.as_ptr(), len: 3000 }) };
        channel.finish();
        assert_eq!(to, from);
    }
    assert_eq!(engines.devices()[0].counts().completed, 2);
    let told = open(Choice::Model(ModelOptions::default()), Some(777)).unwrap().unwrap();
    assert_eq!(told.threshold(), Some(777));
}

#[test]
fn measuring_leaves_a_channel_idle() {
    let engines = open(Choice::Model(ModelOptions::default()), None).unwrap().unwrap();
    let mut channel = engines.channel(None);
    let timings = measure(Some(0), &mut Cpu::default(), &mut channel);
    assert_eq!(timings.iter().map(|timing| timing.size).collect::<Vec<_>>(), SIZES);
    assert_eq!(channel.pending(), 0);
    let counts = engines.devices()[0].counts();
    assert!(counts.completed > 0 && counts.completed + counts.fallbacks == counts.transfers, "{counts:?}");
}

#[test]
fn what_is_not_there_is_refused_by_kind() {
    let refused = |name: &str| open(Choice::Dsa(vec![name.into()]), None).unwrap_err();
    assert!(matches!(refused("wq999.0"), SetupError::Open(OpenError::Missing { .. })));
    for name in ["", "dsa0", "wq0", "wq0.", "wq.1", "wq0.1/../x", "../wq0.1"] {
        assert!(matches!(refused(name), SetupError::Name(_)), "{name:?}");
    }
}

#[test]
fn a_queue_is_named_once() {
    let names = ["wq999.0", "wq999.1", "wq999.0"].map(String::from).to_vec();
    let refused = open(Choice::Dsa(names), None).unwrap_err();
    assert!(matches!(&refused, SetupError::Twice(name) if name == "wq999.0"), "{refused}");
}
