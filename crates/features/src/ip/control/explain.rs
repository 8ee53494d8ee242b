//! What can be seen of the routing tables.

use super::error::ForwardingError;
use super::forwarding::{Forwarding, Vrf};
use super::rib::Candidate;
use super::route::{Origin, Path, Prefix, RouteState, Via};
use super::sets::SetId;
use crate::ip::NextHop;
use core::fmt;
use core::net::IpAddr;
use graph::IfIndex;
use wire::{Ipv4Prefix, Ipv6Prefix};

/// A route, as `show fib` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteView<'f> {
    /// Its destination.
    pub prefix: Prefix,
    /// Where it comes from.
    pub origin: Origin,
    /// The interface it follows from, for other than static routes.
    pub interface: Option<IfIndex>,
    /// Its next hops.
    pub paths: &'f [Path],
    /// Whether packets can follow it.
    pub state: RouteState,
    /// Whether packets do: it is the most preferred one to its destination that leads somewhere.
    pub used: bool,
    /// Id of its next hop, as traces show it.
    pub hop: u32,
    pub(super) set: SetId,
}

/// Sizes of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// VRFs.
    pub vrfs: usize,
    /// IPv4 routes in all VRFs.
    pub v4_routes: usize,
    /// IPv6 routes in all VRFs.
    pub v6_routes: usize,
    /// Different next hops, single ones and groups.
    pub path_sets: usize,
    /// Next-hop ids in use.
    pub next_hops: usize,
    /// Memory of the tables in bytes, what waits to be reused included.
    pub bytes: usize,
}

/// A step of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The longest prefix that contains the address.
    Route {
        /// The VRF it is looked up in.
        vrf: u16,
        /// The prefix.
        prefix: Prefix,
        /// Where the route comes from.
        origin: Origin,
    },
    /// No route contains the address.
    NoRoute {
        /// The VRF it is looked up in.
        vrf: u16,
    },
    /// A way that the route leads.
    Path {
        /// As configured.
        path: Path,
        /// Buckets of the group that lead this way, of how many.
        share: (usize, usize),
        /// Whether it leads somewhere.
        state: RouteState,
        /// What is done with a packet.
        hop: NextHop,
    },
    /// VRFs lead to each other: packets are dropped.
    Loop,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Route { vrf, prefix, origin } => write!(f, "VRF {vrf}: {prefix} {origin}"),
            Self::NoRoute { vrf } => write!(f, "VRF {vrf}: no route"),
            Self::Path { path, share: (held, all), state, hop } => {
                write!(f, "{}", path.via)?;
                if *all > 1 {
                    write!(f, " weight {} ({held}/{all})", path.weight)?;
                }
                match state {
                    RouteState::Active => write!(f, ": {hop}"),
                    RouteState::Pending(pending) => write!(f, ": pending, {pending}"),
                }
            }
            Self::Loop => f.write_str("round and round: dropped"),
        }
    }
}

/// Lookups in other VRFs that are followed.
const MAX_STEPS: usize = 8;

impl Forwarding {
    /// Prefixes and origins of all routes of a VRF, used or not, in no order; several interfaces may be connected to one network. Cheap: there may be millions.
    ///
    /// # Errors
    /// [`ForwardingError::NoVrf`].
    pub fn prefixes(&self, vrf: u16) -> Result<impl Iterator<Item = (Prefix, Origin)>, ForwardingError> {
        let Vrf { v4, v6, .. } = self.vrf(vrf)?;
        let v4 = v4.iter().filter_map(|(bits, len, candidate)| {
            Some((Ipv4Prefix::new(bits.into(), len).ok()?.into(), candidate.origin))
        });
        let v6 = v6.iter().filter_map(|(bits, len, candidate)| {
            Some((Ipv6Prefix::new(bits.into(), len).ok()?.into(), candidate.origin))
        });
        Ok(v4.chain(v6))
    }

    /// The next hops of a route, each with whether it leads somewhere by itself. Of a port split, where all others go first.
    #[must_use]
    pub fn ways(&self, route: &RouteView<'_>) -> Vec<(Path, RouteState)> {
        self.sets.states(route.set)
    }

    /// The routes to exactly this prefix, the most preferred one first.
    ///
    /// # Errors
    /// [`ForwardingError::NoVrf`].
    pub fn routes_to(&self, vrf: u16, prefix: Prefix) -> Result<Vec<RouteView<'_>>, ForwardingError> {
        let candidates = self.vrf(vrf)?.candidates(prefix);
        Ok(candidates.iter().filter_map(|candidate| self.view(vrf, prefix, candidate)).collect())
    }

    /// What happens to packets for `address` in a VRF, step by step. Groups are not decided: all their ways are shown.
    ///
    /// # Errors
    /// [`ForwardingError::NoVrf`].
    pub fn explain(&self, vrf: u16, address: IpAddr) -> Result<Vec<Step>, ForwardingError> {
        let mut steps = Vec::new();
        let mut vrf = vrf;
        for _ in 0..MAX_STEPS {
            let Some((prefix, candidate)) = self.longest(vrf, address)? else {
                steps.push(Step::NoRoute { vrf });
                return Ok(steps);
            };
            steps.push(Step::Route { vrf, prefix, origin: candidate.origin });
            let shares = self.sets.shares(candidate.set);
            let all = shares.iter().map(|(_, _, held)| held).sum();
            let paths = shares.iter().map(|(path, set, held)| {
                let hop = *self.hops.get(set.hop);
                Step::Path { path: *path, share: (*held, all), state: set.state, hop }
            });
            steps.extend(paths);
            match shares.as_slice() {
                [(Path { via: Via::Vrf(next), .. }, _, _)] => vrf = *next,
                _ => return Ok(steps),
            }
        }
        steps.push(Step::Loop);
        Ok(steps)
    }

    /// How much there is of everything.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let mut summary = Summary {
            vrfs: self.vrfs.len(),
            path_sets: self.sets.len(),
            next_hops: self.hops.len(),
            ..Summary::default()
        };
        for vrf in self.vrfs.values() {
            summary.v4_routes += vrf.v4.len();
            summary.v6_routes += vrf.v6.len();
            for usage in [vrf.v4.usage(), vrf.v6.usage()] {
                summary.bytes += usage.trie + usage.rib;
            }
        }
        summary
    }

    fn vrf(&self, vrf: u16) -> Result<&Vrf, ForwardingError> {
        self.vrfs.get(&vrf).ok_or(ForwardingError::NoVrf { vrf })
    }

    fn longest(&self, vrf: u16, address: IpAddr) -> Result<Option<(Prefix, Candidate)>, ForwardingError> {
        let Vrf { v4, v6, .. } = self.vrf(vrf)?;
        let (len, candidate) = match address {
            IpAddr::V4(address) => match v4.longest(&self.sets, address.to_bits()) {
                Some((_, len, candidate)) => (len, *candidate),
                None => return Ok(None),
            },
            IpAddr::V6(address) => match v6.longest(&self.sets, address.to_bits()) {
                Some((_, len, candidate)) => (len, *candidate),
                None => return Ok(None),
            },
        };
        Ok(Prefix::covering(address, len).ok().map(|prefix| (prefix, candidate)))
    }

    fn view(&self, vrf: u16, prefix: Prefix, candidate: &Candidate) -> Option<RouteView<'_>> {
        let set = self.sets.get(candidate.set)?;
        let candidates = self.vrf(vrf).ok()?.candidates(prefix);
        let used = candidates.into_iter().find(|other| self.sets.active(other.set).is_some());
        Some(RouteView {
            prefix,
            origin: candidate.origin,
            interface: (candidate.owner != 0).then_some(candidate.owner),
            paths: &set.paths,
            state: set.state,
            used: used == Some(*candidate),
            hop: set.hop,
            set: candidate.set,
        })
    }
}

impl Vrf {
    fn candidates(&self, prefix: Prefix) -> Vec<Candidate> {
        match prefix {
            Prefix::V4(prefix) => self.v4.candidates(prefix.bits(), prefix.len()).copied().collect(),
            Prefix::V6(prefix) => self.v6.candidates(prefix.bits(), prefix.len()).copied().collect(),
        }
    }
}
