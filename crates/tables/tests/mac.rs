//! The MAC table alone, against a map, and under several workers at once.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use quiver_tables::mac::{Learned, MacEntry, MacError, MacKey, MacTable, NO_INTERFACE, Plain, Scope, Seen};

fn key(number: u64) -> MacKey {
    let [_, _, mac @ ..] = (0x0200_0000_0000 | number & 0xff_ffff_ffff).to_be_bytes();
    MacKey::new((number >> 40) as u16, mac)
}

#[test]
fn learns_moves_ages_and_forgets() {
    let table = MacTable::with_capacity(16).unwrap();
    let (a, b) = (key(1), key(2));
    assert_eq!(table.lookup(a), None);
    assert_eq!(table.learn(a, 7, 10), Learned::New);
    assert_eq!(table.learn(a, 7, 10), Learned::Known);
    assert_eq!(table.learn(a, 8, 11), Learned::Moved { from: 7 });
    assert_eq!(table.get(a), Some(MacEntry { key: a, interface: 8, stamp: 11, is_static: false }));
    assert_eq!(table.insert_static(b, 3), Ok(()));
    assert_eq!(table.learn(b, 3, 99), Learned::Static { at: 3 });
    assert_eq!(table.learn(b, 4, 99), Learned::Static { at: 3 });
    assert_eq!(table.insert_static(a, 9), Ok(()), "what was learned becomes static");
    assert_eq!((table.lookup(a), table.len()), (Some(9), 2));
    assert!(table.remove(a) && !table.remove(a));
    assert_eq!(table.learn(a, 5, 100), Learned::New);

    assert_eq!(table.age(105, 5, table.buckets()), 0, "five ticks are not more than five");
    assert_eq!(table.age(99, 5, table.buckets()), 0, "a stamp ahead of the clock is young");
    assert_eq!(table.age(106, 5, table.buckets()), 1);
    assert_eq!((table.lookup(a), table.lookup(b)), (None, Some(3)));
    assert_eq!(table.learn(a, 5, 65_530), Learned::New);
    assert_eq!(table.age(3, 8, table.buckets()), 1, "ticks wrap");

    assert_eq!(table.insert_static(a, 1 << 24), Err(MacError::Interface { interface: 1 << 24 }));
    assert_eq!(table.learn(a, 1 << 24, 0), Learned::Full);
    assert_eq!(table.flush_interface(3, Scope::Learned), 0);
    assert_eq!(table.flush_interface(3, Scope::All), 1);
    assert!(table.is_empty());
}

#[test]
fn a_bridge_learns_up_to_its_limit() {
    let table = MacTable::with_capacity(1000).unwrap();
    table.set_limit(1, Some(10));
    let on = |bridge: u64, host| key(bridge << 40 | host);
    let learned = (0..100).map(|host| table.learn(on(1, host), 1, 0)).collect::<Vec<_>>();
    assert_eq!(learned.iter().filter(|&&learned| learned == Learned::New).count(), 10);
    assert!(learned[10..].iter().all(|&learned| learned == Learned::Limited));
    assert_eq!(table.learn(on(2, 0), 1, 0), Learned::New, "other bridges are not concerned");
    assert_eq!(table.insert_static(on(1, 99), 1), Ok(()), "configuration is above the limit");
    assert_eq!(table.bridge_len(1), 11);
    assert_eq!(table.flush_bridge(1, Scope::Learned), 10);
    assert_eq!((table.bridge_len(1), table.bridge_len(2), table.len()), (1, 1, 2));
    table.set_limit(1, Some(0));
    assert_eq!(table.learn(on(1, 1), 1, 0), Learned::Limited);
    table.set_limit(1, None);
    assert_eq!(table.learn(on(1, 1), 1, 0), Learned::New);
}

#[test]
fn a_member_learns_up_to_its_limit_and_leaves_the_rest() {
    let table = MacTable::with_capacity(1000).unwrap();
    table.set_limit(0, Some(100));
    table.set_member_limit(1, Some(10));
    let learned = (0..1000).map(|host| table.learn(key(host), 1, 0)).collect::<Vec<_>>();
    assert_eq!(learned.iter().filter(|&&learned| learned == Learned::New).count(), 10);
    assert!(learned[10..].iter().all(|&learned| learned == Learned::MemberLimited));
    assert_eq!((table.member_len(1), table.bridge_len(0)), (10, 10));
    for host in 2000..2090 {
        assert_eq!(table.learn(key(host), 2, 0), Learned::New, "others aren't concerned");
    }
    assert_eq!(table.learn(key(2000), 1, 0), Learned::MemberLimited, "nor can it take theirs");
    assert_eq!((table.lookup(key(2000)), table.member_len(2)), (Some(2), 90));
    assert_eq!(table.learn(key(0), 2, 0), Learned::Moved { from: 1 });
    assert_eq!((table.member_len(1), table.member_len(2)), (9, 91));
    assert_eq!(table.insert_static(key(1), 1), Ok(()), "configuration is above the limit, and doesn't count");
    assert_eq!(table.member_len(1), 8);
    assert!(table.remove(key(2)) && table.remove(key(1)));
    assert_eq!((table.member_len(1), table.learn(key(5000), 1, 0)), (7, Learned::New));
    table.set_member_limit(1, None);
    table.set_limit(0, None);
    assert!((6000..6005).all(|host| table.learn(key(host), 1, 0) == Learned::New));
    table.flush_bridge(0, Scope::All);
    assert_eq!((table.member_len(1), table.member_len(2), table.len()), (0, 0, 0));
}

/// Workers move, remove and refresh the same few addresses: counts of members are exact when they rest.
#[test]
fn counts_of_members_are_exact_under_several_workers() {
    let table = MacTable::with_capacity(64).unwrap();
    table.set_member_limit(2, Some(12));
    std::thread::scope(|scope| {
        for me in 0..3u64 {
            let table = &table;
            scope.spawn(move || {
                let mut random = me + 1;
                for step in 0..100_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let key = key(random >> 40 & 31);
                    match random >> 60 {
                        0..=1 => drop(table.remove(key)),
                        2 => drop(table.insert_static(key, 1)),
                        _ => drop(table.learn(key, (random >> 50 & 3) as u32, (step / 100) as u16)),
                    }
                }
            });
        }
    });
    for interface in 0..4 {
        let listed = table.iter().filter(|entry| entry.interface == interface && !entry.is_static).count();
        assert_eq!(table.member_len(interface) as usize, listed, "interface {interface}");
    }
    assert!(table.member_len(2) <= 12);
}

#[test]
fn a_thief_that_goes_on_takes_nothing() {
    let table = MacTable::with_capacity(1000).unwrap();
    let victims: Vec<MacKey> = (0..500).map(key).collect();
    for tick in 0..100 {
        let mut taken = 0;
        for &victim in &victims {
            table.learn(victim, 1, tick);
            taken += usize::from(matches!(table.learn(victim, 2, tick), Learned::Moved { .. }));
            table.learn(victim, 1, tick);
            assert_eq!(table.lookup(victim), Some(1));
        }
        assert_eq!(taken, if tick < 2 { victims.len() } else { 0 }, "tick {tick}");
    }
    assert_eq!(table.refused_moves(2), 98 * 500);
    assert!(victims.iter().all(|victim| table.contender(*victim, 99) == Some(2)));
}

#[test]
fn all_addresses_it_was_made_for_find_a_place() {
    for capacity in [1usize << 16, 60_000] {
        let table = MacTable::with_capacity(capacity).unwrap();
        let keys: Vec<MacKey> = (0..capacity as u64).map(key).collect();
        for (at, &key) in keys.iter().enumerate() {
            assert_eq!(table.learn(key, at as u32 & 0xffff, 0), Learned::New, "address {at} of {capacity}");
        }
        let asked: Vec<MacKey> = (0..2 * capacity as u64).map(key).collect();
        let mut out = vec![0; asked.len()];
        table.lookup_batch(&asked, 7, &mut out, Plain);
        for (at, (&key, &out)) in asked.iter().zip(&out).enumerate() {
            assert_eq!(out, if at < capacity { at as u32 & 0xffff } else { NO_INTERFACE });
            assert_eq!(table.lookup(key), (at < capacity).then_some(at as u32 & 0xffff));
        }
        assert_eq!((table.iter().count(), table.len()), (capacity, capacity));
        // Ageing in steps covers every bucket once per round.
        let steps = table.buckets().div_ceil(100);
        assert_eq!((0..steps).map(|_| table.age(10, 5, 100)).sum::<usize>(), capacity);
    }
}

/// Refreshes a batch as a vector's sources are; the places that were left.
fn refresh(table: &MacTable, seen: &[Seen], now: u16) -> Vec<usize> {
    let (mut before, mut left) = (0, Vec::new());
    let meanwhile = |at| {
        assert_eq!(at, before, "each place in turn");
        before += 1;
    };
    table.refresh_batch(seen, now, Plain, meanwhile, |at| left.push(at));
    assert_eq!(before, seen.len());
    left
}

#[test]
fn a_batch_refreshes_what_is_known_there_and_leaves_the_rest() {
    let table = MacTable::with_capacity(1 << 16).unwrap();
    for number in 0..300 {
        table.learn(key(number), 7, 10);
    }
    table.insert_static(key(5), 7).unwrap();
    table.learn(key(6), 8, 10);
    // In a table that is nearly empty all are in their first bucket.
    let seen = |number| Seen { key: key(number), interface: 7 };
    let mut batch: Vec<Seen> = (0..300).map(seen).collect();
    batch.push(seen(1000));
    batch.push(Seen { key: MacKey::NONE, interface: 0 });
    for now in [10, 10, 11] {
        assert_eq!(refresh(&table, &batch, now), [5, 6, 300, 301], "fixed, elsewhere, unknown, nobody");
        assert!((0..300).filter(|number| ![5, 6].contains(number)).all(|number| {
            table.get(key(number))
                == Some(MacEntry { key: key(number), interface: 7, stamp: now, is_static: false })
        }));
    }
    assert_eq!(table.get(key(6)).map(|entry| (entry.interface, entry.stamp)), Some((8, 10)));
    assert_eq!((table.get(key(1000)), table.len()), (None, 300));
    table.remove(key(0));
    assert_eq!(refresh(&table, &batch, 11)[0], 0, "what was removed isn't known by the key that is left");
    assert_eq!(refresh(&table, &[], 11), []);
}

#[test]
fn a_batch_in_a_full_table_leaves_those_in_further_buckets() {
    let table = MacTable::with_capacity(1024).unwrap();
    let batch: Vec<Seen> = (0..1000).map(|number| Seen { key: key(number), interface: 3 }).collect();
    assert!(batch.iter().all(|seen| table.learn(seen.key, 3, 1) == Learned::New));
    let left = refresh(&table, &batch, 2);
    assert!((1..200).contains(&left.len()), "{}", left.len());
    for (at, seen) in batch.iter().enumerate() {
        let stamp = if left.contains(&at) { 1 } else { 2 };
        assert_eq!(table.get(seen.key).map(|entry| entry.stamp), Some(stamp));
    }
}

#[test]
fn a_full_table_says_so() {
    let table = MacTable::with_capacity(4).unwrap();
    let news = (0..100).filter(|&host| table.learn(key(host), 1, 0) == Learned::New).count();
    assert_eq!(news, 8, "every slot is used");
    assert_eq!(table.len(), 8);
    let left = (0..100).map(key).find(|&key| table.lookup(key).is_none()).unwrap();
    assert_eq!(table.insert_static(left, 1), Err(MacError::Full { key: left }));
    assert_eq!(table.len(), 8);
}

proptest! {
    #[test]
    fn follows_a_map(steps in proptest::collection::vec((0..6u8, 0..40u64, 0..4u32, 0..50u16), 1..400)) {
        let table = MacTable::with_capacity(256).unwrap();
        let mut map: HashMap<MacKey, MacEntry> = HashMap::new();
        for (what, number, interface, now) in steps {
            let key = key((number % 20) | ((number / 20) << 40));
            match what {
                0..=2 => {
                    let known = map.get(&key).copied();
                    let expect = match known {
                        Some(entry) if entry.is_static => Learned::Static { at: entry.interface },
                        Some(entry) if entry.interface == interface => Learned::Known,
                        Some(entry) => Learned::Moved { from: entry.interface },
                        None => Learned::New,
                    };
                    let learned = table.learn(key, interface, now);
                    if let (Learned::Held { at }, Learned::Moved { from }) = (learned, expect) {
                        // Damped: see `damping` for when.
                        prop_assert_eq!(at, from);
                    } else {
                        prop_assert_eq!(learned, expect);
                    }
                    let stays = matches!(learned, Learned::Held { .. });
                    if !stays && !known.is_some_and(|entry| entry.is_static) {
                        map.insert(key, MacEntry { key, interface, stamp: now, is_static: false });
                    }
                }
                3 => {
                    table.insert_static(key, interface).unwrap();
                    map.insert(key, MacEntry { key, interface, stamp: 0, is_static: true });
                }
                4 => prop_assert_eq!(table.remove(key), map.remove(&key).is_some()),
                _ => {
                    let before = map.len();
                    map.retain(|_, entry| entry.is_static || i32::from(now) - i32::from(entry.stamp) <= 20);
                    prop_assert_eq!(table.age(now, 20, table.buckets()), before - map.len());
                }
            }
            prop_assert_eq!(table.get(key), map.get(&key).copied());
            prop_assert_eq!(table.len(), map.len());
            let at = map.values().filter(|entry| entry.interface == interface && !entry.is_static).count();
            prop_assert_eq!(table.member_len(interface) as usize, at);
        }
        let listed: HashMap<MacKey, MacEntry> = table.iter().map(|entry| (entry.key, entry)).collect();
        prop_assert_eq!(listed, map);
    }
}

/// Workers learn, move, remove and look up the same few addresses in a table of few buckets. The interface of an
/// address always says whose it is, so a value under the wrong key is seen at once.
#[test]
fn no_lookup_sees_the_value_of_another_key() {
    const KEYS: u64 = 24;
    let table = MacTable::with_capacity(8).unwrap();
    let (stop, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    let worker = |me: u64| {
        let keys: Vec<MacKey> = (0..KEYS).map(key).collect();
        let (mut random, mut out) = (0x9e37_79b9_7f4a_7c15u64.wrapping_mul(me + 1), [0; KEYS as usize]);
        while !stop.load(Ordering::Relaxed) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let number = random % KEYS;
            match random >> 60 {
                0..=8 => {
                    let learned =
                        table.learn(key(number), (number as u32) << 8 | (random >> 20) as u32 & 3, 0);
                    if let Learned::Moved { from } = learned {
                        assert_eq!(u64::from(from >> 8), number);
                    }
                }
                9..=12 => {
                    table.remove(key(number));
                }
                13 => {
                    table.flush_interface((number as u32) << 8, Scope::All);
                }
                _ => {
                    table.lookup_batch(&keys, 7, &mut out, Plain);
                    for (number, &found) in out.iter().enumerate() {
                        assert!(
                            found == NO_INTERFACE || found >> 8 == number as u32,
                            "{number} at {found:x}"
                        );
                        hits.fetch_add(u64::from(found != NO_INTERFACE), Ordering::Relaxed);
                    }
                    assert!(table.iter().all(|entry| key(u64::from(entry.interface >> 8)) == entry.key));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for me in 0..3 {
            let worker = &worker;
            scope.spawn(move || worker(me));
        }
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(800) {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(hits.load(Ordering::Relaxed) > 0);
    // At rest: one copy of each key, and the counts are exact.
    let listed: Vec<MacEntry> = table.iter().collect();
    let distinct: std::collections::HashSet<MacKey> = listed.iter().map(|entry| entry.key).collect();
    assert_eq!((listed.len(), table.bridge_len(0) as usize), (distinct.len(), distinct.len()));
    assert_eq!(table.len(), distinct.len());
}

/// Two workers learn the same new addresses at the same moment: each address ends up once, counted once.
#[test]
fn simultaneous_learners_leave_one_copy() {
    const ROUNDS: u64 = 4000;
    let table = MacTable::with_capacity(8192).unwrap();
    let turn = [AtomicU64::new(0), AtomicU64::new(0)];
    std::thread::scope(|scope| {
        for me in 0..2 {
            let (table, turn) = (&table, &turn);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    // A barrier that sleeps would wake them one after the other.
                    turn[me].store(round + 1, Ordering::SeqCst);
                    while turn[1 - me].load(Ordering::SeqCst) <= round {
                        std::thread::yield_now();
                    }
                    let learned = table.learn(key(round), me as u32, round as u16);
                    assert!(!matches!(learned, Learned::Full | Learned::Limited), "{learned:?}");
                }
            });
        }
    });
    let expect = ROUNDS as usize;
    assert_eq!((table.len(), table.iter().count(), table.bridge_len(0) as usize), (expect, expect, expect));
}
