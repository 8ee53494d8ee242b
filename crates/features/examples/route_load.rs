//! How fast routes get into the tables: a batch of IPv4 and of IPv6 routes, added and withdrawn, and single ones changed in
//! between, each until its commit is through: from then on every look-up of a worker finds it.
//!
//! ```sh
//! cargo run --release -p quiver-features --features testing --example route_load -- [routes]
//! ```
//!
//! The time of a batch is that from the first route to the end of its commit, that of a single change the same for one route.

use graph::simd::Tier;
use quiver_features::interface::{Interface, InterfaceAddress, LinkMode};
use quiver_features::ip::control::{Forwarding, ForwardingError, Path, Prefix, Via};
use quiver_features::testing::Bench;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Single routes that are changed.
const CHANGES: usize = 20_000;

fn main() {
    let routes =
        std::env::args().nth(1).and_then(|text| text.parse().ok()).filter(|n| *n > 0).unwrap_or(2_000_000);
    for v6 in [false, true] {
        if let Err(error) = load(v6, routes) {
            eprintln!("route_load: {error}");
            std::process::exit(1);
        }
    }
}

fn load(v6: bool, routes: u32) -> Result<(), ForwardingError> {
    let mut bench = Bench::new(Tier::detect());
    let mut forwarding = Forwarding::new(&bench.plan.schema)?;
    let address = |host: u8| -> IpAddr {
        if v6 {
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into()).into()
        } else {
            Ipv4Addr::new(192, 0, 2, host).into()
        }
    };
    let own = InterfaceAddress { address: address(1), prefix_len: if v6 { 64 } else { 24 } };
    let interface = Interface {
        exists: true,
        up: true,
        mode: LinkMode::Ip,
        mtu: 1500,
        addresses: Arc::new(vec![own]),
        ..Interface::default()
    };
    forwarding.set_interface(1, Some(&interface))?;
    let ways: Vec<[Path; 1]> =
        (2..=17).map(|host| [Path::from(Via::Address { address: address(host), interface: None })]).collect();
    // Lengths and neighbourhood as in the Internet's table: most are /24 (/48), side by side.
    let all: Vec<(Prefix, usize)> = (0..routes).map(|n| (prefix(v6, n), n as usize % ways.len())).collect();

    let start = Instant::now();
    for (prefix, way) in &all {
        forwarding.add_route(0, *prefix, &ways[*way])?;
    }
    let queued = start.elapsed();
    bench.commit(&mut forwarding);
    let added = start.elapsed();
    let summary = forwarding.summary();
    let mut changes = Vec::with_capacity(CHANGES);
    for n in 0..CHANGES {
        // All over the table, each to the next of its ways.
        let (prefix, way) = all[n * 99_991 % all.len()];
        let start = Instant::now();
        forwarding.add_route(0, prefix, &ways[(way + 1) % ways.len()])?;
        bench.commit(&mut forwarding);
        changes.push(start.elapsed());
    }
    changes.sort_unstable();
    let start = Instant::now();
    for (prefix, _) in &all {
        forwarding.delete_route(0, *prefix)?;
    }
    bench.commit(&mut forwarding);
    let deleted = start.elapsed();
    let rate = |time: Duration| f64::from(routes) / time.as_secs_f64() / 1e6;
    let micros = |at: usize| changes[at].as_secs_f64() * 1e6;
    println!(
        "IPv{}: {routes} routes added at {:.2} M/s ({:.0} ms, {:.0} of them before the commit), withdrawn at {:.2} M/s; \
         tables {:.1} MB; a change of one takes {:.1} us, 99.9 % of them {:.1} us, the longest {:.1} us",
        if v6 { 6 } else { 4 },
        rate(added),
        added.as_secs_f64() * 1e3,
        queued.as_secs_f64() * 1e3,
        rate(deleted),
        summary.bytes as f64 / 1e6,
        micros(CHANGES / 2),
        micros(CHANGES * 999 / 1000),
        micros(CHANGES - 1),
    );
    Ok(())
}

fn prefix(v6: bool, n: u32) -> Prefix {
    let len = if n % 8 == 7 { 22 } else { 24 };
    let bits = 0x0100_0000 + n * 0x100;
    let address: IpAddr = if v6 {
        Ipv6Addr::from(u128::from(bits) << 80 | 0x2000 << 112).into()
    } else {
        Ipv4Addr::from(bits).into()
    };
    // Prefixes of these lengths always exist.
    Prefix::covering(address, if v6 { len + 24 } else { len }).unwrap_or(Prefix::host(address))
}
