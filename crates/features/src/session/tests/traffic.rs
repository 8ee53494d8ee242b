//! What others see of sessions without asking their worker: what they have sent, and how full its table is.

use super::limits::flood;
use super::*;

const TICK: u64 = 1 << tenants::TICK_BITS;

/// Lets so many ticks pass, with a round in each.
fn ticks(bench: &mut Bench, ticks: u64) {
    for _ in 0..ticks {
        bench.now += TICK;
        bench.round();
    }
}

#[test]
fn what_sessions_send_is_their_tenant_s_while_they_last_and_when_they_end() {
    everywhere(|tier, text, _| {
        let red = tenant();
        let mut bench = bench(tier, core::slice::from_ref(&red));
        ["udp", "udp answer", "udp"].into_iter().for_each(|name| pass(&mut bench, text, name));
        // Two looks: the first one may have begun with the session.
        ticks(&mut bench, 124);
        let of = |seen: Seen| Traffic { packets: seen.session.packets(), bytes: seen.session.bytes() };
        let lasts = of(one(&mut bench));
        assert_eq!((lasts.packets, red.occupancy.traffic()), ([2, 1], lasts));
        pass(&mut bench, text, "udp answer");
        let last = of(one(&mut bench));
        let now = bench.now;
        assert_eq!(sessions(&mut bench).clear(&Filter::default(), 0, u32::MAX, now).0, 1);
        assert_eq!(red.occupancy.traffic(), lasts, "it was told of already, but for the last answer");
        // One that is over before anybody has looked is told of at once.
        pass(&mut bench, text, "echo");
        let echo = of(one(&mut bench));
        sessions(&mut bench).clear(&Filter::default(), 0, u32::MAX, now);
        assert_eq!(red.occupancy.traffic().packets, [3, 1]);
        ticks(&mut bench, 124);
        let all = red.occupancy.traffic();
        assert_eq!(all.packets, [3, 2]);
        assert_eq!(all.bytes, [last.bytes[0] + echo.bytes[0], last.bytes[1]]);
    });
}

/// Whatever ends or begins anew when, and wherever the look is then.
#[test]
fn sums_never_become_less_and_miss_nothing() {
    const CLIENTS: usize = 40;
    const FLAGS: usize = 14 + 20 + 13;
    const RST: u8 = 4;
    let red = tenant();
    let mut bench = bench(Tier::detect(), core::slice::from_ref(&red));
    let syns = flood(V4, 1000..1000 + CLIENTS as u16);
    let (mut random, mut before, mut sent) = (7_u32, Traffic::default(), Traffic::default());
    let mut ended = 0;
    for _ in 0..20_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (client, kind) = ((random >> 8) as usize % CLIENTS, random >> 28);
        let now = bench.now;
        match kind {
            0..=6 => {
                let mut frame = syns[client].clone();
                // A connection that is over begins anew with the next SYN.
                frame[FLAGS] = if kind < 2 { RST } else { frame[FLAGS] };
                sent.packets[0] += 1;
                sent.bytes[0] += frame.len() as u64 - 14;
                bench.run(2, &[frame], 1);
            }
            7 => {
                let filter = Filter { port: Some(1000 + client as u16), ..Filter::default() };
                ended += sessions(&mut bench).clear(&filter, 0, u32::MAX, now).0;
            }
            8 | 9 => bench.now += TICK * u64::from(random >> 20 & 31),
            // The look goes on: through few of them at a time.
            _ => sessions(&mut bench).survey(now >> tenants::TICK_BITS, 3),
        }
        let told = red.occupancy.traffic();
        let pairs = [(before, told), (told, sent)];
        let grows = |(less, more): (Traffic, Traffic)| {
            less.packets[0] <= more.packets[0] && less.bytes[0] <= more.bytes[0]
        };
        assert!(pairs.into_iter().all(grows), "{before:?} {told:?} {sent:?}");
        before = told;
    }
    assert!(ended > 100, "{ended}");
    ticks(&mut bench, 124);
    assert_eq!(red.occupancy.traffic(), sent);
}

#[test]
fn how_full_a_table_is_can_be_seen_without_asking_its_worker() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        let fill = Arc::<Fill>::default();
        sessions(&mut bench).tell_fill(Arc::clone(&fill));
        bench.run(2, &flood(text, 1000..1200), 100);
        ticks(&mut bench, 61);
        assert_eq!((fill.sessions(), fill.bytes()), (200, sessions(&mut bench).bytes() as u64));
        let now = bench.now;
        sessions(&mut bench).clear(&Filter::default(), 0, u32::MAX, now);
        ticks(&mut bench, 1);
        assert_eq!(fill.sessions(), 0);
    });
}
