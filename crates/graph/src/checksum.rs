//! Finishing the transport checksum that a sender has left to the device, for who cuts the packet or can't pass it on so.

use memory::packet::{Offload, Packets, SlotId};
use wire::checksum::Partial;

/// Why a checksum can't be finished. The packet is as it was, or has lost nothing but its body's privacy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfinished {
    /// The field isn't in the packet.
    #[error("the headers aren't what the offload says")]
    Malformed,
    /// The field lies deeper than a slot's head reaches.
    #[error("the headers are too long")]
    HeadersTooLong,
    /// There is no room to read the body.
    #[error("too few packet slots are free")]
    NoRoom,
}

/// Finishes the checksum of a packet that is no super-frame, where that is left to do: the field holds the sum of the pseudo
/// header, and the sum of everything from the transport header on replaces it. Afterwards nothing is left to do on the packet.
///
/// # Errors
/// [`Unfinished`].
pub fn complete(packets: &mut Packets, slot: SlotId) -> Result<(), Unfinished> {
    let meta = packets.meta(slot);
    let (offload, data, len) = (meta.offload, meta.data as usize, meta.len() as usize);
    if !offload.checksum_needed {
        return Ok(());
    }
    let start = offload.checksum_start as usize;
    let field = start + offload.checksum_offset as usize;
    if start < data || field + 2 > data + len {
        return Err(Unfinished::Malformed);
    }
    if !packets.pull_head(slot, field + 2) {
        return Err(Unfinished::HeadersTooLong);
    }
    let body = Partial::of(packets.pull_body(slot).map_err(|_| Unfinished::NoRoom)?);
    let (meta, area) = packets.parts_mut(slot);
    let head = area.get(start..meta.end as usize).ok_or(Unfinished::Malformed)?;
    let sum = Partial::of(head).plus(body.at(head.len()));
    let field = area.get_mut(field..field + 2).ok_or(Unfinished::Malformed)?;
    field.copy_from_slice(&sum.transport_checksum().to_be_bytes());
    meta.offload = Offload::default();
    Ok(())
}
