//! A host's answers: ARP, ICMP echo, neighbour discovery, ICMPv6 echo.

/// Our MAC address: locally administered.
pub const MAC: [u8; 6] = [0x02, 0xfe, 0, 0, 0, 1];

/// The answer to a frame, if it asks for one.
pub fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let mut reply = frame.to_vec();
    let (ethernet, packet) = reply.split_at_mut_checked(14)?;
    match [ethernet[12], ethernet[13]] {
        [0x08, 0x06] => answer_arp(packet)?,
        [0x08, 0x00] => answer_ping(packet)?,
        [0x86, 0xdd] => {
            let length = answer_icmp6(packet)?;
            packet[4..6].copy_from_slice(&(length as u16).to_be_bytes());
            reply.truncate(14 + 40 + length);
        }
        _ => return None,
    }
    reply.copy_within(6..12, 0);
    reply[6..12].copy_from_slice(&MAC);
    Some(reply)
}

/// RFC 826: a request for Ethernet and IPv4 becomes a reply. Who asks for his own address announces it (RFC 5227), and an answer would
/// dispute it.
fn answer_arp(arp: &mut [u8]) -> Option<()> {
    if arp.len() < 28 || arp[..8] != [0, 1, 8, 0, 6, 4, 0, 1] || arp[14..18] == arp[24..28] {
        return None;
    }
    arp[7] = 2;
    let (sender, target) = arp[8..28].split_at_mut(10);
    sender.swap_with_slice(target);
    sender[..6].copy_from_slice(&MAC);
    Some(())
}

/// RFC 792: an echo request becomes an echo reply. Swapping addresses leaves the IPv4 checksum right; the
/// ICMP checksum grows by what the type shrinks (RFC 1624).
fn answer_ping(ip: &mut [u8]) -> Option<()> {
    let header = usize::from(ip.first()? & 15) * 4;
    if ip[0] >> 4 != 4 || header < 20 || ip.len() < header + 8 || ip[9] != 1 || ip[header] != 8 {
        return None;
    }
    let (from, to) = ip[12..20].split_at_mut(4);
    from.swap_with_slice(to);
    ip[header] = 0;
    add(&mut ip[header + 2..header + 4], 0x0800);
    Some(())
}

/// RFC 4443 and RFC 4861; gives the bytes behind the IPv6 header.
fn answer_icmp6(ip: &mut [u8]) -> Option<usize> {
    let length = usize::from(u16::from_be_bytes([*ip.get(4)?, ip[5]]));
    if ip[0] >> 4 != 6 || ip.len() < 40 + length || length < 8 || ip[6] != 58 {
        return None;
    }
    match ip[40] {
        // An echo request: type 128 becomes 129.
        128 => {
            let (from, to) = ip[8..40].split_at_mut(16);
            from.swap_with_slice(to);
            ip[40] = 129;
            add(&mut ip[42..44], !0x0100);
            Some(length)
        }
        // A solicitation with its source's link-layer address, which makes room for ours.
        135 if length >= 32 && ip[7] == 255 && ip[64..66] == [1, 1] => {
            let target: [u8; 16] = ip[48..64].try_into().ok()?;
            ip.copy_within(8..24, 24);
            ip[8..24].copy_from_slice(&target);
            // An advertisement: solicited, override; the target's link-layer address.
            ip[40..48].copy_from_slice(&[136, 0, 0, 0, 0x60, 0, 0, 0]);
            ip[64..66].copy_from_slice(&[2, 1]);
            ip[66..72].copy_from_slice(&MAC);
            let words = ip[8..72].chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
            let sum = fold(words.sum::<u32>() + 32 + 58);
            ip[42..44].copy_from_slice(&(!sum).to_be_bytes());
            Some(32)
        }
        _ => None,
    }
}

/// Adds to a checksum what was taken from what it sums up.
pub fn add(checksum: &mut [u8], word: u16) {
    let sum = fold(u32::from(u16::from_be_bytes([checksum[0], checksum[1]])) + u32::from(word));
    checksum[..2].copy_from_slice(&sum.to_be_bytes());
}

/// A sum with its carries.
pub fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
