//! Large tables, whose addresses go down in rounds, against a list of prefixes that is gone through from end to end.

use proptest::prelude::*;

use super::{Address, FibWriter, NextHopId, RouteChange};

/// A granule so far up that the table counts as large.
const FAR_UP: u32 = 1 << 17;
/// Most routes that a history has at a time: enough for nodes of all forms.
const MOST: usize = 400;

type Route<A> = (A, u8, u32);

/// Networks alone, side by side and within each other, of all lengths and mostly those about /32, and many hosts of one.
fn prefix() -> impl Strategy<Value = (u128, u8)> {
    let upper = prop_oneof![
        4 => (0..3u32, 0..4u32).prop_map(|(byte, low)| 0x2400_0000 | byte << 8 | low),
        2 => (0..3u32).prop_map(|byte| 0x2400_0000 | byte << 16 | 7),
        1 => (0..32u32).prop_map(|bit| 0x2400_0000 ^ 1 << bit),
        1 => Just(0),
        1 => Just(u32::MAX),
    ];
    let behind = prop_oneof![
        Just(0u128),
        (0..96u32).prop_map(|bit| 1 << bit),
        (0..256u128).prop_map(|n| n << 80),
        any::<u128>().prop_map(|noise| noise >> 32),
    ];
    let len = prop_oneof![
        6 => 24..=49u8,
        2 => proptest::sample::select(vec![0, 8, 15, 16, 17, 23, 56, 64, 120, 127, 128]),
        1 => 0..=128u8,
    ];
    let around = (upper, behind, len);
    prop_oneof![
        8 => around.prop_map(|(upper, behind, len)| (u128::from(upper) << 96 | behind, len)),
        4 => (0..=255u8).prop_map(|host| (u128::from(0x2400_0100_u32) << 96 | u128::from(host) << 88, 40)),
        4 => (0..=255u8).prop_map(|host| (u128::from(0x2400_0200_u32) << 96 | u128::from(host) << 96, 32)),
    ]
}

/// A change of a route; without an id, the withdrawal of one of those that there are.
fn change() -> impl Strategy<Value = ((u128, u8), Option<u32>, usize)> {
    let id = prop_oneof![3 => (1..4u32).prop_map(Some), 1 => Just(None)];
    (prefix(), id, any::<usize>())
}

fn expected<A: Address>(routes: &[Route<A>], addr: A) -> u32 {
    let holding = routes.iter().filter(|(prefix, len, _)| addr.masked(*len) == *prefix);
    holding.max_by_key(|(_, len, _)| *len).map_or(0, |(.., id)| *id)
}

/// First and last addresses of prefixes, and those beside and behind them.
fn probes<A: Address>(prefixes: &[(A, u8)]) -> Vec<A> {
    let mut all = Vec::new();
    for (prefix, len) in prefixes {
        let behind = u128::MAX.checked_shr((*len).into()).unwrap_or(0);
        let bits = [len.saturating_sub(1), 24, *len].map(|bit| 127u32.checked_sub(bit.into()));
        let others = bits.into_iter().flatten().map(|bit| prefix.widen() ^ 1 << bit);
        all.extend([prefix.widen(), prefix.widen() | behind].into_iter().chain(others).map(A::narrow));
    }
    all
}

fn history<A: Address>(
    changes: &[((u128, u8), Option<u32>, usize)],
    at_a_time: usize,
    shared: bool,
) -> Result<(), TestCaseError> {
    let mut writer = FibWriter::<A>::with_capacity(32 << 20).unwrap();
    writer.note_large(FAR_UP);
    let mut routes: Vec<Route<A>> = Vec::new();
    let early = shared.then(|| writer.reader());
    for changes in changes.chunks(at_a_time) {
        let mut seen: Vec<(A, u8)> = routes.iter().map(|(prefix, len, _)| (*prefix, *len)).collect();
        let mut batch = Vec::new();
        for ((wide, len), id, nth) in changes.iter().copied() {
            if let Some(id) = id.filter(|_| routes.len() < MOST) {
                let len = len.min(A::BITS);
                let prefix = A::narrow(wide).masked(len);
                routes.retain(|(other, of, _)| (*other, *of) != (prefix, len));
                routes.push((prefix, len, id));
                seen.push((prefix, len));
                batch.push(RouteChange { prefix, len, id: NextHopId(id) });
            } else if !routes.is_empty() {
                let (prefix, len, _) = routes.swap_remove(nth % routes.len());
                batch.push(RouteChange { prefix, len, id: NextHopId::NO_ROUTE });
            }
        }
        writer.change_all(&batch).unwrap();
        let addrs = probes(&seen);
        let fib = early.clone().unwrap_or_else(|| writer.reader());
        let mut found = vec![0; addrs.len()];
        fib.lookup_batch(&addrs, &mut found, |_| ());
        for (addr, found) in addrs.iter().zip(found) {
            let expect = expected(&routes, *addr);
            prop_assert_eq!((found, fib.lookup(*addr).0), (expect, expect), "{:x?}", addr);
        }
        let mark = writer.retire_mark();
        writer.reclaim(mark);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn large_v6_follows_the_list(changes in proptest::collection::vec(change(), 1..600), at_a_time in 20..80usize, shared: bool) {
        history::<u128>(&changes, at_a_time, shared)?;
    }

    #[test]
    fn large_v4_follows_the_list(changes in proptest::collection::vec(change(), 1..600), at_a_time in 20..80usize, shared: bool) {
        history::<u32>(&changes, at_a_time, shared)?;
    }

    #[test]
    fn large_v6_follows_single_changes(changes in proptest::collection::vec(change(), 1..40), shared: bool) {
        history::<u128>(&changes, 1, shared)?;
    }
}
