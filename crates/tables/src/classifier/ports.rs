//! Which port ranges a port is in.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// First and last port.
pub type PortRange = (u16, u16);

/// Sets of ports by number; 0 are all ports.
pub(super) const ALL: u32 = 0;

/// The different sets of ports of a list of rules. Each range is cut into blocks of 2^n ports, of which a port is in one for each n at most: so a
/// port is looked for at most 17 times, and a range takes at most 30 places.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports {
    /// Sets by block: number of the bits that are left out, and what the others are.
    blocks: HashMap<(u8, u16), Vec<u32>, RandomState>,
    /// Bit n: there are blocks of 2^n ports.
    sizes: u32,
    /// For each set the first rule that has it.
    first: Vec<u32>,
    known: HashMap<Box<[PortRange]>, u32, RandomState>,
}

impl Ports {
    /// The number of a set of ranges (none: all ports), which rule number `rule` has. Rules come in ascending order.
    pub(super) fn number(&mut self, ranges: &[PortRange], rule: u32) -> u32 {
        let mut ranges = ranges.to_vec();
        ranges.sort_unstable();
        if ranges.contains(&(0, u16::MAX)) {
            ranges.clear();
        }
        if let Some(number) = self.known.get(&ranges[..]) {
            let first = &mut self.first[*number as usize];
            *first = rule.min(*first);
            return *number;
        }
        if self.first.is_empty() {
            self.first.push(u32::MAX);
            self.known.insert(Box::default(), ALL);
            return self.number(&ranges, rule);
        }
        let number = self.first.len() as u32;
        self.first.push(rule);
        for (first, last) in &ranges {
            self.cut(*first, *last, number);
        }
        self.known.insert(ranges.into(), number);
        number
    }

    fn cut(&mut self, first: u16, last: u16, number: u32) {
        let (mut at, end) = (u32::from(first), u32::from(last) + 1);
        while at < end {
            let aligned = at.trailing_zeros().min(16);
            let fits = (end - at).ilog2();
            let size = aligned.min(fits);
            let sets = self.blocks.entry((size as u8, (at >> size) as u16)).or_default();
            if sets.last() != Some(&number) {
                sets.push(number);
            }
            self.sizes |= 1 << size;
            at += 1 << size;
        }
    }

    /// The sets that a port is in, each with the first rule that has it, those whose rule comes first in front.
    pub(super) fn of(&self, port: u16, into: &mut Vec<(u32, u32)>) {
        into.clear();
        if let Some(first) = self.first.first().filter(|first| **first != u32::MAX) {
            into.push((*first, ALL));
        }
        let mut sizes = self.sizes;
        while sizes != 0 {
            let size = sizes.trailing_zeros();
            sizes &= sizes - 1;
            if let Some(sets) = self.blocks.get(&(size as u8, (u32::from(port) >> size) as u16)) {
                into.extend(sets.iter().map(|set| (self.first[*set as usize], *set)));
            }
        }
        if into.len() > 1 {
            into.sort_unstable();
            // A set may have overlapping ranges.
            into.dedup();
        }
    }

    /// Forgets what only building needs.
    pub(super) fn finish(&mut self) {
        self.known = HashMap::default();
        self.blocks.shrink_to_fit();
    }
}
