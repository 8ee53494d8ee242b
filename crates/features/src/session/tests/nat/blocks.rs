//! Hosts that are given blocks of ports.

use super::ports::{from_host, from_port, sent_as, summed, to_port};
use super::*;
use crate::session::events::{Kinds, What, watch};
use crate::session::nat::{Binding, BlockSize, Blocks};
use std::sync::atomic::AtomicU64;

/// A pool whose ports 1000 to 1399 are four blocks of a hundred, two of them for a host at most.
fn in_blocks() -> Pool {
    let (ports, size) = (1000..=1399, BlockSize { ports: 100, per_host: 2 });
    let blocks = Blocks::new(&[POOL..=POOL], &ports, size);
    Pool { blocks: Some(Arc::new(blocks)), ..pool(ports) }
}

fn taken(tenant: &Tenant) -> u64 {
    tenant.nat.as_ref().unwrap().blocks.as_ref().unwrap().taken()
}

#[test]
fn a_host_has_the_ports_of_its_blocks_and_no_others() {
    let tenant = translating(in_blocks());
    let mut bench = bench(slowest(), std::slice::from_ref(&tenant));
    let port = |bench: &mut Bench, frame| sent_as(bench, frame).map(|(_, port)| port);
    let first = port(&mut bench, from_port(40000)).unwrap();
    let block = |port: u16| (port - 1000) / 100;
    let mut ports = vec![first];
    ports.extend((1..100).map(|n| port(&mut bench, from_port(40000 + n)).unwrap()));
    assert!(ports.iter().all(|port| block(*port) == block(first)), "{ports:?}");
    ports.sort_unstable();
    ports.dedup();
    assert_eq!((ports.len(), taken(&tenant)), (100, 1), "each of them once");
    let other = port(&mut bench, to_port(from_port(41000), 54)).unwrap();
    assert_eq!((block(other), taken(&tenant)), (block(first), 1), "to another destination they are free");
    let second = port(&mut bench, from_port(40100)).unwrap();
    assert_eq!((block(second) != block(first), taken(&tenant)), (true, 2));
    (101..200).for_each(|n| assert_eq!(port(&mut bench, from_port(40000 + n)).map(block), Ok(block(second))));
    let refused = Err("nat no-block".to_string());
    // The second one, since it is known by then.
    (40200..40202).for_each(|own| assert_eq!(port(&mut bench, from_port(own)), refused));
    let figures = &tenant.nat.as_ref().unwrap().figures;
    let counted = [&figures.without_block, &figures.exhausted].map(|it| it.load(Ordering::Relaxed));
    assert_eq!(counted, [2, 0]);
    // Another host to the same destination, in the same tick: it has its own blocks.
    let neighbours = port(&mut bench, from_host(9, 40000)).unwrap();
    assert_eq!((taken(&tenant), [block(first), block(second)].contains(&block(neighbours))), (3, false));
    assert_eq!(bench.run(2, &[from_port(40000)], 1).sent[&3].len(), 1, "sessions there are go on");
    // Embryonic ones last 30 seconds: blocks go with the last one of each.
    wait(&mut bench, 31);
    assert_eq!((taken(&tenant), translations(&tenant)), (0, 0));
}

/// Two addresses of four blocks: whatever its own address says, a host gets one as long as there is any.
#[test]
fn a_host_has_a_block_of_another_address_where_its_own_has_none_left() {
    let (ports, size) = (1000..=1063, BlockSize { ports: 16, per_host: 2 });
    let addresses = vec![POOL..=POOL + 1];
    let blocks = Some(Arc::new(Blocks::new(&addresses, &ports, size)));
    let tenant = translating(Pool { addresses, blocks, ..pool(ports) });
    let mut bench = bench(slowest(), std::slice::from_ref(&tenant));
    // One has all of its ports, of two blocks, at one address.
    let mut ports: Vec<_> = (0..17).map(|n| sent_as(&mut bench, from_host(9, 40000 + n)).unwrap()).collect();
    let home = ports[0].0;
    assert!(ports.iter().all(|(address, _)| *address == home), "{ports:?}");
    ports.sort_unstable();
    ports.dedup();
    assert_eq!((ports.len(), taken(&tenant)), (17, 2));
    let seen_as = (10..16).map(|host| sent_as(&mut bench, from_host(host, 40000)).unwrap().0);
    let seen_as: Vec<u32> = seen_as.collect();
    assert_eq!(seen_as.iter().filter(|address| **address == home).count(), 2, "{seen_as:?}");
    assert_eq!(taken(&tenant), 8);
    let refused = Err("nat no-block".to_string());
    assert_eq!(sent_as(&mut bench, from_host(16, 40000)), refused);
    // They are seen so to all others, too, and with other ports.
    for (host, address) in (10..16).zip(seen_as) {
        assert_eq!(sent_as(&mut bench, from_host(host, 40001)).map(|it| it.0), Ok(address));
        assert_eq!(sent_as(&mut bench, to_port(from_host(host, 40002), 54)).map(|it| it.0), Ok(address));
    }
}

/// Who has none isn't looked for again in the same tick, whomever it asks: what another worker has given back meanwhile is found in the next one, what its own has, at once.
#[test]
fn who_has_no_block_is_refused_at_all_destinations() {
    let tenant = translating(in_blocks());
    let [mut bench, mut other] = [(); 2].map(|()| bench(slowest(), std::slice::from_ref(&tenant)));
    assert!((9..12).all(|host| sent_as(&mut bench, from_host(host, 40000)).is_ok()));
    assert!(sent_as(&mut other, from_host(20, 40000)).is_ok());
    let refused = Err("nat no-block".to_string());
    assert_eq!(sent_as(&mut bench, from_host(12, 40000)), refused);
    let end = |bench: &mut Bench, filter: &Filter| sessions(bench).clear(filter, 0, u32::MAX, 0).0;
    assert_eq!((end(&mut other, &Filter::default()), taken(&tenant)), (1, 3));
    for remote in 54..60 {
        assert_eq!(sent_as(&mut bench, to_port(from_host(12, 40000), remote)), refused, "{remote}");
    }
    let figures = &tenant.nat.as_ref().unwrap().figures;
    let counted = [&figures.without_block, &figures.exhausted].map(|it| it.load(Ordering::Relaxed));
    assert_eq!(counted, [7, 0]);
    assert!(sent_as(&mut bench, from_host(13, 40000)).is_ok(), "that is known of no other host");
    assert_eq!(sent_as(&mut bench, to_port(from_host(12, 40001), 60)), refused);
    let of_one = Filter { address: "10.0.2.9".parse().ok(), ..Filter::default() };
    assert_eq!((end(&mut bench, &of_one), taken(&tenant)), (1, 3));
    assert!(sent_as(&mut bench, to_port(from_host(12, 40001), 61)).is_ok());
}

/// Hosts of the same address at two tenants are two hosts: what one's pool hasn't, the other's may have.
#[test]
fn who_has_no_block_of_one_pool_may_have_one_of_another() {
    let all = [POOL, POOL + 1].map(|address| {
        let (ports, size) = (1000..=1099, BlockSize { ports: 100, per_host: 1 });
        let addresses = vec![address..=address];
        let blocks = Some(Arc::new(Blocks::new(&addresses, &ports, size)));
        translating(Pool { addresses, blocks, ..pool(ports) })
    });
    let mut bench = bench(slowest(), &all);
    let key = bench.key::<Tenants>();
    bench.publish(|draft| {
        draft.change(key, |all| all.set_place(1, Place { tenant: 2, context: 1, ..Place::default() }));
    });
    assert_eq!(sent_as(&mut bench, from_host(9, 40000)).map(|it| it.0), Ok(POOL));
    assert_eq!(sent_as(&mut bench, from_host(3, 40000)), Err("nat no-block".into()));
    let mut frame = from_host(3, 40000);
    frame[5] = 1;
    let outcome = bench.run(1, &[frame], 1);
    assert!(outcome.sent.contains_key(&3), "{outcome:?}");
}

#[test]
fn who_has_had_a_block_is_told_once() {
    let tenant = translating(in_blocks());
    let mut bench = bench(slowest(), std::slice::from_ref(&tenant));
    let lost = Arc::new(AtomicU64::new(0));
    let (watcher, events) = watch(Filter::default(), Kinds::TRANSLATED.and(Kinds::ENDED), 64, &lost);
    sessions(&mut bench).watched_by(watcher);
    let (_, port) = sent_as(&mut bench, from_port(40000)).unwrap();
    assert!((1..5).all(|n| sent_as(&mut bench, from_port(40000 + n)).is_ok()));
    wait(&mut bench, 31);
    let first = 1000 + (port - 1000) / 100 * 100;
    let block = Binding::Block(first, first + 99);
    let said: Vec<(bool, Binding)> = events
        .try_iter()
        .map(|event| {
            assert!(event.seen.translated.is_some());
            (matches!(event.what, What::Translated), event.binding)
        })
        .collect();
    let within = |begins: bool| (begins, Binding::Within);
    let mut expected = vec![(true, block)];
    expected.extend([within(true); 4]);
    expected.extend([within(false); 4]);
    expected.push((false, block));
    assert_eq!(said, expected);
}

/// Sessions of ports that are no longer their host's end, as with any change of the pool; and those of before give back nothing of the new ones.
#[test]
fn a_pool_that_changes_ends_sessions_whose_blocks_are_gone() {
    let before = translating(in_blocks());
    let mut bench = bench(slowest(), std::slice::from_ref(&before));
    sent_as(&mut bench, from_port(40000)).unwrap();
    let figures = Arc::clone(&before.nat.as_ref().unwrap().figures);
    let after = translating(Pool { figures, ..in_blocks() });
    set_tenants(&mut bench, std::slice::from_ref(&after));
    let (_, port) = sent_as(&mut bench, from_port(40001)).unwrap();
    assert!((1000..1400).contains(&port));
    bench.round();
    assert_eq!((taken(&after), translations(&after), seen(&mut bench).len()), (1, 1, 1));
}

#[test]
fn ports_that_cannot_be_changed_have_the_block_they_are_in() {
    let tenant = translating(in_blocks());
    let mut bench = bench(slowest(), std::slice::from_ref(&tenant));
    let sctp = |host: u8, port: u16| {
        let mut frame = from_host(host, port);
        frame[23] = 132;
        summed(frame)
    };
    assert_eq!(sent_as(&mut bench, sctp(3, 1234)).map(|(_, port)| port), Ok(1234));
    assert_eq!(sent_as(&mut bench, sctp(9, 1250)), Err("nat no-block".into()), "another one's block");
    assert_eq!(sent_as(&mut bench, sctp(9, 999)), Err("nat no-block".into()), "in no block");
    assert_eq!((sent_as(&mut bench, sctp(9, 1350)).map(|(_, port)| port), taken(&tenant)), (Ok(1350), 2));
}

/// A block has as many ports as are tried: the second one is used up, too, before there is a third.
#[test]
fn a_full_block_keeps_nobody_from_the_next_one() {
    let (ports, size) = (1024..=6143, BlockSize { ports: 512, per_host: 8 });
    let blocks = Blocks::new(&[POOL..=POOL], &ports, size);
    let tenant = translating(Pool { blocks: Some(Arc::new(blocks)), ..pool(ports) });
    let mut bench = bench(slowest(), std::slice::from_ref(&tenant));
    for n in 0..700 {
        assert!(sent_as(&mut bench, from_port(20000 + n)).is_ok(), "{n}");
    }
    assert_eq!(taken(&tenant), 2);
}
