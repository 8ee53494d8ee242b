//! Which terms an address meets.

use crate::session::{Directory, Key};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A number that stands for "one of these addresses".
pub type Term = u32;

/// The term that all addresses meet, of both IP versions.
pub const ANY: Term = 0;

/// An address and how many of its bits matter; the others don't.
pub type Prefix = (IpAddr, u8);

/// A term at a prefix: whether addresses behind it are of the term, or are none of it although a shorter prefix's are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    term: Term,
    inside: bool,
    /// How often it was added.
    count: u32,
}

/// Terms by prefix. A clone shares almost everything with what it was made of.
#[derive(Clone, Debug)]
pub struct Prefixes {
    nodes: Directory<Arc<[Entry]>>,
    /// Prefixes of each length, IPv4's and IPv6's: only lengths that there are have to be looked for.
    v4: [u32; 33],
    v6: [u32; 129],
}

impl Default for Prefixes {
    fn default() -> Self {
        Self { nodes: Directory::default(), v4: [0; 33], v6: [0; 129] }
    }
}

/// The key that stands for a prefix; bits beyond the length are cleared.
fn key(address: IpAddr, length: u8) -> Key {
    let masked = match address {
        IpAddr::V4(v4) => {
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & upper(u128::from(length) + 96) as u32))
        }
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & upper(length.into()))),
    };
    Key::of_endpoint(length.into(), 0, (masked, 0))
}

/// The upper `length` of 128 bits.
const fn upper(length: u128) -> u128 {
    if length == 0 { 0 } else { u128::MAX << (128 - length) }
}

impl Prefixes {
    /// Number of different prefixes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// From now on, addresses of the prefix are of the term (`inside`), or are none of it. It holds until it is [removed](Self::remove) as often as it was added.
    /// A length beyond the address's counts as all of it.
    pub fn add(&mut self, (address, length): Prefix, term: Term, inside: bool) {
        let length = self.clamp(address, length);
        let mut new = false;
        self.nodes.change(&key(address, length), |node| {
            new = node.is_none();
            let mut entries: Vec<Entry> = node.take().map(|node| node.to_vec()).unwrap_or_default();
            match entries.iter_mut().find(|entry| (entry.term, entry.inside) == (term, inside)) {
                Some(entry) => entry.count += 1,
                None => entries.push(Entry { term, inside, count: 1 }),
            }
            *node = Some(entries.into());
        });
        self.count(address, length, u32::from(new), 0);
    }

    /// Takes back what was added; nothing where it wasn't.
    pub fn remove(&mut self, (address, length): Prefix, term: Term, inside: bool) {
        let length = self.clamp(address, length);
        let mut gone = false;
        self.nodes.change(&key(address, length), |node| {
            let Some(before) = node.take() else { return };
            let mut entries = before.to_vec();
            if let Some(at) = entries.iter().position(|entry| (entry.term, entry.inside) == (term, inside)) {
                entries[at].count -= 1;
                if entries[at].count == 0 {
                    entries.remove(at);
                }
            }
            gone = entries.is_empty();
            *node = (!gone).then(|| entries.into());
        });
        self.count(address, length, 0, u32::from(gone));
    }

    /// The terms that an address meets, ascending, [`ANY`] among them. Where prefixes are nested, the longest one that speaks of a term decides.
    pub fn terms(&self, address: IpAddr, into: &mut Vec<Term>) {
        into.clear();
        into.push(ANY);
        let lengths = if address.is_ipv4() { &self.v4[..] } else { &self.v6[..] };
        for length in (0..=128_u8).zip(lengths).filter(|(_, count)| **count > 0).map(|(length, _)| length) {
            let Some(node) = self.nodes.get(&key(address, length)) else { continue };
            for entry in node.iter() {
                if entry.inside {
                    into.push(entry.term);
                } else {
                    into.retain(|term| *term != entry.term);
                }
            }
        }
        if into.len() > 2 {
            into.sort_unstable();
            into.dedup();
        }
    }

    fn clamp(&self, address: IpAddr, length: u8) -> u8 {
        length.min(if address.is_ipv4() { 32 } else { 128 })
    }

    fn count(&mut self, address: IpAddr, length: u8, more: u32, fewer: u32) {
        let lengths = if address.is_ipv4() { &mut self.v4[..] } else { &mut self.v6[..] };
        if let Some(count) = lengths.get_mut(usize::from(length)) {
            *count = *count + more - fewer;
        }
    }
}
