//! Whether a frame that is passed on unchanged may leave by an interface.

use super::table::{Interface, LinkMode};
use crate::vlan::tags;
use graph::packet::{Gso, Packets, SlotId};
use wire::{EthernetHeader, Header};

/// Whether the frame's payload is within the MTU of `interface`. VLAN tags (two at most) don't count, as the payload
/// begins behind them. Super-frames are cut to size later, where the port can't do it.
///
/// This is the second look at frames above [`Interface::frame_limit`]; those within it fit in any case.
#[cold]
pub(crate) fn fits(packets: &Packets, slot: SlotId, interface: &Interface) -> bool {
    let meta = packets.meta(slot);
    let len = meta.len();
    if len <= interface.frame_limit() || meta.offload.gso != Gso::None {
        return true;
    }
    let head = packets.head(slot);
    let tags = match EthernetHeader::parse(head) {
        Ok((header, _)) if header.ethertype.is_vlan() && interface.mode == LinkMode::Ethernet => {
            tags::read(head).map_or(0, |tagged| tagged.len)
        }
        _ => 0,
    };
    len <= interface.frame_limit() + u32::from(tags)
}
