//! A session that ends while more of its packets are in the vector: they were found by another key than its own.

use super::*;

/// Both sides are the tenant's, so that either of them begins sessions; behind so many others, one session has been answered.
fn answered(tier: Tier, text: &'static str, tenant: Tenant, others: u16) -> (Bench, Balancer) {
    let mut balancer = simple();
    let mut bench = network(tier, &mut balancer);
    set_tenants(&mut bench, &[Tenant { outside: Vec::new(), ..tenant }]);
    let key = bench.key::<Tenants>();
    let place = Place { tenant: 1, ..Place::default() };
    bench.publish(|draft| draft.change(key, |all| all.set_place(3, place)));
    let plain = packet(if text == BALANCE4 { V4 } else { V6 }, "udp").frame;
    let ports = 14 + if text == BALANCE4 { 20 } else { 40 };
    let of = |port: u16| {
        let mut frame = plain.clone();
        frame[ports..ports + 2].copy_from_slice(&port.to_be_bytes());
        frame
    };
    bench.run(2, &(1..=others).map(of).collect::<Vec<_>>(), 256);
    pass(&mut bench, text, "udp");
    pass(&mut bench, text, "udp answer");
    (bench, balancer)
}

/// The only session that anybody has whom the VIP concerns is the backend's own, with so many packets.
fn is_the_backends(bench: &mut Bench, text: &str, packets: u64) {
    let (vip, backend) = places(text == BALANCE6);
    let mut all = seen(bench);
    all.retain(|seen| {
        [seen.endpoints().0, seen.endpoints().1].iter().any(|end| [vip, backend].contains(end))
    });
    let all: Vec<_> = all.iter().map(|seen| (seen.endpoints().0, seen.session.packets())).collect();
    assert_eq!(all, [(backend, [packets, 0])]);
}

fn everywhere(test: impl Fn(Tier, &'static str)) {
    for tier in Tier::available() {
        [BALANCE4, BALANCE6].into_iter().for_each(|text| test(tier, text));
    }
}

#[test]
fn packets_of_a_backend_that_is_down_begin_no_session_of_the_vip() {
    everywhere(|tier, text| {
        // More than are looked through in a round after a change: its packets come before that.
        let tenant = Tenant { max_sessions: 5000, ..balancing() };
        let (mut bench, mut balancer) = answered(tier, text, tenant, 2100);
        let (endpoint, backend) = places(text == BALANCE6);
        let down = BackendConfig { state: BackendState::Down, ..active(backend) };
        balancer.set(&format!("17-{}", text == BALANCE6), Some(vip(IpProtocol::UDP, endpoint, vec![down])));
        let changed = balancer.publish();
        let key = bench.key::<Tenants>();
        bench.publish(|draft| {
            draft.change(key, |all| {
                all.generation += u64::from(changed.revisit);
                all.vips = balancer.vips().clone();
            });
        });
        let answer = packet(text, "udp answer").frame;
        bench.run(3, &[answer.clone(), answer.clone(), answer], 3);
        is_the_backends(&mut bench, text, 3);
        dropped(&mut bench, text, "udp", "balance no-backend");
    });
}

#[test]
fn nor_do_they_where_another_has_taken_the_session_s_place() {
    everywhere(|tier, text| {
        let (mut bench, _) = answered(tier, text, Tenant { max_sessions: 1, ..balancing() }, 0);
        // Long enough for an established one to make room.
        bench.now += 100 * SECOND;
        let answer = packet(text, "udp answer").frame;
        let mut other = answer.clone();
        // Another port of the backend's.
        let at = if text == BALANCE4 { 20 } else { 40 };
        other[at] ^= 1;
        bench.run(3, &[other, answer.clone(), answer], 3);
        is_the_backends(&mut bench, text, 2);
    });
}
