//! The fast way through `ethernet-input`: frames that are like the one before them.

use graph::IfIndex;
use graph::packet::{Field, Flags, HEAD_AREA, HEADROOM, Meta, Shape};
use graph::simd::Simd;
use wire::{EtherType, EthernetHeader, Header, MacAddr};

/// Where an untouched frame begins and where its network header does.
pub(crate) const L2: u16 = HEADROOM as u16;
pub(crate) const L3: u16 = L2 + EthernetHeader::LEN as u16;
/// The bytes of a word that are a MAC address, where the word begins with one.
const ADDRESS: u64 = u64::from_le_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]);

/// An untagged frame of one interface, to one destination address (where that counts), of one ethertype.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    rx_if: IfIndex,
    shape: Shape,
    /// Bytes of the first word that are looked at, and what they are.
    look: u64,
    address: u64,
    ethertype: EtherType,
    /// Where it goes.
    pub(super) edge: u8,
}

impl Usual {
    /// No frame.
    pub(super) const NONE: Self =
        Self { rx_if: 0, shape: Shape::NONE, look: 0, address: 0, ethertype: EtherType::new(0), edge: 0 };

    /// Deals with a frame that is like this; false, and nothing changed, where it is another.
    #[inline(always)]
    pub(super) fn take(&self, simd: impl Simd, meta: &mut Meta, area: &[u8; HEAD_AREA]) -> bool {
        let like = self.shape.fits(simd, meta)
            && first_word(area) & self.look == self.address
            && ethertype(area) == self.ethertype;
        if like {
            self.shape.apply(simd, meta);
        }
        like
    }

    /// The ethertype, where the frame can be like others: it is where it was received, and has no tag.
    pub(super) fn untagged(meta: &Meta, area: &[u8; HEAD_AREA]) -> Option<EtherType> {
        let ethertype = ethertype(area);
        (meta.data == L2 && !ethertype.is_vlan()).then_some(ethertype)
    }

    /// Untagged frames of interface `rx_if` and this ethertype went to `edge`: those to `mac` into the network layers, with
    /// forwarding table `vrf`; where there is no `mac`, all of them, as they were.
    pub(super) fn learn(
        &mut self,
        rx_if: IfIndex,
        mac: Option<MacAddr>,
        vrf: u16,
        ethertype: EtherType,
        edge: u8,
    ) {
        (self.ethertype, self.edge) = (ethertype, edge);
        if rx_if == self.rx_if {
            return;
        }
        self.rx_if = rx_if;
        let untouched = Shape::ANY
            .expect(Field::RxIf, rx_if..=rx_if)
            .expect(Field::Data, L2..=L2)
            .expect(Field::End, L3..=HEAD_AREA as u16);
        (self.look, self.address) = (0, 0);
        self.shape = untouched;
        if let Some(mac) = mac {
            self.look = ADDRESS;
            self.address = word(mac);
            self.shape = untouched
                .put(Field::L2, L2)
                .put(Field::Data, L3)
                .put(Field::L3, L3)
                .put(Field::Table, vrf)
                .put_flags(Flags::GROUP, Flags::OUR_MAC);
        }
    }
}

/// The ethertype of an untouched frame.
#[inline(always)]
pub(crate) const fn ethertype(area: &[u8; HEAD_AREA]) -> EtherType {
    EtherType::new(u16::from_be_bytes([area[HEADROOM + 12], area[HEADROOM + 13]]))
}

/// The destination address of an untouched frame, as [`word`] makes one of an address.
#[inline(always)]
pub(crate) const fn destination(area: &[u8; HEAD_AREA]) -> u64 {
    first_word(area) & ADDRESS
}

/// An address as the lower six bytes of a word.
pub(crate) const fn word(MacAddr([a, b, c, d, e, f]): MacAddr) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

#[inline(always)]
const fn first_word(area: &[u8; HEAD_AREA]) -> u64 {
    let mut word = [0; 8];
    let mut at = 0;
    while at < word.len() {
        word[at] = area[HEADROOM + at];
        at += 1;
    }
    u64::from_le_bytes(word)
}
