//! Hosts that are always seen with the same address.

use super::*;
use crate::session::tests::handover::{WORKERS, workers_of};
use wire::IpProtocol;

pub(in crate::session::tests) const MAPPED: &str = include_str!("../../../../tests/vectors/nat_mapped.txt");
const A: u32 = 0x0a00_0202;
const C: u32 = 0x0a01_0007;

/// A is 192.0.2.5, C's TCP port 80 is 8080 of 192.0.2.6, and all others are port 50000 of 192.0.2.1; also who asks C's UDP port 53, which is 5353 of 192.0.2.6.
pub(in crate::session::tests) fn mapping() -> Tenant {
    let mappings = [
        Mapping { inside: A, outside: POOL + 4, port: None, twice: false },
        Mapping { inside: C, outside: POOL + 5, port: Some((IpProtocol::TCP.0, 80, 8080)), twice: false },
        Mapping { inside: C, outside: POOL + 5, port: Some((IpProtocol::UDP.0, 53, 5353)), twice: true },
    ];
    translating(Pool { mappings: Mappings::new(&mappings), ..pool(50000..=50000) })
}

pub(in crate::session::tests) fn map(bench: &mut Bench, tenant: &Tenant) {
    let key = bench.key::<Tenants>();
    let pool = Arc::clone(tenant.nat.as_ref().unwrap());
    bench.publish(|draft| {
        draft.change(key, |all| {
            all.mapped.clear();
            all.mapped.add(0, 1, &pool);
        });
    });
}

fn mapped(tier: Tier) -> (Bench, Tenant) {
    let tenant = mapping();
    let mut bench = bench(tier, std::slice::from_ref(&tenant));
    map(&mut bench, &tenant);
    (bench, tenant)
}

pub(in crate::session::tests) const CONVERSATIONS: [&str; 11] = [
    "asked",
    "pinged",
    "asks",
    "pings",
    "port",
    "from its port",
    "from another port",
    "hairpin",
    "mapped hairpin",
    "to itself",
    "twice",
];

#[test]
fn either_side_begins_and_the_other_answers() {
    for tier in Tier::available() {
        for name in CONVERSATIONS {
            let (mut bench, tenant) = mapped(tier);
            pass(&mut bench, MAPPED, name);
            pass(&mut bench, MAPPED, &format!("{name} answer"));
            pass(&mut bench, MAPPED, name);
            assert_eq!(one(&mut bench).session.packets(), [2, 1], "{name}");
            assert_eq!(translations(&tenant), 1, "{name}");
            assert_eq!((count(&bench, "nat", "out"), count(&bench, "nat", "in")), (2, 1), "{name}");
            // The same tenant, changed in what doesn't concern it.
            let changed = Tenant { max_sessions: 7, ..tenant };
            set_tenants(&mut bench, &[changed]);
            pass(&mut bench, MAPPED, &format!("{name} answer"));
            assert_eq!(one(&mut bench).session.packets(), [2, 2], "{name}");
        }
    }
}

/// Each way has an SPI, and so a session.
#[test]
fn esp_of_a_mapped_host_has_its_addresses_replaced() {
    for tier in Tier::available() {
        let (mut bench, tenant) = mapped(tier);
        for name in ["esp asks", "esp asks", "esp asked", "esp asked", "error about esp"] {
            pass(&mut bench, MAPPED, name);
        }
        let packets: Vec<_> = seen(&mut bench).iter().map(|seen| seen.session.packets()).collect();
        assert_eq!(packets, [[2, 1], [2, 0]], "the error is of the one that leads outside");
        assert_eq!(translations(&tenant), 2);
        wait(&mut bench, 121);
        assert_eq!((seen(&mut bench).len(), translations(&tenant)), (0, 0));
    }
}

#[test]
fn what_can_t_be_translated_is_dropped_by_name() {
    let (mut bench, tenant) = mapped(slowest());
    dropped(&mut bench, MAPPED, "esp of one who isn't mapped", "nat no-ports");
    dropped(&mut bench, MAPPED, "ah asks", "nat authenticated");
    dropped(&mut bench, MAPPED, "ah asked", "nat authenticated");
    assert_eq!(translations(&tenant), 0);
}

/// All of them at once: none is taken for another.
#[test]
fn conversations_stand_beside_each_other() {
    let (mut bench, tenant) = mapped(slowest());
    for name in CONVERSATIONS {
        pass(&mut bench, MAPPED, name);
    }
    for name in CONVERSATIONS {
        pass(&mut bench, MAPPED, &format!("{name} answer"));
    }
    assert_eq!(translations(&tenant), CONVERSATIONS.len() as u64);
    wait(&mut bench, 4000);
    assert_eq!(translations(&tenant), 0);
}

#[test]
fn errors_about_those_who_were_asked_hide_what_is_inside() {
    for tier in Tier::available() {
        for (asked, name) in [
            ("asked", "error of the host"),
            ("asked", "error of an inside router"),
            ("asked", "error about its answer"),
            ("twice", "error of the host that is asked twice"),
            ("twice", "error about its answer, twice"),
        ] {
            let (mut bench, _) = mapped(tier);
            pass(&mut bench, MAPPED, asked);
            pass(&mut bench, MAPPED, name);
            assert_eq!(count(&bench, "nat", "errors"), 1);
        }
    }
}

/// What isn't mapped passes as anything from outside does, and begins nothing.
#[test]
fn what_is_not_mapped_begins_no_session() {
    let (mut bench, _) = mapped(slowest());
    let row = packet(MAPPED, "nobody's port");
    bench.run(row.rx_if, &[row.frame], 1);
    assert!(seen(&mut bench).is_empty());
    assert_eq!(count(&bench, "ip4-session-input", "outside"), 1);
    // Another tenant's interface outside, though its address space is the same.
    let elsewhere = Tenant { outside: vec![5], ..mapping() };
    set_tenants(&mut bench, std::slice::from_ref(&elsewhere));
    map(&mut bench, &elsewhere);
    let row = packet(MAPPED, "asked");
    bench.run(row.rx_if, &[row.frame], 1);
    assert!(seen(&mut bench).is_empty());
}

#[test]
fn what_is_mapped_no_more_ends() {
    for name in ["asked", "asks", "mapped hairpin", "twice"] {
        let (mut bench, tenant) = mapped(slowest());
        pass(&mut bench, MAPPED, name);
        let pool = Pool { mappings: Mappings::default(), ..(**tenant.nat.as_ref().unwrap()).clone() };
        let without = Tenant { nat: Some(Arc::new(pool)), ..tenant };
        set_tenants(&mut bench, std::slice::from_ref(&without));
        map(&mut bench, &without);
        wait(&mut bench, 1);
        assert!(seen(&mut bench).is_empty(), "{name}");
        assert_eq!(translations(&without), 0, "{name}");
    }
}

/// Neither address nor port can be chosen so that answers come to the worker: both keys are of one worker by the hosts' own addresses.
#[test]
fn both_sides_are_one_worker_s() {
    let mut owners = [0; WORKERS];
    for seed in 1..9 {
        for name in CONVERSATIONS {
            let tenant = mapping();
            let mut workers = workers_of(slowest(), [seed; 4], &tenant);
            workers.iter_mut().for_each(|worker| map(worker, &tenant));
            for (at, name) in [(0, name.to_string()), (1, format!("{name} answer")), (1, name.to_string())] {
                let row = packet(MAPPED, &name);
                let Verdict::Sent(expected) = row.verdict else { panic!("{name}") };
                let (interface, frame) = &expected[0];
                let mut came =
                    workers[at].run(row.rx_if, &[row.frame], 1).sent.remove(interface).unwrap_or_default();
                let other = &mut workers[1 - at];
                other.round();
                other.settle();
                came.extend(other.wires[interface].take());
                // With one port for all, the worker may have none.
                if came.is_empty()
                    && translations(&tenant) == 0
                    && ["hairpin", "from another port", "twice"].contains(&&*name)
                {
                    break;
                }
                assert_eq!(came, std::slice::from_ref(frame), "{name}");
            }
            for (owner, worker) in owners.iter_mut().zip(&mut workers) {
                *owner += seen(worker).len();
            }
            let sessions: usize = workers.iter_mut().map(|worker| seen(worker).len()).sum();
            assert!(sessions <= 1, "{name}: {sessions}");
        }
    }
    assert!(owners.iter().all(|sessions| *sessions > 0), "{owners:?}");
}
