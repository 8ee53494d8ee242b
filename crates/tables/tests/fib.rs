//! The tables against an independent longest-prefix match, over random histories.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use quiver_tables::fib::{Address, Fib, FibError, FibWriter, NextHopId, RouteChange};

/// The oracle for both widths: `prefix-trie` keys are (address, length) tuples.
trait Width: Address + std::ops::BitXor<Output = Self> {
    type Key: prefix_trie::Prefix;
    fn key(self, len: u8) -> Self::Key;
    fn low(value: u128) -> Self;
}
macro_rules! width {
    ($int:ty) => {
        impl Width for $int {
            type Key = ($int, u8);
            fn key(self, len: u8) -> Self::Key {
                (self, len)
            }
            fn low(value: u128) -> Self {
                value as Self
            }
        }
    };
}
width!(u32);
width!(u128);

#[derive(Clone, Debug)]
enum Step {
    Insert { base: u8, noise: u128, len: u8, id: u32 },
    Remove { nth: usize },
    Rename { from: u32, to: u32 },
    Reclaim,
}

/// Prefixes that nest and collide: few bases, noise in few bits, lengths with a weight on the edges of nodes.
fn step(bits: u8) -> impl Strategy<Value = Step> {
    let edges: Vec<u8> =
        [0, 1, 7, 8, 15, 16, 17, 23, 24, 25, 31, 32, 33, 40, 47, 48, 56, 63, 64, 65, 96, 120, 127, 128]
            .into_iter()
            .filter(|&len| len <= bits)
            .collect();
    let len = prop_oneof![proptest::sample::select(edges), 0..=bits];
    let noise = prop_oneof![
        Just(0u128),
        (0..128u32).prop_map(|bit| 1u128 << bit),
        (0..128u32, any::<u8>()).prop_map(|(bit, byte)| u128::from(byte) << bit),
        any::<u128>(),
    ];
    prop_oneof![
        6 => (0..4u8, noise, len, 1..40u32).prop_map(|(base, noise, len, id)| Step::Insert { base, noise, len, id }),
        3 => any::<usize>().prop_map(|nth| Step::Remove { nth }),
        1 => (1..40u32, 1..40u32).prop_map(|(from, to)| Step::Rename { from, to }),
        1 => Just(Step::Reclaim),
    ]
}

fn base<A: Width>(which: u8) -> A {
    let wide: u128 =
        [0, u128::MAX, 0xfd00_0010_0244_0000_0000_0000_0000_0000, 0x0a00_0001_2001_0db8_0000_0000_0000_00ff]
            [usize::from(which)];
    A::narrow(wide)
}

/// Every address at which a result can begin or end to differ, and one on either side of it.
fn probes<A: Width>(prefixes: &[(A, u8)]) -> Vec<A> {
    let mut all = vec![A::low(0), A::narrow(u128::MAX), base::<A>(2), base::<A>(3)];
    for &(prefix, len) in prefixes {
        let inside = if len == 0 { u128::MAX } else { u128::MAX.checked_shr(u32::from(len)).unwrap_or(0) };
        let last = A::narrow(prefix.widen() | inside);
        all.extend([prefix, last]);
        all.extend(
            [len, len + 1, len.saturating_add(9)]
                .into_iter()
                .filter(|bit| (1..=A::BITS).contains(bit))
                .map(|bit| prefix ^ A::narrow(1u128 << (128 - u32::from(bit)))),
        );
    }
    all
}

fn check<A: Width>(
    fib: &Fib<A>,
    writer: &FibWriter<A>,
    oracle: &prefix_trie::PrefixMap<A::Key, u32>,
    addrs: &[A],
) -> Result<(), TestCaseError> {
    let mut out = vec![u32::MAX; addrs.len()];
    fib.lookup_batch(addrs, &mut out, |_| ());
    for (&addr, &batched) in addrs.iter().zip(&out) {
        let expect = oracle.get_lpm(&addr.key(A::BITS)).map_or(0, |(_, &id)| id);
        prop_assert_eq!(fib.lookup(addr), NextHopId(expect), "{:x?}", addr);
        prop_assert_eq!(batched, expect, "batch {:x?}", addr);
        prop_assert_eq!(writer.route_of(addr).map_or(0, |(.., id)| id.0), expect);
    }
    // Neighbours, who go down the table together.
    let mut sorted = addrs.to_vec();
    sorted.sort_unstable();
    for addrs in sorted.chunks(3) {
        fib.lookup_batch(addrs, &mut out, |_| ());
        let each: Vec<u32> = addrs.iter().map(|addr| fib.lookup(*addr).0).collect();
        prop_assert_eq!(&out[..addrs.len()], each, "neighbours {:x?}", addrs);
    }
    Ok(())
}

fn history<A: Width>(steps: &[Step], shared: bool) -> Result<(), TestCaseError> {
    let mut writer = FibWriter::<A>::with_capacity(4 << 20).unwrap();
    let mut oracle = prefix_trie::PrefixMap::<A::Key, u32>::new();
    let mut present: Vec<(A, u8)> = Vec::new();
    let early = shared.then(|| writer.reader());
    for step in steps {
        let mut touched = present.clone();
        match *step {
            Step::Insert { base: which, noise, len, id } => {
                let prefix = (base::<A>(which) ^ A::low(noise)).masked(len);
                let old = writer.insert(prefix, len, NextHopId(id)).unwrap();
                prop_assert_eq!(old.map(|id| id.0), oracle.insert(prefix.key(len), id));
                if old.is_none() {
                    present.push((prefix, len));
                }
                touched.push((prefix, len));
            }
            Step::Remove { nth } if !present.is_empty() => {
                let (prefix, len) = present.swap_remove(nth % present.len());
                let old = writer.remove(prefix, len).unwrap();
                prop_assert_eq!(old.map(|id| id.0), oracle.remove(&prefix.key(len)));
                prop_assert_eq!(writer.remove(prefix, len), Ok(None));
            }
            Step::Remove { .. } => {}
            Step::Rename { from, to } => {
                let hit = oracle.values_mut().filter(|id| **id == from).map(|id| *id = to).count();
                prop_assert_eq!(writer.replace_id(NextHopId(from), NextHopId(to)), Ok(hit));
            }
            Step::Reclaim => {
                let mark = writer.retire_mark();
                writer.reclaim(mark);
                prop_assert_eq!(writer.usage().retired, 0);
            }
        }
        prop_assert_eq!(writer.len(), present.len());
        // A reader made for one look and dropped leaves the table unshared again.
        let fib = early.clone().unwrap_or_else(|| writer.reader());
        check(&fib, &writer, &oracle, &probes(&touched))?;
    }
    for (prefix, len) in present {
        writer.remove(prefix, len).unwrap();
    }
    let fib = writer.reader();
    prop_assert_eq!(fib.lookup(base::<A>(2)), NextHopId::NO_ROUTE);
    prop_assert_eq!(writer.usage().live, 65536 * 4, "an empty table holds no node");
    Ok(())
}

/// The same history, insertions and withdrawals carried out many at a time.
fn batches<A: Width>(steps: &[Step], at_a_time: usize, shared: bool) -> Result<(), TestCaseError> {
    let mut writer = FibWriter::<A>::with_capacity(32 << 20).unwrap();
    let mut oracle = prefix_trie::PrefixMap::<A::Key, u32>::new();
    let mut present: Vec<(A, u8)> = Vec::new();
    let early = shared.then(|| writer.reader());
    for steps in steps.chunks(at_a_time) {
        let (mut changes, mut touched) = (Vec::new(), present.clone());
        for step in steps {
            let (prefix, len, id) = match *step {
                Step::Insert { base: which, noise, len, id } => {
                    // Most of them under a few /16, which is where they are carried out together.
                    ((base::<A>(which) ^ A::narrow(noise & u128::MAX >> 12)).masked(len), len, id)
                }
                Step::Remove { nth } if !present.is_empty() => {
                    let (prefix, len) = present[nth % present.len()];
                    (prefix, len, 0)
                }
                _ => continue,
            };
            changes.push(RouteChange { prefix, len, id: NextHopId(id) });
            touched.push((prefix, len));
            if id == 0 {
                oracle.remove(&prefix.key(len));
                present.retain(|route| *route != (prefix, len));
            } else if oracle.insert(prefix.key(len), id).is_none() {
                present.push((prefix, len));
            }
        }
        prop_assert_eq!(writer.change_all(&changes), Ok(()));
        prop_assert_eq!(writer.len(), present.len());
        let fib = early.clone().unwrap_or_else(|| writer.reader());
        check(&fib, &writer, &oracle, &probes(&touched))?;
        let mark = writer.retire_mark();
        writer.reclaim(mark);
    }
    let all: Vec<_> =
        present.iter().map(|&(prefix, len)| RouteChange { prefix, len, id: NextHopId(0) }).collect();
    prop_assert_eq!(writer.change_all(&all), Ok(()));
    prop_assert_eq!(writer.usage().live, 65536 * 4, "an empty table holds no node");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn v4_follows_the_oracle(steps in proptest::collection::vec(step(32), 1..60), shared: bool) {
        history::<u32>(&steps, shared)?;
    }

    #[test]
    fn v4_batches_follow_the_oracle(steps in proptest::collection::vec(step(32), 1..200), at_a_time in 2..80usize, shared: bool) {
        batches::<u32>(&steps, at_a_time, shared)?;
    }

    #[test]
    fn v6_batches_follow_the_oracle(steps in proptest::collection::vec(step(128), 1..200), at_a_time in 2..80usize, shared: bool) {
        batches::<u128>(&steps, at_a_time, shared)?;
    }

    #[test]
    fn v6_follows_the_oracle(steps in proptest::collection::vec(step(128), 1..60), shared: bool) {
        history::<u128>(&steps, shared)?;
    }
}

/// Nodes pass through all their forms, up and down: a /16 fills with host routes and empties again.
#[test]
fn a_dense_block_grows_and_shrinks() {
    let mut writer = FibWriter::<u32>::with_capacity(4 << 20).unwrap();
    let fib = writer.reader();
    let all: Vec<u32> = (0..2048).map(|host| 0x0a00_0000 + host).collect();
    let mut out = vec![0; all.len()];
    // A stride that visits every host once, in no sorted order.
    let order = |at: u32| at * 1237 % 2048;
    writer.insert(0, 0, NextHopId(9)).unwrap();
    for at in 0..2048 {
        writer.insert(0x0a00_0000 + order(at), 32, NextHopId(100 + order(at))).unwrap();
        if at % 64 == 0 {
            fib.lookup_batch(&all, &mut out, |_| ());
            let done: std::collections::BTreeSet<u32> = (0..=at).map(order).collect();
            for host in 0..2048 {
                let expect = if done.contains(&host) { 100 + host } else { 9 };
                assert_eq!(out[host as usize], expect, "host {host} after {at}");
            }
        }
        let mark = writer.retire_mark();
        writer.reclaim(mark);
    }
    assert!(writer.usage().live <= 65536 * 4 + 9 * 1024, "dense nodes are direct: {:?}", writer.usage());
    for at in 0..2048 {
        writer.remove(0x0a00_0000 + order(at), 32).unwrap();
        assert_eq!(fib.lookup(0x0a00_0000 + order(at)), NextHopId(9));
        let mark = writer.retire_mark();
        writer.reclaim(mark);
    }
    assert_eq!(writer.usage().live, 65536 * 4);
}

/// A batch in order of address leaves the table as single changes do: the same results in the same nodes.
#[test]
fn a_batch_makes_the_same_table() {
    fn same<A: Width>(routes: &[RouteChange<A>]) {
        let (mut one, mut all) = (FibWriter::<A>::new().unwrap(), FibWriter::<A>::new().unwrap());
        for route in routes {
            one.insert(route.prefix, route.len, route.id).unwrap();
        }
        all.change_all(routes).unwrap();
        assert_eq!((one.len(), one.usage().live), (all.len(), all.usage().live));
        let withdrawn: Vec<_> =
            routes.iter().map(|route| RouteChange { id: NextHopId(0), ..*route }).collect();
        all.change_all(&withdrawn[..routes.len() / 2]).unwrap();
        withdrawn[..routes.len() / 2].iter().for_each(|route| {
            one.remove(route.prefix, route.len).unwrap();
        });
        assert_eq!(one.len(), all.len());
        let (one, all) = (one.reader(), all.reader());
        assert!(routes.iter().all(|route| one.lookup(route.prefix) == all.lookup(route.prefix)));
    }
    let len = |n: u32| if n % 8 == 7 { 22 } else { 24 };
    let route4 = |n: u32| (0x0100_0000 + n * 0x100, len(n), NextHopId(1 + n % 5));
    let routes4: Vec<_> = (0..20_000).map(route4).collect();
    let change =
        |(prefix, len, id): (u32, u8, NextHopId)| RouteChange { prefix: prefix.masked(len), len, id };
    same(&routes4.iter().copied().map(change).collect::<Vec<_>>());
    let change = |(prefix, len, id): (u32, u8, NextHopId)| {
        let prefix = (u128::from(prefix) << 80 | 0x2001 << 112).masked(len + 24);
        RouteChange { prefix, len: len + 24, id }
    };
    same(&routes4.iter().copied().map(change).collect::<Vec<_>>());
}

/// What is refused in the midst of a batch leaves in force what was before it, and nothing behind it.
#[test]
fn a_batch_ends_at_what_is_refused() {
    let mut writer = FibWriter::<u32>::new().unwrap();
    let change = |prefix, len, id| RouteChange { prefix, len, id: NextHopId(id) };
    let good = (0..40).map(|n| change(0x0a00_0000 + n, 32, 1 + n));
    let mut changes: Vec<_> = good.collect();
    changes.insert(20, change(0x0a00_0101, 24, 1));
    assert_eq!(writer.change_all(&changes), Err((20, FibError::HostBits { len: 24 })));
    assert_eq!(writer.len(), 20);
    assert_eq!(writer.change_all(&changes[21..]), Ok(()));
    let fib = writer.reader();
    assert!((0..40).all(|n| fib.lookup(0x0a00_0000 + n) == NextHopId(1 + n)));
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let mut writer = FibWriter::<u32>::new().unwrap();
    assert_eq!(writer.insert(0, 33, NextHopId(1)), Err(FibError::Length { len: 33, max: 32 }));
    assert_eq!(writer.insert(0x0a00_0001, 8, NextHopId(1)), Err(FibError::HostBits { len: 8 }));
    assert_eq!(writer.insert(0, 0, NextHopId(0)), Err(FibError::Id { id: NextHopId(0) }));
    let beyond = NextHopId(NextHopId::MAX.0 + 1);
    assert_eq!(writer.insert(0, 0, beyond), Err(FibError::Id { id: beyond }));
    assert_eq!(writer.remove(0x0a00_0001, 40), Ok(None));
    assert!(writer.is_empty());
    assert_eq!(writer.insert(0, 0, NextHopId::MAX), Ok(None));
    assert_eq!(writer.reader().lookup(7), NextHopId::MAX);
}

/// A full table refuses routes, keeps all it has, and takes routes again after space was reclaimed.
fn fill<A: Width>(spread: impl Fn(u32) -> A) {
    let mut writer = FibWriter::<A>::with_capacity(0).unwrap();
    let fib = writer.reader();
    writer.insert(A::low(0), 0, NextHopId(1)).unwrap();
    let mut held = Vec::new();
    let mut reclaims = 0;
    let (at, error) = (0..)
        .find_map(|at| {
            loop {
                match writer.insert(spread(at), A::BITS, NextHopId(at + 2)) {
                    Ok(_) => {
                        held.push(at);
                        break None;
                    }
                    Err(error) if writer.usage().retired == 0 => break Some((at, error)),
                    Err(_) => {
                        let mark = writer.retire_mark();
                        reclaims += writer.reclaim(mark);
                    }
                }
            }
        })
        .unwrap();
    assert!(matches!(error, FibError::Full { retired: 0, .. }), "{error}");
    assert!(reclaims > 0 && held.len() > 50, "{reclaims} {}", held.len());
    assert_eq!(writer.get(spread(at), A::BITS), None);
    assert!(held.iter().all(|&at| fib.lookup(spread(at)) == NextHopId(at + 2)));
    assert_eq!(fib.lookup(spread(at)), NextHopId(1));
    // What is left is enough for changes that need no block.
    for &at in &held {
        if writer.remove(spread(at), A::BITS).is_ok() {
            assert_eq!(fib.lookup(spread(at)), NextHopId(1));
        } else {
            assert_eq!(fib.lookup(spread(at)), NextHopId(at + 2));
        }
    }
}

#[test]
fn a_full_table_refuses_and_recovers() {
    let mix = |at: u32| at.wrapping_mul(0x9e37_79b1);
    fill::<u32>(|at| 0x0a00_0000 | mix(at) >> 14);
    fill::<u128>(|at| 0x2001 << 112 | u128::from(mix(at)) << 60 | u128::from(mix(at)));
}

#[test]
fn a_token_of_another_table_reclaims_nothing() {
    let (mut one, other) = (FibWriter::<u32>::new().unwrap(), FibWriter::<u32>::new().unwrap());
    let _fib = one.reader();
    for host in 0..40 {
        one.insert(host, 32, NextHopId(host + 1)).unwrap();
    }
    let retired = one.usage().retired;
    assert!(retired > 0);
    assert_eq!(one.reclaim(other.retire_mark()), 0);
    assert_eq!(one.usage().retired, retired);
}
