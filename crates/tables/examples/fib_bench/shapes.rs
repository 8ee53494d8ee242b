//! Routing tables to measure with: sets of prefixes that look like those people have.

use std::collections::HashSet;

/// SplitMix64: the same numbers in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Lengths by their weights.
    fn length(&mut self, weights: &[(u8, u64)]) -> u8 {
        let mut at = self.below(weights.iter().map(|&(_, weight)| weight).sum());
        for &(len, weight) in weights {
            if at < weight {
                return len;
            }
            at -= weight;
        }
        0
    }
}

/// A route as the table takes it: prefix, length, next hop id.
pub type Route<A> = (A, u8, u32);

/// `count` prefixes with the lengths of the IPv4 default-free zone (per mille, as seen by public route collectors:
/// three in five are /24), in 45 000 of the unicast /16s, a quarter of them holding half of the routes.
pub fn internet4(count: usize) -> Vec<Route<u32>> {
    const LENGTHS: [(u8, u64); 21] = [
        (8, 1),
        (10, 1),
        (11, 1),
        (12, 1),
        (13, 1),
        (14, 2),
        (15, 3),
        (16, 14),
        (17, 9),
        (18, 15),
        (19, 27),
        (20, 48),
        (21, 52),
        (22, 115),
        (23, 103),
        (24, 597),
        (25, 2),
        (26, 2),
        (27, 2),
        (29, 2),
        (32, 2),
    ];
    let mut random = Random(4);
    let blocks: Vec<u32> =
        (0..45_000).map(|_| (1 + random.below(222)) as u32 * 256 + random.below(256) as u32).collect();
    unique(count, |_| {
        let many = if random.below(2) == 0 { blocks.len() as u64 / 4 } else { blocks.len() as u64 };
        let block = blocks[random.below(many) as usize];
        let len = random.length(&LENGTHS);
        let prefix = mask4((block << 16) | random.below(1 << 16) as u32, len);
        (prefix, len, 1 + (block.wrapping_mul(0x9e37_79b1) >> 24) % 200)
    })
}

/// `count` host routes anywhere: the worst shape for a trie.
pub fn hosts4(count: usize) -> Vec<Route<u32>> {
    let mut random = Random(32);
    unique(count, |at| (random.next() as u32, 32, 1 + at as u32 % 1000))
}

/// Two ranges of consecutive host routes, as benchmark suites of routers use them.
pub fn dense4(count: usize) -> Vec<Route<u32>> {
    let address = |at: u32| 0x0a00_0000 * (1 + at % 2) + at / 2;
    (0..count as u32).map(|at| (address(at), 32, 1 + at % 1000)).collect()
}

/// `count` prefixes shaped like the IPv6 default-free zone (half are /48), in 30 000 allocations of the registries,
/// and some host routes.
pub fn internet6(count: usize) -> Vec<Route<u128>> {
    const LENGTHS: [(u8, u64); 22] = [
        (24, 1),
        (28, 6),
        (29, 30),
        (30, 6),
        (31, 4),
        (32, 125),
        (33, 18),
        (34, 17),
        (35, 12),
        (36, 50),
        (38, 15),
        (40, 105),
        (42, 20),
        (44, 110),
        (45, 12),
        (46, 25),
        (47, 25),
        (48, 455),
        (56, 8),
        (64, 10),
        (127, 1),
        (128, 5),
    ];
    const REGISTRIES: [u32; 7] =
        [0x2001_0000, 0x2400_0000, 0x2600_0000, 0x2800_0000, 0x2a00_0000, 0x2a10_0000, 0x2c0f_0000];
    let mut random = Random(6);
    let allocations: Vec<u32> =
        (0..30_000).map(|_| REGISTRIES[random.below(7) as usize] | random.below(1 << 20) as u32).collect();
    unique(count, |_| {
        let many = if random.below(2) == 0 { allocations.len() as u64 / 8 } else { allocations.len() as u64 };
        let allocation = u128::from(allocations[random.below(many) as usize]) << 96;
        let len = random.length(&LENGTHS);
        // Subnets are mostly numbered from the bottom, in steps of a nibble.
        let inside = u128::from(random.next()) << 32 | u128::from(random.next() as u32);
        let prefix = mask6(allocation | inside, len);
        (prefix, len, 1 + random.below(200) as u32)
    })
}

/// An address under a random route: random behind the prefix.
pub fn address4(routes: &[Route<u32>], random: &mut Random) -> u32 {
    let (prefix, len, _) = routes[random.below(routes.len() as u64) as usize];
    prefix | (random.next() as u32 & !mask4(u32::MAX, len))
}

/// As [`address4`].
pub fn address6(routes: &[Route<u128>], random: &mut Random) -> u128 {
    let (prefix, len, _) = routes[random.below(routes.len() as u64) as usize];
    prefix | ((u128::from(random.next()) << 64 | u128::from(random.next())) & !mask6(u128::MAX, len))
}

fn mask4(addr: u32, len: u8) -> u32 {
    addr & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

fn mask6(addr: u128, len: u8) -> u128 {
    addr & u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

fn unique<A: Copy + Eq + std::hash::Hash>(
    count: usize,
    mut draw: impl FnMut(usize) -> Route<A>,
) -> Vec<Route<A>> {
    let (mut seen, mut routes) = (HashSet::with_capacity(count), Vec::with_capacity(count));
    while routes.len() < count {
        let route = draw(routes.len());
        if seen.insert((route.0, route.1)) {
            routes.push(route);
        }
    }
    routes
}
