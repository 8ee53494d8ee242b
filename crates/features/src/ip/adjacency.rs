//! What has been sent to each adjacency, counted by each worker for itself.
//!
//! An **adjacency** is somebody whom next hops lead to: an interface, and a neighbour behind it where it has some. However many
//! routes and VRFs lead there, it has one number, which stands in its next hops' cache line: whoever has read the header to put
//! in front of a packet knows where to count it.

use core::fmt;
use graph::counters::Counter;
use std::sync::Arc;

/// Adjacencies of a page: four kilobytes.
pub(super) const PAGE: usize = 256;

/// What one worker has sent to an adjacency; stored by it alone.
#[derive(Debug, Default)]
struct Sent {
    packets: Counter,
    bytes: Counter,
}

/// One worker's counters of consecutive adjacencies. No line of it is another worker's.
#[repr(align(64))]
struct Page([Sent; PAGE]);

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Page").finish_non_exhaustive()
    }
}

/// Packets, and their bytes from the link-layer header on, without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Traffic {
    /// What has come since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            packets: self.packets.wrapping_sub(earlier.packets),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
        }
    }
}

/// All workers' counters, by adjacency. It only grows: a number is valid in every later one. Counters only grow, too: where
/// they stood when an adjacency began, its [owner](super::control::Adjacencies) knows.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    /// By worker.
    pages: Vec<Vec<Arc<Page>>>,
}

impl Tallies {
    /// Counters of that many workers, with room for no adjacency.
    pub(super) fn of_workers(workers: usize) -> Self {
        Self { pages: vec![Vec::new(); workers] }
    }

    /// Adds a page for every worker.
    pub(super) fn grow(&mut self) {
        for pages in &mut self.pages {
            pages.push(Arc::new(Page(core::array::from_fn(|_| Sent::default()))));
        }
    }

    /// The counters of one worker, for it to add to.
    #[must_use]
    #[inline(always)]
    pub fn of(&self, worker: usize) -> Tally<'_> {
        Tally(self.pages.get(worker).map_or(&[], Vec::as_slice))
    }

    /// What all workers have sent to an adjacency.
    #[must_use]
    pub fn sum(&self, adjacency: u32) -> Traffic {
        let workers = (0..self.pages.len()).map(|worker| self.of(worker));
        workers.filter_map(|tally| tally.get(adjacency)).fold(Traffic::default(), |sum, sent| Traffic {
            packets: sum.packets.wrapping_add(sent.packets.get()),
            bytes: sum.bytes.wrapping_add(sent.bytes.get()),
        })
    }
}

/// One worker's counters.
#[derive(Clone, Copy, Debug)]
pub struct Tally<'t>(&'t [Arc<Page>]);

impl<'t> Tally<'t> {
    #[inline(always)]
    fn get(self, adjacency: u32) -> Option<&'t Sent> {
        let at = adjacency as usize;
        self.0.get(at / PAGE).map(|page| &page.0[at % PAGE])
    }

    /// Counts packets that are sent to an adjacency. Only the worker whose counters they are may: a load and a store each, no
    /// locked instruction, and nothing waits for what was loaded.
    #[inline(always)]
    pub fn add(self, adjacency: u32, packets: u64, bytes: u64) {
        if let Some(sent) = self.get(adjacency) {
            sent.packets.add(packets);
            sent.bytes.add(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::control::Forwarding;
    use crate::ip::topology;
    use crate::testing::{Bench, Outcome, forwarding_nodes};
    use core::net::IpAddr;
    use graph::IfIndex;
    use graph::simd::Tier;
    use std::collections::BTreeMap;
    use wire::{EtherType, EthernetHeader, IntoBytes, IpProtocol, Ipv4Header, Ipv6Header, MacAddr};

    #[test]
    fn workers_count_for_themselves_and_are_summed_up() {
        let mut tallies = Tallies::of_workers(2);
        tallies.grow();
        let earlier = tallies.clone();
        tallies.grow();
        tallies.of(0).add(1, 256, 256 * 64);
        tallies.of(1).add(1, 1, 1514);
        tallies.of(1).add(PAGE as u32, 3, 180);
        assert_eq!(tallies.sum(1), Traffic { packets: 257, bytes: 256 * 64 + 1514 });
        assert_eq!(tallies.sum(PAGE as u32), Traffic { packets: 3, bytes: 180 });
        assert_eq!(tallies.sum(2), Traffic::default());
        assert_eq!(earlier.sum(1), tallies.sum(1), "a worker in an older snapshot counts at the same place");
    }

    #[test]
    fn who_has_no_counters_counts_nothing() {
        let mut tallies = Tallies::of_workers(1);
        tallies.of(0).add(0, 1, 64);
        tallies.grow();
        tallies.of(7).add(0, 1, 64);
        tallies.of(0).add(PAGE as u32, 1, 64);
        assert_eq!(tallies.sum(0), Traffic::default());
    }

    /// UDP to a route of the [`topology`], with so many bytes of payload.
    fn frame(v6: bool, route: u8, host: u8, payload: u16) -> Vec<u8> {
        let len = payload + 8;
        let (ethertype, ip) = if v6 {
            let (src, dst) =
                ([0x2001, 0xdb8, 1, 0, 0, 0, 0, 9], 0x1000 + u16::from(route / 10 * 16 + route % 10));
            let dst = [0x2001, 0xdb8, dst, 0, 0, 0, 0, host.into()];
            let header = Ipv6Header::new(src.into(), dst.into(), IpProtocol::UDP, 64, len);
            (EtherType::IPV6, header.as_bytes().to_vec())
        } else {
            let (src, dst) = ([10, 0, 1, 9], [10, route, 0, host]);
            let header = Ipv4Header::new(src.into(), dst.into(), IpProtocol::UDP, 64, 20 + len);
            (EtherType::IPV4, header.as_bytes().to_vec())
        };
        let (dst, src) = (MacAddr([2, 0xfe, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 1, 9]));
        let ethernet = EthernetHeader { dst, src, ethertype };
        let udp = [[0, host, 0, 80], [(len >> 8) as u8, len as u8, 0, 0]].concat();
        [ethernet.as_bytes(), &ip, &udp, &vec![0; payload.into()]].concat()
    }

    type Counts = BTreeMap<(IfIndex, Option<IpAddr>), (u64, u64)>;

    /// What has been counted; where nothing was, left out.
    fn counted(forwarding: &Forwarding) -> Counts {
        let views = forwarding.adjacencies().list().into_iter();
        let counts =
            views.map(|view| ((view.hop.tx_if, view.hop.neighbour()), (view.sent.packets, view.sent.bytes)));
        counts.filter(|(_, sent)| *sent != (0, 0)).collect()
    }

    /// What a wire has seen, by whom it was for: the topology has one neighbour on each of its Ethernet interfaces.
    fn seen(outcome: &Outcome, v6: bool) -> Counts {
        let neighbour = |index| match (index, v6) {
            (3, _) => None,
            (_, false) => Some(topology::address(&format!("10.0.{index}.2"))),
            (_, true) => Some(topology::address(&format!("2001:db8:{index}::2"))),
        };
        let sum = |frames: &Vec<Vec<u8>>| {
            (frames.len() as u64, frames.iter().map(|frame| frame.len() as u64).sum())
        };
        outcome.sent.iter().map(|(index, frames)| ((*index, neighbour(*index)), sum(frames))).collect()
    }

    /// Sends the frames through a graph of each tier, `burst` at a time, and holds what was counted against what came out.
    fn check(v6: bool, frames: &[Vec<u8>], burst: usize) {
        for tier in Tier::available() {
            let mut bench = Bench::with_nodes(tier, &forwarding_nodes());
            let mut forwarding = topology::set_up(&mut bench, if v6 { 1280 } else { 300 });
            bench.commit(&mut forwarding);
            let outcome = bench.run(1, frames, burst);
            assert_eq!(outcome.drops, [].into());
            assert_eq!(counted(&forwarding), seen(&outcome, v6), "tier {}, vectors of {burst}", tier.name());
            forwarding.adjacencies().clear();
            assert_eq!(counted(&forwarding), Counts::new());
        }
    }

    #[test]
    fn a_vector_to_one_next_hop_and_a_packet_alone() {
        for v6 in [false, true] {
            for route in [1, 2] {
                let one = frame(v6, route, 1, 18);
                check(v6, &vec![one.clone(); 256], 256);
                check(v6, &[one], 1);
            }
        }
    }

    #[test]
    fn runs_and_packets_of_several_next_hops_and_lengths() {
        for v6 in [false, true] {
            for burst in [1, 5, 256] {
                let mixed = |n: u16| {
                    // Runs of four, then in turn; 9 has two ways, which the hash of the packet chooses.
                    let at = if n < 128 { n / 4 } else { n };
                    frame(v6, [1, 8, 2, 9][usize::from(at % 4)], n as u8, n % 100)
                };
                check(v6, &(0..256).map(mixed).collect::<Vec<_>>(), burst);
            }
        }
    }

    #[test]
    fn fragments_count_one_by_one() {
        for burst in [1, 256] {
            let frames: Vec<_> = (0..20).map(|n| frame(false, 8, n, 100 * u16::from(n))).collect();
            check(false, &frames, burst);
        }
    }
}
