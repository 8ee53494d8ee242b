//! Finishing a transport checksum.

use super::segment::Problem;
use memory::packet::{Offload, Packets, SlotId};
use wire::checksum::Partial;

/// Finishes the checksum of a packet that is no super-frame: the field holds the sum of the pseudo header, and the sum
/// of everything from the transport header on replaces it. Afterwards nothing is left to do on the packet.
///
/// # Errors
/// [`Problem::Malformed`] where the field isn't in the packet, [`Problem::HeadersTooLong`] where it lies too deep,
/// [`Problem::NoSlot`] where there is no room to read the body.
pub fn complete_checksum(packets: &mut Packets, slot: SlotId) -> Result<(), Problem> {
    let meta = packets.meta(slot);
    let (offload, data, len) = (meta.offload, meta.data as usize, meta.len() as usize);
    let start = offload.checksum_start as usize;
    let field = start + offload.checksum_offset as usize;
    if start < data || field + 2 > data + len {
        return Err(Problem::Malformed);
    }
    if !packets.pull_head(slot, field + 2) {
        return Err(Problem::HeadersTooLong);
    }
    let body = Partial::of(packets.pull_body(slot).map_err(|_| Problem::NoSlot)?);
    let end = packets.meta(slot).end as usize;
    let (_, area) = packets.parts_mut(slot);
    let head = area.get(start..end).ok_or(Problem::Malformed)?;
    let sum = Partial::of(head).plus(body.at(head.len()));
    let field = area.get_mut(field..field + 2).ok_or(Problem::Malformed)?;
    field.copy_from_slice(&finish(sum).to_be_bytes());
    packets.meta_mut(slot).offload = Offload::default();
    Ok(())
}

/// What goes into a checksum field. Never 0, which for UDP means "none"; 0xffff is the same number otherwise.
pub(super) const fn finish(sum: Partial) -> u16 {
    match sum.checksum() {
        0 => 0xffff,
        checksum => checksum,
    }
}
