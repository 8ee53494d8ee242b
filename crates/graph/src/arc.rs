//! Feature arcs: per interface an ordered list of features between two fixed points of the graph.
//!
//! An arc begins at its start nodes and ends at one of its end nodes; all of them say so themselves. Features declare their order against each other
//! (`runs_before`, `runs_after`), which is resolved once; which of them an interface uses is configuration, published
//! as [`Arcs`]. Where an interface has no feature on an arc, the packet goes straight to the end: one byte is read.

use crate::port::IfIndex;
use memory::packet::Meta;

/// Declares an arc.
#[derive(Clone, Copy, Debug)]
pub struct ArcSpec {
    /// Name, unique in the graph.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
}

/// Where a node is on an arc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArcPlace {
    /// Number of the arc.
    pub arc: u16,
    /// Edge to the arc's member 0; to member `m` it is `base + m`. Edge 0 is `drop`.
    pub base: u8,
}

/// Most features that one interface can have on one arc.
pub const MAX_FEATURES: usize = 14;

/// Member numbers that an interface's packets pass: features, then the end. Empty: packets are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Chain {
    len: u8,
    members: [u8; MAX_FEATURES + 1],
}

/// Which features each interface uses: a part of the tables.
#[derive(Clone, Debug, Default)]
pub struct Arcs {
    /// By arc, then by interface.
    chains: Vec<Vec<Chain>>,
}

impl ArcPlace {
    /// First edge of a packet that begins the arc on `interface`, or edge 0 (drop) where the interface has no way
    /// along it (it is down, or the arc isn't for its mode).
    #[inline(always)]
    #[must_use]
    pub fn begin(self, arcs: &Arcs, interface: IfIndex, meta: &mut Meta) -> u8 {
        meta.arc = 0;
        self.edge(arcs, interface, 0)
    }

    /// Next edge of a packet that has been through a feature of the arc.
    #[inline(always)]
    #[must_use]
    pub fn next(self, arcs: &Arcs, interface: IfIndex, meta: &mut Meta) -> u8 {
        meta.arc = meta.arc.wrapping_add(1);
        self.edge(arcs, interface, meta.arc)
    }

    /// Edge of the chain's step `position`.
    // Not by way of `way`: of one packet's look-up the compiler makes twenty instructions more then, in services.
    #[inline(always)]
    #[must_use]
    pub fn edge(self, arcs: &Arcs, interface: IfIndex, position: u8) -> u8 {
        match self.chain(arcs, interface) {
            Some(chain) if position < chain.len => self.base + chain.members[position as usize],
            _ => 0,
        }
    }

    /// The way of all packets of `interface`, for who has several of them.
    #[inline(always)]
    #[must_use]
    pub fn way(self, arcs: &Arcs, interface: IfIndex) -> Way<'_> {
        Way { base: self.base, chain: self.chain(arcs, interface) }
    }

    #[inline(always)]
    fn chain(self, arcs: &Arcs, interface: IfIndex) -> Option<&Chain> {
        arcs.chains.get(self.arc as usize).and_then(|chains| chains.get(interface as usize))
    }
}

/// An interface's way along an arc, from one place of it.
#[derive(Clone, Copy, Debug)]
pub struct Way<'t> {
    base: u8,
    chain: Option<&'t Chain>,
}

impl Way<'_> {
    /// As [`ArcPlace::next`].
    #[inline(always)]
    #[must_use]
    pub fn next(self, meta: &mut Meta) -> u8 {
        meta.arc = meta.arc.wrapping_add(1);
        match self.chain {
            Some(chain) if meta.arc < chain.len => self.base + chain.members[meta.arc as usize],
            _ => 0,
        }
    }
}

impl Arcs {
    /// Sets an interface's way along arc number `arc`: member numbers in order, the end last. An empty list means
    /// that its packets are dropped there.
    ///
    /// # Errors
    /// [`TooManyFeatures`] for more than [`MAX_FEATURES`] features.
    pub fn set(&mut self, arc: u16, interface: IfIndex, members: &[u8]) -> Result<(), TooManyFeatures> {
        let mut chain = Chain { len: members.len() as u8, ..Chain::default() };
        chain.members.get_mut(..members.len()).ok_or(TooManyFeatures)?.copy_from_slice(members);
        let chains = grow(&mut self.chains, arc as usize);
        *grow(chains, interface as usize) = chain;
        Ok(())
    }

    /// The member numbers of an interface's way along an arc.
    #[must_use]
    pub fn chain(&self, arc: u16, interface: IfIndex) -> &[u8] {
        self.chains
            .get(arc as usize)
            .and_then(|chains| chains.get(interface as usize))
            .map_or(&[], |chain| &chain.members[..chain.len as usize])
    }
}

fn grow<T: Default + Clone>(list: &mut Vec<T>, at: usize) -> &mut T {
    if list.len() <= at {
        list.resize(at + 1, T::default());
    }
    &mut list[at]
}

/// An interface can have at most [`MAX_FEATURES`] features on an arc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an interface can have at most {MAX_FEATURES} features on one arc: disable one first")]
pub struct TooManyFeatures;
