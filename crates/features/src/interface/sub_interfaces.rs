//! Which sub-interface a frame with certain VLAN tags belongs to.

use super::table::VlanTags;
use graph::IfIndex;

/// The sub-interfaces stacked on an interface, found by their tags. Matching is exact: the frame has these tags and
/// no other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubInterfaces {
    /// Sorted by key.
    list: Box<[(u64, IfIndex)]>,
}

/// Tags as one number to compare.
#[inline(always)]
const fn key(tags: VlanTags) -> u64 {
    (tags.outer_type as u64) << 32 | (tags.outer as u64) << 16 | tags.inner as u64
}

impl SubInterfaces {
    /// The sub-interface with exactly these tags.
    #[must_use]
    #[inline]
    pub fn get(&self, tags: VlanTags) -> Option<IfIndex> {
        let at = self.list.binary_search_by_key(&key(tags), |entry| entry.0).ok()?;
        self.list.get(at).map(|entry| entry.1)
    }

    /// Whether there is none.
    #[must_use]
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }
}

/// Where two sub-interfaces have the same tags, the first one gets the frames.
impl FromIterator<(VlanTags, IfIndex)> for SubInterfaces {
    fn from_iter<I: IntoIterator<Item = (VlanTags, IfIndex)>>(all: I) -> Self {
        let mut list: Vec<_> = all.into_iter().map(|(tags, index)| (key(tags), index)).collect();
        list.sort_by_key(|entry| entry.0);
        list.dedup_by_key(|entry| entry.0);
        Self { list: list.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_match_exactly_or_not_at_all() {
        let tags = |outer_type, outer, inner| VlanTags { outer_type, outer, inner };
        let subs: SubInterfaces = [
            (tags(0x88a8, 100, 7), 5),
            (tags(0x8100, 100, 0), 3),
            (tags(0x8100, 4094, 0), 4),
            (tags(0x8100, 100, 0), 9),
        ]
        .into_iter()
        .collect();
        assert_eq!(subs.len(), 3);
        assert_eq!(subs.get(tags(0x8100, 100, 0)), Some(3), "the first of two with the same tags");
        assert_eq!(subs.get(tags(0x8100, 4094, 0)), Some(4));
        assert_eq!(subs.get(tags(0x88a8, 100, 7)), Some(5));
        for other in [tags(0x88a8, 100, 0), tags(0x8100, 100, 7), tags(0x8100, 0, 0), tags(0, 100, 0)] {
            assert_eq!(subs.get(other), None, "{other:?}");
        }
    }
}
