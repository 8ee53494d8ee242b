//! Which terms an address meets.

use crate::session::{Directory, Key};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::sync::Arc;

/// A number that stands for "one of these addresses".
pub type Term = u32;

/// The term that all addresses meet, of both IP versions.
pub const ANY: Term = 0;

/// An address and how many of its bits matter; the others don't.
pub type Prefix = (IpAddr, u8);

/// Terms at a prefix that one searches for one of them without more ado.
const FEW: usize = 16;

/// How often a term was added at a prefix: addresses behind it are of the term, or are none of it although a shorter prefix's are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    inside: u32,
    outside: u32,
}

/// Terms at a prefix.
#[derive(Clone, Debug)]
enum Node {
    Few(Vec<(Term, Held)>),
    Many(HashMap<Term, Held, RandomState>),
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Self::Few(terms) => terms.len(),
            Self::Many(terms) => terms.len(),
        }
    }

    fn add(&mut self, term: Term, inside: bool) {
        if let Self::Few(terms) = self
            && terms.len() == FEW
        {
            *self = Self::Many(terms.drain(..).collect());
        }
        let held = match self {
            Self::Many(terms) => terms.entry(term).or_default(),
            Self::Few(terms) => {
                let at = terms.iter().position(|(there, _)| *there == term).unwrap_or(terms.len());
                if at == terms.len() {
                    terms.push((term, Held::default()));
                }
                &mut terms[at].1
            }
        };
        *(if inside { &mut held.inside } else { &mut held.outside }) += 1;
    }

    fn remove(&mut self, term: Term, inside: bool) {
        let found = match self {
            Self::Many(terms) => terms.get_mut(&term),
            Self::Few(terms) => terms.iter_mut().find(|(there, _)| *there == term).map(|(_, held)| held),
        };
        let Some(held) = found else { return };
        let count = if inside { &mut held.inside } else { &mut held.outside };
        *count = count.saturating_sub(1);
        if *held == Held::default() {
            match self {
                Self::Many(terms) => drop(terms.remove(&term)),
                Self::Few(terms) => terms.retain(|(there, _)| *there != term),
            }
        }
    }

    /// Those of a list's terms that are here, each with its first rule there, and whether addresses are of it. The shorter one of both is gone through.
    fn among(&self, known: &Known, mut each: impl FnMut(Term, u32, bool)) {
        let mut tell = |term: Term, first: u32, held: &Held| each(term, first, held.inside > 0);
        let of_known = |term: &Term| known.get(term).copied();
        match self {
            Self::Few(terms) => {
                let there = terms.iter().filter_map(|(term, held)| Some((term, of_known(term)?, held)));
                there.for_each(|(term, first, held)| tell(*term, first, held));
            }
            Self::Many(terms) if terms.len() <= known.len() => {
                let there = terms.iter().filter_map(|(term, held)| Some((term, of_known(term)?, held)));
                there.for_each(|(term, first, held)| tell(*term, first, held));
            }
            Self::Many(terms) => {
                let there = known.iter().filter_map(|(term, first)| Some((term, first, terms.get(term)?)));
                there.for_each(|(term, first, held)| tell(*term, *first, held));
            }
        }
    }
}

/// Terms that rules of a list have, with the first rule that has them.
pub(super) type Known = HashMap<Term, u32, RandomState>;

/// Lengths that a prefix can have.
const LENGTHS: usize = 129;

/// The prefixes that an address is behind.
#[derive(Clone, Debug)]
pub struct Behind<'a> {
    /// The shortest one first.
    nodes: [Option<&'a Node>; LENGTHS],
    len: usize,
}

/// A term that a prefix speaks of: how long that is, the first rule that has it, and whether addresses are of it.
pub(super) type Spoken = (Term, usize, u32, bool);

impl Behind<'_> {
    /// Those of a list's terms that the address meets, those whose rule comes first in front. Where prefixes are nested, the longest one that speaks of a term
    /// decides.
    pub(super) fn among(&self, known: &Known, spoken: &mut Vec<Spoken>, into: &mut Vec<(u32, Term)>) {
        into.clear();
        into.extend(known.get(&ANY).map(|first| (*first, ANY)));
        spoken.clear();
        for (length, node) in self.nodes[..self.len].iter().flatten().enumerate() {
            node.among(known, |term, first, inside| spoken.push((term, length, first, inside)));
        }
        spoken.sort_unstable();
        for (at, (term, _, first, inside)) in spoken.iter().enumerate() {
            let last = spoken.get(at + 1).is_none_or(|(next, ..)| next != term);
            if last && *inside {
                into.push((*first, *term));
            }
        }
        into.sort_unstable();
    }
}

/// Terms by prefix. A clone shares almost everything with what it was made of.
#[derive(Clone, Debug)]
pub struct Prefixes {
    nodes: Directory<Arc<Node>>,
    /// Prefixes of each length, IPv4's and IPv6's: only lengths that there are have to be looked for.
    v4: [u32; 33],
    v6: [u32; LENGTHS],
}

impl Default for Prefixes {
    fn default() -> Self {
        Self { nodes: Directory::default(), v4: [0; 33], v6: [0; LENGTHS] }
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
            let node = node.get_or_insert_with(|| Arc::new(Node::Few(Vec::with_capacity(1))));
            Arc::make_mut(node).add(term, inside);
        });
        self.count(address, length, u32::from(new), 0);
    }

    /// Takes back what was added; nothing where it wasn't.
    pub fn remove(&mut self, (address, length): Prefix, term: Term, inside: bool) {
        let length = self.clamp(address, length);
        let mut gone = false;
        self.nodes.change(&key(address, length), |node| {
            let Some(there) = node else { return };
            let terms = Arc::make_mut(there);
            terms.remove(term, inside);
            gone = terms.len() == 0;
            if gone {
                *node = None;
            }
        });
        self.count(address, length, 0, u32::from(gone));
    }

    /// The prefixes that an address is behind.
    #[must_use]
    pub fn behind(&self, address: IpAddr) -> Behind<'_> {
        let mut behind = Behind { nodes: [None; LENGTHS], len: 0 };
        let lengths = if address.is_ipv4() { &self.v4[..] } else { &self.v6[..] };
        for length in (0..=128_u8).zip(lengths).filter(|(_, count)| **count > 0).map(|(length, _)| length) {
            if let Some(node) = self.nodes.get(&key(address, length)) {
                behind.nodes[behind.len] = Some(node);
                behind.len += 1;
            }
        }
        behind
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
