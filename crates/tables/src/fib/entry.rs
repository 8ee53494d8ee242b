//! The 32-bit word every slot of the trie holds.

use super::NextHopId;

/// Where a lookup stands: a result (leaf) or the node to go on with.
///
/// ```text
/// leaf:  0 | prefix length : 8 | next hop id : 23
/// node:  1 | kind : 2          | granule     : 29
/// ```
///
/// The all-zero word is the leaf "no route", so zeroed memory is an empty table. A leaf carries the length of the
/// prefix it came from: the writer then knows, without a search for more specific prefixes, which leaves a change
/// concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u32);

/// Form of a node; see [`node`](super::node). The upper bit says whether the slot is found by counting runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One entry per slot.
    Direct = 0,
    /// A path without branches over several levels.
    Fold = 1,
    /// Up to three runs of slots, 16 bytes.
    Tiny = 2,
    /// Runs of slots found by bitmap and rank.
    Ranked = 3,
}

pub(crate) const ID_BITS: u32 = 23;
const NODE: u32 = 1 << 31;
const KIND_SHIFT: u32 = 29;
const GRANULE_MASK: u32 = (1 << KIND_SHIFT) - 1;
pub(crate) const ID_MASK: u32 = (1 << ID_BITS) - 1;

impl Entry {
    pub(crate) const NO_ROUTE: Self = Self(0);

    #[inline]
    pub(crate) fn from_word(word: u32) -> Self {
        Self(word)
    }

    #[inline]
    pub(crate) fn word(self) -> u32 {
        self.0
    }

    /// A leaf; the caller has checked that `id` fits [`ID_BITS`].
    pub(crate) fn leaf(id: NextHopId, len: u8) -> Self {
        debug_assert!(id.0 <= ID_MASK);
        Self(u32::from(len) << ID_BITS | id.0 & ID_MASK)
    }

    /// A reference; the arena never hands out granules above 29 bits.
    pub(crate) fn node(kind: Kind, granule: u32) -> Self {
        debug_assert!(granule <= GRANULE_MASK);
        Self(NODE | (kind as u32) << KIND_SHIFT | granule)
    }

    #[inline]
    pub(crate) fn is_node(self) -> bool {
        self.0 & NODE != 0
    }

    /// Whether the slot is found by counting runs: a test of one bit. (A match on all kinds at once would become a
    /// jump through a table, which is predicted worse.)
    #[inline]
    pub(crate) fn is_packed(self) -> bool {
        self.0 & 1 << (KIND_SHIFT + 1) != 0
    }

    /// Whether it is a node of [`Kind::Tiny`].
    #[inline]
    pub(crate) fn is_tiny(self) -> bool {
        self.0 >> KIND_SHIFT == NODE >> KIND_SHIFT | Kind::Tiny as u32
    }

    /// Whether it is a node of [`Kind::Ranked`].
    #[inline]
    pub(crate) fn is_ranked(self) -> bool {
        self.0 >> KIND_SHIFT == NODE >> KIND_SHIFT | Kind::Ranked as u32
    }

    #[inline]
    pub(crate) fn kind(self) -> Kind {
        match (self.is_packed(), self.0 & 1 << KIND_SHIFT != 0) {
            (false, false) => Kind::Direct,
            (false, true) => Kind::Fold,
            (true, false) => Kind::Tiny,
            (true, true) => Kind::Ranked,
        }
    }

    #[inline]
    pub(crate) fn granule(self) -> u32 {
        self.0 & GRANULE_MASK
    }

    #[inline]
    pub(crate) fn id(self) -> NextHopId {
        NextHopId(self.0 & ID_MASK)
    }

    /// Length of the prefix a leaf came from.
    pub(crate) fn len(self) -> u8 {
        (self.0 >> ID_BITS) as u8
    }
}
