use super::*;
use core::cell::Cell;
use core::net::IpAddr;
use proptest::prelude::*;
use std::collections::HashMap;

const SEED: Seed = Seed::known([0x9e37_79b9, 0x1234_5678_9abc_def1, 77, 0xfeed_f00d_dead_beef]);

/// Flow number `n`, of IPv4 or IPv6 by turns.
fn key(n: u32) -> Key {
    if n & 1 == 0 {
        Key::v4(1, 17, (0x0a00_0000 | n >> 8, n as u16), (0x0b00_0001, 53)).0
    } else {
        Key::v6(1, 17, (0x2001_0db8 << 96 | u128::from(n >> 8), n as u16), (0x2001_0db8 << 96 | 1 << 40, 53))
            .0
    }
}

fn insert(table: &mut SessionTable<u64>, key: Key, value: u64) -> Result<Inserted, Full> {
    let hash = table.hash(&key);
    table.insert(key, hash, value)
}

/// What a vector's packets find.
fn look_up(table: &mut SessionTable<u64>, keys: &[Key]) -> Vec<u32> {
    let mut looks: Vec<Look<()>> = keys.iter().map(|key| Look::new(*key, ())).collect();
    let lines = Cell::new(0);
    let soon = |_| lines.set(lines.get() + 1);
    table.hashes(&mut looks, soon);
    table.candidates(&mut looks, soon, true);
    assert!((keys.len()..=3 * keys.len()).contains(&lines.get()), "a bucket, and the lines of a session");
    let mut found = |look: &Look<()>| {
        assert_eq!(look.hash, SEED.hash(&look.key));
        let there =
            table.visit_if(look.session, &look.key, !look.key.is_v4()).map(|(handle, _)| handle.index);
        there.or_else(|| table.find(&look.key, look.hash)).unwrap_or(NONE)
    };
    looks.iter().map(&mut found).collect()
}

fn find(table: &SessionTable<u64>, key: Key) -> Option<u32> {
    table.find(&key, table.hash(&key))
}

#[test]
fn flows_of_esp_have_one_direction_each_whatever_their_spi() {
    // Halves that are equal, and such that would turn the endpoints.
    for spi in [0x0001_0001_u32, 0x1000, 0xffff_0000] {
        let halves = ((spi >> 16) as u16, spi as u16);
        for (a, b) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let (a, b): (IpAddr, IpAddr) = (a.parse().unwrap(), b.parse().unwrap());
            let (there, from_high) = Key::of(7, 50, (a, halves.0), (b, halves.1)).unwrap();
            let (back, back_from_high) = Key::of(7, 50, (b, halves.0), (a, halves.1)).unwrap();
            assert!(there != back && !from_high && !back_from_high);
            assert_eq!((there.spi(), there.endpoints().0.0, back.endpoints().0.0), (Some(spi), a, b));
            let (udp, ..) = Key::of(7, 17, (a, halves.0), (b, halves.1)).unwrap();
            assert_eq!(udp.spi(), None);
        }
    }
}

#[test]
fn both_directions_have_one_key_and_know_which_they_are() {
    let (a, b) = ((0x0a00_0001, 4000), (0x0a00_0002, 80));
    let (one, reversed) = Key::v4(7, 6, a, b);
    assert_eq!((Key::v4(7, 6, b, a), reversed), ((one, true), false));
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    assert_eq!(one.endpoints(), ((ip("10.0.0.1"), 4000), (ip("10.0.0.2"), 80)));
    assert_eq!((one.context(), one.protocol(), one.is_v4()), (7, 6, true));
    let (a, b) = ((1 << 64 | 9, 4000), (2 << 64, 80));
    let (six, reversed) = Key::v6(7, 6, a, b);
    assert_eq!((Key::v6(7, 6, b, a), reversed), ((six, true), false));
    assert_eq!(six.endpoints(), ((ip("0:0:0:1::9"), 4000), (ip("0:0:0:2::"), 80)));
}

/// SFDP's weakness 18: it compares addresses only.
#[test]
fn a_host_that_speaks_with_itself_has_one_session() {
    let (there, reversed) = Key::v4(0, 6, (0x0a00_0001, 4000), (0x0a00_0001, 80));
    assert_eq!((Key::v4(0, 6, (0x0a00_0001, 80), (0x0a00_0001, 4000)), reversed), ((there, false), true));
    let (there, reversed) = Key::v6(0, 6, (1, 4000), (1, 80));
    assert_eq!((Key::v6(0, 6, (1, 80), (1, 4000)), reversed), ((there, false), true));
    let same = Key::v4(0, 6, (1, 1), (1, 1));
    assert!(!same.1, "nothing tells the directions apart");
}

#[test]
fn each_part_of_the_tuple_counts() {
    let base = Key::v4(1, 6, (1, 2), (3, 4)).0;
    let others = [
        Key::v4(2, 6, (1, 2), (3, 4)).0,
        Key::v4(1, 17, (1, 2), (3, 4)).0,
        Key::v4(1, 6, (9, 2), (3, 4)).0,
        Key::v4(1, 6, (1, 9), (3, 4)).0,
        Key::v4(1, 6, (1, 2), (9, 4)).0,
        Key::v4(1, 6, (1, 2), (3, 9)).0,
        Key::v6(1, 6, (1, 2), (3, 4)).0,
    ];
    for (at, other) in others.iter().enumerate() {
        assert_ne!(*other, base, "{at}");
        assert_ne!(SEED.hash(other), SEED.hash(&base), "{at}");
        assert_ne!(
            Seed::random().hash(other),
            Seed::random().hash(other),
            "{at}: another secret, another hash"
        );
    }
}

/// Hashes of neighbouring flows spread: buckets fill as by chance, and so do tags.
#[test]
fn the_hash_spreads() {
    for seed in [SEED, Seed::random(), Seed::random()] {
        let mut buckets = [0u32; 1024];
        let mut tags = [0u32; 256];
        for n in 0..64 * 1024 {
            let hash = seed.hash(&key(n));
            buckets[hash as usize % 1024] += 1;
            tags[(hash >> 20) as usize % 256] += 1;
        }
        let chi = |counts: &[u32], expected: f64| -> f64 {
            counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
        };
        // Degrees of freedom 1023 and 255; standard deviations √(2·df) = 45 and 23: six of them are allowed.
        assert!(chi(&buckets, 64.0) < 1023.0 + 6.0 * 45.3, "{}", chi(&buckets, 64.0));
        assert!(chi(&tags, 256.0) < 255.0 + 6.0 * 22.6, "{}", chi(&tags, 256.0));
    }
}

#[test]
fn grows_in_small_steps_and_keeps_everything() {
    const N: u32 = 500_000;
    let mut table = SessionTable::new(SEED, usize::MAX);
    let mut most = 0;
    for n in 0..N {
        let before = table.bytes();
        assert!(matches!(insert(&mut table, key(n), u64::from(n)), Ok(Inserted::New(_))));
        most = most.max(table.bytes() - before);
        if n.is_power_of_two() {
            (0..=n).for_each(|n| assert!(find(&table, key(n)).is_some(), "{n}"));
        }
    }
    // Some pages: of buckets, spilled ones and entries.
    assert!(most <= 16 * 4096, "{most} bytes in one step");
    let each = table.bytes() as f64 / f64::from(N);
    assert!(each <= 160.0, "{each} bytes a session, 32 more for its timer");
    for first in (0..N).step_by(256) {
        let keys: Vec<Key> = (first..first + 256).map(key).collect();
        let found = look_up(&mut table, &keys);
        for (n, session) in (first..first + 256).zip(found) {
            assert_eq!(table.get(session).copied(), (n < N).then_some(u64::from(n)));
        }
    }
}

/// Keys whose hashes agree in the bits that say the bucket, in tables of up to 4096 buckets, and in the tag.
fn colliding(wanted: usize, mask: u32) -> Vec<Key> {
    let like = SEED.hash(&key(0)) & mask;
    (0..).map(key).filter(|key| SEED.hash(key) & mask == like).take(wanted).collect()
}

#[test]
fn collisions_spill_over_and_are_all_found() {
    for (wanted, mask) in [(500, 0x0000_0fff), (40, 0x8fff_0000), (25, 0x000f_0fff)] {
        let keys = colliding(wanted, mask);
        let mut table = SessionTable::new(SEED, 1 << 20);
        for (n, key) in keys.iter().enumerate() {
            assert!(matches!(insert(&mut table, *key, n as u64), Ok(Inserted::New(_))));
            assert!(matches!(insert(&mut table, *key, 999), Ok(Inserted::There(_))));
        }
        let found = look_up(&mut table, &keys);
        for (n, session) in found.iter().enumerate() {
            assert_eq!(table.get(*session), Some(&(n as u64)));
        }
        // From the middle outwards: holes are filled from whatever bucket is last.
        for (n, key) in
            keys.iter().enumerate().skip(wanted / 2).chain(keys.iter().enumerate().take(wanted / 2))
        {
            let session = find(&table, *key).unwrap();
            assert_eq!(table.remove(session), Some((*key, n as u64)));
            assert_eq!(find(&table, *key), None);
        }
        assert!(table.is_empty());
    }
}

/// In a bucket and in those behind it; where another key has bucket and tag in common, only the keys themselves tell.
#[test]
fn buckets_alone_tell_what_is_vacant() {
    let keys = colliding(25, 0x0000_0fff);
    let mut table = SessionTable::new(SEED, 1 << 20);
    for key in &keys {
        assert!(table.is_vacant(table.hash(key)));
        insert(&mut table, *key, 0).unwrap();
    }
    assert!(keys.iter().all(|key| !table.is_vacant(table.hash(key))));
    let [there, like] = colliding(2, 0x7fff_0fff)[..] else { panic!("two of them") };
    let mut table = SessionTable::new(SEED, 1 << 20);
    insert(&mut table, there, 0).unwrap();
    let hash = table.hash(&like);
    assert_eq!((table.is_vacant(hash), table.find(&like, hash)), (false, None));
}

#[test]
fn a_full_table_says_so_and_takes_another_after_a_removal() {
    let mut table = SessionTable::new(SEED, 3);
    (0..3).for_each(|n| assert!(insert(&mut table, key(n), 0).is_ok()));
    assert_eq!(insert(&mut table, key(3), 0), Err(Full));
    assert!(matches!(insert(&mut table, key(1), 0), Ok(Inserted::There(_))), "who is in it stays");
    table.set_limit(1);
    assert_eq!((table.len(), insert(&mut table, key(3), 0)), (3, Err(Full)));
    (0..3).for_each(|n| assert!(table.remove(find(&table, key(n)).unwrap()).is_some()));
    assert!(insert(&mut table, key(3), 0).is_ok());
    let mut none = SessionTable::new(SEED, 0);
    assert_eq!(insert(&mut none, key(0), 0), Err(Full));
}

#[test]
fn a_stale_handle_refers_to_nothing() {
    let mut table = SessionTable::new(SEED, 8);
    let Ok(Inserted::New(index)) = insert(&mut table, key(0), 5) else { panic!() };
    let handle = table.handle(index).unwrap();
    assert_eq!(table.resolve(handle), Some(index));
    table.remove(index);
    assert_eq!((table.resolve(handle), table.handle(index), table.remove(index)), (None, None, None));
    let Ok(Inserted::New(again)) = insert(&mut table, key(1), 6) else { panic!() };
    assert_eq!(again, index, "the place is used again");
    assert_eq!(table.resolve(handle), None);
    assert_eq!(table.resolve(Handle { index: 4000, generation: 1 }), None);
}

#[test]
fn a_walk_in_parts_meets_everybody() {
    let mut table = SessionTable::new(SEED, 10_000);
    (0..5000).for_each(|n| assert!(insert(&mut table, key(n), u64::from(n)).is_ok()));
    (0..5000).step_by(3).for_each(|n| assert!(table.remove(find(&table, key(n)).unwrap()).is_some()));
    let (mut met, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let (part, next) = table.walk(at, 100);
        met.extend(part.map(|index| *table.get(index).unwrap()));
        from = next;
    }
    met.sort_unstable();
    assert_eq!(met, (0..5000).filter(|n| n % 3 != 0).collect::<Vec<u64>>());
}

proptest! {
    #[test]
    fn follows_a_hash_map(
        limit in prop_oneof![Just(usize::MAX), 1..200usize],
        steps in proptest::collection::vec((0..10u8, 0..600u32, any::<u64>()), 1..3000),
    ) {
        let mut table = SessionTable::new(SEED, limit);
        let mut model = HashMap::<Key, u64>::new();
        for (what, n, value) in steps {
            let key = key(n);
            match what {
                0..=5 => match insert(&mut table, key, value) {
                    Ok(Inserted::New(_)) => {
                        prop_assert!(model.len() < limit);
                        prop_assert_eq!(model.insert(key, value), None);
                    }
                    Ok(Inserted::There(index)) => prop_assert_eq!(table.get(index), model.get(&key)),
                    Err(Full) => prop_assert!(model.len() >= limit && !model.contains_key(&key)),
                },
                6..=8 => {
                    let removed = find(&table, key).and_then(|index| table.remove(index));
                    prop_assert_eq!(removed, model.remove(&key).map(|value| (key, value)));
                }
                _ => {
                    let keys: Vec<Key> = (n..n + 40).map(self::key).collect();
                    let found = look_up(&mut table, &keys);
                    for (key, session) in keys.iter().zip(found) {
                        prop_assert_eq!(table.get(session), model.get(key));
                        prop_assert_eq!(table.key(session), model.get_key_value(key).map(|(key, _)| *key));
                    }
                }
            }
            prop_assert_eq!(table.len(), model.len());
        }
    }
}

/// Another key of flow `n`, by which it is found too.
fn other(n: u32) -> Key {
    Key::v4(1, 17, (0xc000_0200 | n >> 16, n as u16), (0x0b00_0001, 53)).0
}

#[test]
fn a_session_is_found_by_another_key_until_it_is_gone() {
    let mut table = SessionTable::new(SEED, 10);
    let Ok(Inserted::New(index)) = insert(&mut table, key(2), 7) else { panic!() };
    let handle = table.handle(index).unwrap();
    let number = table.add_alias(handle, other(2), true).unwrap();
    assert!(is_alias(number) && !is_alias(index) && !is_alias(NONE));
    assert_eq!(table.add_alias(handle, other(2), true), Err(Taken), "by another key");
    assert_eq!(table.add_alias(handle, key(2), true), Err(Taken), "by its own");
    assert_eq!(insert(&mut table, other(2), 8), Ok(Inserted::There(number)));
    assert_eq!(look_up(&mut table, &[other(2), key(2), other(3)]), [number, index, NONE]);
    let mut looks = [other(2), key(2), other(3)].map(|key| Look::new(key, false));
    table.hashes(&mut looks, |_| ());
    assert!(table.candidates(&mut looks, |_| (), true));
    table.by_own_keys(&mut looks, |_| (), |turned| *turned = true);
    let own = looks.map(|look| (look.key, look.hash == SEED.hash(&look.key), look.mark));
    assert_eq!(own, [(key(2), true, true), (key(2), true, false), (other(3), true, false)]);
    assert!(
        looks[..2].iter().all(|look| table.visit_if(look.session, &look.key, !look.key.is_v4()).is_some())
    );
    assert_eq!(
        (table.aliased(number), table.aliased(index), table.aliased(NONE)),
        (Some((index, true)), None, None)
    );
    table.remove(index);
    assert_eq!(table.aliased(number), None, "it is gone");
    insert(&mut table, key(4), 9).unwrap();
    assert_eq!(table.aliased(number), None, "another one has its number");
    table.remove_alias(number);
    table.remove_alias(number);
    assert_eq!((find(&table, other(2)), table.len()), (None, 1));
    let Ok(Inserted::New(index)) = insert(&mut table, key(6), 1) else { panic!() };
    let handle = table.handle(index).unwrap();
    assert_eq!(table.add_alias(handle, other(6), false), Ok(number), "its place is used again");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Sessions and their other keys come and go: each is found by both, and by nothing else.
    #[test]
    fn other_keys_are_found_while_the_table_grows(steps in proptest::collection::vec((0u32..6000, any::<bool>()), 1..9000)) {
        let mut table = SessionTable::new(SEED, usize::MAX);
        let mut oracle = HashMap::<u32, (u32, u32)>::new();
        for (n, comes) in steps {
            let n = n * 2;
            if comes && !oracle.contains_key(&n) {
                let Ok(Inserted::New(index)) = insert(&mut table, key(n), u64::from(n)) else { panic!() };
                let alias = table.add_alias(table.handle(index).unwrap(), other(n), n & 4 != 0).unwrap();
                oracle.insert(n, (index, alias));
            } else if let Some((index, alias)) = oracle.remove(&n) {
                table.remove_alias(alias);
                table.remove(index);
            }
        }
        for n in (0..12_000).step_by(2) {
            let there = oracle.get(&n);
            prop_assert_eq!(find(&table, key(n)), there.map(|there| there.0));
            prop_assert_eq!(find(&table, other(n)), there.map(|there| there.1));
            if let Some((index, alias)) = there {
                prop_assert_eq!(table.aliased(*alias), Some((*index, n & 4 != 0)));
            }
        }
    }
}
