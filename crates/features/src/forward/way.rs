//! What ordinary packets are like, and what is made of them.

use crate::ethernet::usual::{L2, L3, destination, word};
use crate::interface::{Interface, Layer2, LinkMode};
use crate::ip::input::Arrives;
use crate::ip::rewrite::Forwards;
use crate::ip::{Lane, segment_len_at};
use core::marker::PhantomData;
use graph::IfIndex;
use graph::packet::{Field, Flags, HEAD_AREA, HEADROOM, Meta, Shape};
use graph::simd::Simd;

/// Length in bytes of the link-layer header, the same behind and before: Ethernet without tags. So the IP header stays where it is.
const HEADER: usize = (L3 - L2) as usize;

/// Where a packet is sent.
#[derive(Clone, Copy)]
pub(super) struct Hop<'t> {
    id: u32,
    tx_if: IfIndex,
    /// Longest IP packet in bytes; 0 where none goes there from here.
    mtu: u32,
    /// In the next hop's line: a copy on the stack, where packets take turns, would be read before it is written.
    pub(super) header: &'t [u8; HEADER],
    /// The packet's flow hash, where it has chosen this among others; else 0.
    hash: u32,
}

impl<'t> Hop<'t> {
    /// The end of the lane, which a flow of hash `hash` has chosen; closed where another header than Ethernet's is put in front there.
    #[inline(always)]
    pub(super) fn of(lane: &Lane<'t>, hash: u32) -> Self {
        let (id, tx_if) = (lane.id, lane.hop.tx_if);
        match lane.hop.header.first_chunk() {
            Some(header) if usize::from(lane.hop.header_len) == HEADER => {
                Self { id, tx_if, mtu: lane.mtu, header, hash }
            }
            _ => Self { id, tx_if, mtu: 0, header: &[0; HEADER], hash },
        }
    }

    /// The same, its header read elsewhere.
    #[inline(always)]
    pub(super) const fn with<'h>(&self, header: &'h [u8; HEADER]) -> Hop<'h> {
        Hop { id: self.id, tx_if: self.tx_if, mtu: self.mtu, header, hash: self.hash }
    }

    /// Whether packets go there from here.
    #[inline(always)]
    pub(super) const fn is_open(&self) -> bool {
        self.mtu != 0
    }
}

/// Packets of an IP version that came in by one interface.
pub(super) struct Way<F> {
    pub(super) rx_if: IfIndex,
    pub(super) vrf: u16,
    /// Whether any of them can be ordinary.
    pub(super) is_open: bool,
    /// The interface's address, as [`destination`] has it.
    address: u64,
    shape: Shape,
    family: PhantomData<F>,
}

impl<F: Arrives + Forwards> Way<F> {
    /// Of no interface.
    pub(super) const CLOSED: Self =
        Self { rx_if: 0, vrf: 0, is_open: false, address: 0, shape: Shape::NONE, family: PhantomData };

    /// Of `interface`, whose packets no feature has asked for if it is `plain`.
    #[inline(never)]
    pub(super) fn of(interface: &Interface, rx_if: IfIndex, plain: bool) -> Self {
        let routed = interface.layer2 == Layer2::None && interface.mode == LinkMode::Ethernet;
        let end = L3 + F::HEADER;
        let shape = Shape::ANY
            .expect(Field::RxIf, rx_if..=rx_if)
            .expect(Field::Data, L2..=L2)
            .expect(Field::End, end..=HEAD_AREA as u16)
            .put(Field::L2, L2)
            .put(Field::L3, L3)
            .put(Field::L4, end)
            .put(Field::Table, interface.vrf)
            .put_flags(Flags::GROUP, Flags::OUR_MAC)
            .begin_arc();
        Self {
            rx_if,
            vrf: interface.vrf,
            is_open: plain && routed,
            address: word(interface.mac),
            shape,
            family: PhantomData,
        }
    }

    /// What is made of the metadata of ordinary packets that all go to one next hop.
    #[inline(always)]
    pub(super) fn shape_to(&self, hop: &Hop<'_>) -> Shape {
        self.shape.put(Field::TxIf, hop.tx_if).put_next_hop(hop.id)
    }

    /// Whether a frame is to the interface's own address: no other is forwarded by anybody here.
    #[inline(always)]
    pub(super) const fn is_for_us(&self, area: &[u8; HEAD_AREA]) -> bool {
        destination(area) == self.address
    }

    /// Sends an ordinary packet on: one hop less, without padding, behind the next hop's link-layer header. Gives the IP packet's
    /// length. `None`, and nothing changed, where it isn't one.
    #[inline(always)]
    pub(super) fn send(
        &self,
        simd: impl Simd,
        meta: &mut Meta,
        area: &mut [u8; HEAD_AREA],
        hop: &Hop<'_>,
        shape: Option<&Shape>,
    ) -> Option<u32> {
        let ours = self.is_for_us(area);
        let (header, rest) = area.get_mut(HEADROOM..)?.split_first_chunk_mut()?;
        let ip = F::bytes_mut(rest)?;
        let len = F::length(ip);
        let end = meta.end_of(L3, len);
        let padded = end != u32::from(meta.end);
        let fits = ours
            && len <= hop.mtu
            && (!padded || meta.exceeds(end))
            && self.shape.fits(simd, meta)
            && F::passes(ip);
        if !fits || !F::take_hop(ip) {
            return if len > hop.mtu && ours { self.super_frame(simd, meta, area, hop) } else { None };
        }
        *header = *hop.header;
        // In this order: the row is loaded whole, which has to wait for narrower stores into it.
        match shape {
            Some(shape) => shape.apply(simd, meta),
            None => {
                self.shape.apply(simd, meta);
                (meta.tx_if, meta.next_hop) = (hop.tx_if, hop.id);
            }
        }
        if hop.hash != 0 {
            meta.flow_hash = hop.hash;
        }
        if padded {
            meta.end = end as u16;
        }
        Some(len)
    }

    /// The same with a packet above the MTU: it is sent where the packets fit that whoever segments it makes of it.
    #[cold]
    #[inline(never)]
    fn super_frame(
        &self,
        simd: impl Simd,
        meta: &mut Meta,
        area: &mut [u8; HEAD_AREA],
        hop: &Hop<'_>,
    ) -> Option<u32> {
        let longest = segment_len_at(meta, area, (L3, L3 + F::HEADER))?;
        let open = Hop { mtu: u32::MAX, ..*hop };
        if hop.is_open() && longest <= hop.mtu { self.send(simd, meta, area, &open, None) } else { None }
    }
}
