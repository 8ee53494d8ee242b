//! Weighted sharing of one destination between several next hops.
//!
//! A flow's hash picks one of 2^n *buckets*, and each bucket names a next hop. [`spread`] fills the buckets, and
//! changes as few as it can compared with those before, so that flows stay on their path:
//!
//! * filled anew, every next hop has its share to less than one bucket;
//! * when next hops leave, only their own buckets move (shares may then be off by a bucket more);
//! * when one joins or weights change, buckets move until every share is right to less than one bucket again;
//! * with nothing changed, nothing moves.

use std::collections::HashMap;

use crate::fib::NextHopId;

/// A next hop that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The next hop. Members with the same id are one with the sum of the weights.
    pub id: NextHopId,
    /// Its share relative to the others; 0 takes no traffic.
    pub weight: u32,
}

/// Why members can't be spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EcmpError {
    /// No member has a weight.
    #[error("no next hop with a weight above 0: give one a weight, or remove the route")]
    NoMember,
    /// More members than buckets: some would get nothing.
    #[error("{members} next hops don't fit {buckets} buckets: use fewer next hops or more buckets")]
    TooMany {
        /// Members with a weight.
        members: usize,
        /// Buckets asked for.
        buckets: usize,
    },
    /// Hashes are masked, so the number of buckets has to be a power of two.
    #[error("{buckets} buckets: the number has to be a power of two")]
    Buckets {
        /// Buckets asked for.
        buckets: usize,
    },
}

/// Buckets that give each of so many next hops at least 16, and so a share within 7 % of its weight when the
/// weights are equal; 1 for a single one, at most 1024.
#[must_use]
pub fn buckets_for(members: usize) -> usize {
    if members <= 1 { 1 } else { members.saturating_mul(16).min(1024).next_power_of_two().max(64) }
}

/// The next hop of a flow. `buckets` is what [`spread`] gave; empty: [`NextHopId::NO_ROUTE`].
#[inline]
#[must_use]
pub fn select(buckets: &[NextHopId], hash: u32) -> NextHopId {
    buckets.get(hash as usize & buckets.len().wrapping_sub(1)).copied().unwrap_or(NextHopId::NO_ROUTE)
}

/// Fills `count` buckets with `members`. `previous` is what they held before: empty at first, and possibly of
/// another size, in which case flows keep what their hash selected. A function of its arguments alone.
///
/// # Errors
/// [`EcmpError`].
pub fn spread(members: &[Member], previous: &[NextHopId], count: usize) -> Result<Vec<NextHopId>, EcmpError> {
    if !count.is_power_of_two() {
        return Err(EcmpError::Buckets { buckets: count });
    }
    let mut shares = Shares::new(members, count)?;
    let mut buckets: Vec<NextHopId> = (0..count).map(|bucket| select(previous, bucket as u32)).collect();

    let mut free = Vec::new();
    for (bucket, id) in buckets.iter().enumerate() {
        match shares.index.get(id) {
            Some(&member) => shares.all[member].held += 1,
            None => free.push(bucket),
        }
    }
    let joined =
        (0..shares.all.len()).any(|at| shares.all[at].held == 0 && shares.deficit(at) >= shares.unit());
    let only_left = !free.is_empty() && !joined;
    // Buckets without an owner go, one by one, to whoever is furthest below its share.
    for bucket in free {
        let member = shares.neediest();
        shares.all[member].held += 1;
        buckets[bucket] = shares.all[member].id;
    }
    // A leaving member can put others off by nearly two buckets, which must not move flows later on.
    if joined || !only_left && shares.are_off_by(2) {
        shares.level(&mut buckets);
    }
    Ok(buckets)
}

struct Share {
    id: NextHopId,
    weight: i128,
    held: i128,
}

/// Members and what they hold. Shares are compared as `weight · buckets − held · total weight`: exact.
struct Shares {
    all: Vec<Share>,
    index: HashMap<NextHopId, usize>,
    count: i128,
    total: i128,
}

impl Shares {
    fn new(members: &[Member], count: usize) -> Result<Self, EcmpError> {
        let (mut all, mut index) = (Vec::<Share>::new(), HashMap::new());
        for member in members.iter().filter(|member| member.weight > 0) {
            let at = *index.entry(member.id).or_insert(all.len());
            if at == all.len() {
                all.push(Share { id: member.id, weight: 0, held: 0 });
            }
            all[at].weight += i128::from(member.weight);
        }
        if all.is_empty() {
            return Err(EcmpError::NoMember);
        }
        if all.len() > count {
            return Err(EcmpError::TooMany { members: all.len(), buckets: count });
        }
        let total = all.iter().map(|share| share.weight).sum();
        Ok(Self { all, index, count: count as i128, total })
    }

    /// One bucket on the scale of [`deficit`](Self::deficit).
    fn unit(&self) -> i128 {
        self.total
    }

    fn deficit(&self, member: usize) -> i128 {
        self.all[member].weight * self.count - self.all[member].held * self.total
    }

    fn are_off_by(&self, buckets: i128) -> bool {
        let limit = buckets * self.unit();
        self.deficit(self.neediest()) >= limit || self.deficit(self.richest()) <= -limit
    }

    /// Moves buckets from the richest to the neediest until nobody is off by one. The deficits add up to nothing,
    /// so as long as somebody is, the two differ by more than the one bucket that moves.
    fn level(&mut self, buckets: &mut [NextHopId]) {
        while self.are_off_by(1) {
            let (poor, rich) = (self.neediest(), self.richest());
            let (from, to) = (self.all[rich].id, self.all[poor].id);
            let Some(bucket) = buckets.iter_mut().find(|id| **id == from) else { return };
            *bucket = to;
            self.all[rich].held -= 1;
            self.all[poor].held += 1;
        }
    }

    /// The member furthest below its share; of equals the first.
    fn neediest(&self) -> usize {
        (0..self.all.len()).max_by_key(|&member| (self.deficit(member), -(member as i128))).unwrap_or(0)
    }

    /// The member furthest above its share; of equals the last.
    fn richest(&self) -> usize {
        (0..self.all.len()).min_by_key(|&member| (self.deficit(member), -(member as i128))).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(weights: &[(u32, u32)]) -> Vec<Member> {
        weights.iter().map(|&(id, weight)| Member { id: NextHopId(id), weight }).collect()
    }

    fn held(buckets: &[NextHopId], id: u32) -> usize {
        buckets.iter().filter(|&&owner| owner == NextHopId(id)).count()
    }

    #[test]
    fn shares_are_exact_where_they_can_be() {
        let buckets = spread(&members(&[(1, 1), (2, 3)]), &[], 64).unwrap();
        assert_eq!((held(&buckets, 1), held(&buckets, 2)), (16, 48));
        let buckets = spread(&members(&[(7, 10), (8, 0)]), &[], 1).unwrap();
        assert_eq!(buckets, [NextHopId(7)]);
        let buckets = spread(&members(&[(1, 1), (2, 1), (1, 2)]), &[], 64).unwrap();
        assert_eq!((held(&buckets, 1), held(&buckets, 2)), (48, 16), "the same id twice is one member");
    }

    #[test]
    fn bad_groups_are_refused() {
        assert_eq!(spread(&members(&[(1, 0)]), &[], 64), Err(EcmpError::NoMember));
        assert_eq!(spread(&members(&[(1, 1)]), &[], 48), Err(EcmpError::Buckets { buckets: 48 }));
        let three = members(&[(1, 1), (2, 1), (3, 1)]);
        assert_eq!(spread(&three, &[], 2), Err(EcmpError::TooMany { members: 3, buckets: 2 }));
        assert_eq!(select(&[], 77), NextHopId::NO_ROUTE);
    }

    #[test]
    fn flows_keep_their_next_hop_when_the_buckets_double() {
        let two = members(&[(1, 1), (2, 1)]);
        let small = spread(&two, &[], 64).unwrap();
        let large = spread(&two, &small, 128).unwrap();
        assert!((0..1000).all(|hash| select(&small, hash) == select(&large, hash)));
        assert_eq!((buckets_for(1), buckets_for(2), buckets_for(9), buckets_for(1000)), (1, 64, 256, 1024));
    }

    proptest! {
        #[test]
        fn a_leaving_next_hop_moves_only_its_own_buckets(
            weights in proptest::collection::vec(1..200u32, 2..20),
            leaver in any::<prop::sample::Index>(),
        ) {
            let all: Vec<(u32, u32)> = weights.iter().enumerate().map(|(id, &weight)| (id as u32 + 1, weight)).collect();
            let before = spread(&members(&all), &[], 256).unwrap();
            let mut rest = all.clone();
            let (gone, _) = rest.remove(leaver.index(all.len()));
            let after = spread(&members(&rest), &before, 256).unwrap();
            for (old, new) in before.iter().zip(&after) {
                prop_assert!(old == new || old.0 == gone);
            }
            prop_assert_eq!(&spread(&members(&rest), &after, 256).unwrap(), &after, "nothing changed");
            // It comes back: the buckets that move are those it takes, but for what its leaving left uneven.
            let again = spread(&members(&all), &after, 256).unwrap();
            let others = after.iter().zip(&again).filter(|(old, new)| old != new && new.0 != gone).count();
            prop_assert!(others < all.len(), "{} moved between others", others);
            let total: u32 = weights.iter().sum();
            let mut exact = vec![&before];
            exact.extend((held(&again, gone) > 0).then_some(&again));
            for buckets in exact {
                for &(id, weight) in &all {
                    let ideal = f64::from(weight) * 256.0 / f64::from(total);
                    prop_assert!((held(buckets, id) as f64 - ideal).abs() < 1.0, "{} of {ideal}", held(buckets, id));
                }
            }
        }
    }
}
