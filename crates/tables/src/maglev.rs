//! Which member has which flow, so that a change of members moves few flows of the others: Maglev hashing (Eisenbud et al., "Maglev: A
//! Fast and Reliable Software Network Load Balancer", NSDI 2016, section 3.4).

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Sizes of tables: primes, each about twice the one before. The paper's choice, more than a hundred entries for each member, keeps
/// their shares within one in a hundred of each other.
const SIZES: [u32; 10] = [251, 509, 1021, 2039, 4093, 8191, 16381, 32749, 65521, 131_071];
/// Entries for each member at least, where the largest table has as many.
const EACH: u64 = 100;

/// Somebody who takes flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// What it is told from others by: a hash of its name, all 64 bits of it.
    pub identity: u64,
    /// Its share, in proportion to that of the others; 0: none.
    pub weight: u32,
}

/// A table of members by hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maglev {
    entries: Box<[u16]>,
}

impl Maglev {
    /// The table of these members (65535 at most; others get nothing). It depends on their order only where two want the same entry in the same turn: who
    /// wants it to be the same everywhere puts them in order.
    #[must_use]
    pub fn new(members: &[Member]) -> Self {
        Self::of_size(members, size(members))
    }

    fn of_size(members: &[Member], size: u32) -> Self {
        let sharing = |(_, member): &(u16, &Member)| member.weight > 0;
        let taking = (0..u16::MAX).zip(members).filter(sharing);
        let heaviest = members.iter().map(|member| u64::from(member.weight)).max().unwrap_or_default();
        let mut places: Vec<Place> = taking.map(|(at, member)| Place::new(at, member, size)).collect();
        if let [only] = places[..] {
            return Self { entries: Box::new([only.member]) };
        }
        if places.is_empty() {
            return Self::default();
        }
        let mut entries = vec![FREE; size as usize].into_boxed_slice();
        // The heaviest have one turn in each round, others one in several. Rounds in which somebody has none cost nothing: light members
        // would be passed over a thousand times beside one of a thousand times their weight.
        let first = |(at, place): (usize, &Place)| Reverse((place.round(1, heaviest), at, 1));
        let mut turns: BinaryHeap<_> = places.iter().enumerate().map(first).collect();
        for _ in 0..size {
            let Some(mut turn) = turns.peek_mut() else { break };
            let Reverse((round, at, count)) = &mut *turn;
            let place = &mut places[*at];
            while entries[place.next as usize] != FREE {
                place.advance(size);
            }
            entries[place.next as usize] = place.member;
            place.advance(size);
            *count += 1;
            *round = place.round(*count, heaviest);
        }
        Self { entries }
    }

    /// The member that has flows of a hash, by its place in the list that the table was made of; `None` where there is none.
    #[inline]
    #[must_use]
    pub fn pick(&self, hash: u32) -> Option<u16> {
        let at = (u64::from(hash) * self.entries.len() as u64) >> 32;
        self.entries.get(at as usize).copied()
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nobody takes any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.entries)
    }
}

/// An entry that nobody has yet.
const FREE: u16 = u16::MAX;

/// The smallest size that is large enough for the lightest member's share.
fn size(members: &[Member]) -> u32 {
    let weights = || members.iter().map(|member| u64::from(member.weight)).filter(|weight| *weight > 0);
    let lightest = weights().min().unwrap_or(1);
    let wanted = EACH.saturating_mul(weights().sum::<u64>().div_ceil(lightest));
    let [.., largest] = SIZES;
    SIZES.into_iter().find(|size| u64::from(*size) > wanted).unwrap_or(largest)
}

/// A member while the table is filled: where its permutation of all entries stands.
#[derive(Clone, Copy)]
struct Place {
    member: u16,
    next: u32,
    skip: u32,
    weight: u64,
}

impl Place {
    /// The two hashes of the paper are the halves of the identity.
    fn new(member: u16, from: &Member, size: u32) -> Self {
        let (offset, skip) = (from.identity as u32, (from.identity >> 32) as u32);
        Self { member, next: offset % size, skip: skip % (size - 1) + 1, weight: from.weight.into() }
    }

    /// The round in which it has its turn number `count`: when the shares of all rounds so far make up so many.
    fn round(&self, count: u64, heaviest: u64) -> u64 {
        (count * heaviest).div_ceil(self.weight)
    }

    fn advance(&mut self, size: u32) {
        self.next += self.skip;
        if self.next >= size {
            self.next -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Identities as of a good hash (splitmix64).
    fn identity(name: u64) -> u64 {
        let mut z = name.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn members(names: impl IntoIterator<Item = u64>, weight: u32) -> Vec<Member> {
        names.into_iter().map(|name| Member { identity: identity(name), weight }).collect()
    }

    fn shares(table: &Maglev, members: usize) -> Vec<usize> {
        let mut shares = vec![0; members];
        table.entries.iter().for_each(|member| shares[usize::from(*member)] += 1);
        shares
    }

    fn is_prime(number: u32) -> bool {
        number > 1 && (2..).take_while(|by| by * by <= number).all(|by| !number.is_multiple_of(by))
    }

    #[test]
    fn sizes_are_primes_so_that_each_permutation_has_all_entries() {
        assert!(SIZES.iter().all(|size| is_prime(*size)) && SIZES.is_sorted());
    }

    #[test]
    fn few_members_have_small_tables() {
        for (count, size) in [(0, 0), (1, 1), (2, 251), (5, 509), (10, 1021), (100, 16381), (1000, 131_071)] {
            assert_eq!(Maglev::new(&members(0..count, 1)).len(), size, "{count}");
        }
        assert_eq!(Maglev::new(&members(0..10, 0)).len(), 0);
        assert_eq!(Maglev::new(&[]).pick(7), None);
    }

    /// The paper's section 3.4: members take turns, so none has more than one entry more than another; with a hundred entries each, that is one
    /// percent.
    #[test]
    fn shares_are_even() {
        for count in [2, 3, 10, 100, 1000] {
            let shares = shares(&Maglev::new(&members(0..count, 7)), count as usize);
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            assert!(most - least <= 1 && *least >= 100, "{count}: {least} to {most}");
        }
    }

    /// The paper's section 5.4: a thousand backends and 65537 entries. Of the entries of those that stay, few move when some go: what a hash modulo
    /// the number of backends does is to move nearly all.
    #[test]
    fn a_member_that_goes_moves_few_flows_of_others() {
        const SIZE: u32 = 65_537;
        assert!(is_prime(SIZE));
        let all = members(0..1000, 1);
        let before = Maglev::of_size(&all, SIZE);
        for (gone, at_most) in [(1, 0.01), (10, 0.03), (50, 0.08)] {
            let mut left = all.clone();
            left.iter_mut().take(gone).for_each(|member| member.weight = 0);
            let after = Maglev::of_size(&left, SIZE);
            let pairs = before.entries.iter().zip(&after.entries);
            let stayed = pairs.filter(|(before, _)| usize::from(**before) >= gone);
            let (moved, of) = stayed.fold((0, 0), |(moved, of), (a, b)| (moved + u32::from(a != b), of + 1));
            let moved = f64::from(moved) / f64::from(of);
            assert!(moved < at_most, "{gone} of 1000 gone: {moved} of the others' entries moved");
        }
    }

    /// Round after round, as the paper has it.
    fn round_by_round(members: &[Member], size: u32) -> Vec<u16> {
        let mut places: Vec<_> =
            (0..).zip(members).map(|(at, member)| Place::new(at, member, size)).collect();
        places.retain(|place| place.weight > 0);
        let heaviest = places.iter().map(|place| place.weight).max().unwrap_or_default();
        let mut credits = vec![0; places.len()];
        let mut entries = vec![FREE; size as usize];
        while entries.contains(&FREE) {
            for (place, credit) in places.iter_mut().zip(&mut credits) {
                *credit += place.weight;
                if *credit < heaviest || !entries.contains(&FREE) {
                    continue;
                }
                *credit -= heaviest;
                while entries[place.next as usize] != FREE {
                    place.advance(size);
                }
                entries[place.next as usize] = place.member;
            }
        }
        entries
    }

    /// Round by round these would be thousands of millions of steps.
    #[test]
    fn light_members_beside_a_heavy_one_cost_their_entries() {
        let begun = std::time::Instant::now();
        let mut all = members(0..65_000, 1);
        all[7].weight = u32::MAX;
        let table = Maglev::new(&all);
        assert_eq!(table.len(), 131_071);
        assert!(table.entries.iter().all(|member| *member == 7));
        assert!(begun.elapsed().as_secs() < 15, "{:?}", begun.elapsed());
    }

    proptest! {
        #[test]
        fn entries_are_those_of_taking_turns(
            weights in prop::collection::vec(0..70u32, 2..12), heavy in 1..400u32, salt: u64,
        ) {
            let all = weights.iter().chain([&heavy, &1]).zip(0..);
            let all: Vec<Member> =
                all.map(|(weight, name)| Member { identity: identity(name ^ salt), weight: *weight }).collect();
            let table = Maglev::of_size(&all, 251);
            prop_assert_eq!(&table.entries[..], round_by_round(&all, 251));
        }

        #[test]
        fn shares_follow_weights(weights in prop::collection::vec(0..20u32, 1..40), salt: u64) {
            let all: Vec<Member> = weights
                .iter()
                .zip(0..)
                .map(|(weight, name)| Member { identity: identity(name ^ salt), weight: *weight })
                .collect();
            let table = Maglev::new(&all);
            let total: u32 = weights.iter().sum();
            prop_assert_eq!(table.is_empty(), total == 0);
            let shares = shares(&table, all.len());
            let taking = weights.iter().filter(|weight| **weight > 0).count() as f64;
            for (share, weight) in shares.iter().zip(&weights) {
                let part = f64::from(*weight) / f64::from(total.max(1));
                let fair = table.len() as f64 * part;
                // What others haven't taken yet, as it makes no whole entry, is everybody's; and the last turn ends in the middle.
                let near = 2.0 + taking * part;
                prop_assert!((*share as f64 - fair).abs() <= near, "{share} for {fair}: {weights:?}");
            }
        }

        #[test]
        fn only_one_s_own_flows_move_far(count in 2..60u64, gone: prop::sample::Index, salt: u64) {
            let all = members((0..count).map(|name| name ^ salt << 8), 1);
            let gone = gone.index(all.len());
            let size = size(&all);
            let mut left = all.clone();
            left[gone].weight = 0;
            let (before, after) = (Maglev::of_size(&all, size), Maglev::of_size(&left, size));
            prop_assume!(after.len() == before.len());
            let moved = before.entries.iter().zip(&after.entries);
            let moved = moved.filter(|(a, b)| usize::from(**a) != gone && a != b).count();
            // On average it is some percent; never anything near the (count - 1) / count of a modulo.
            prop_assert!(moved * 4 < before.len(), "{moved} of {} moved", before.len());
        }
    }
}
