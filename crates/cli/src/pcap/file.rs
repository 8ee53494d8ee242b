//! A pcapng file that grows packet by packet.

use std::collections::HashMap;
use std::io::{self, Write};

use api::v1::{CaptureDirection, CaptureLink, CapturedPacket};
use wire::LinkType;
use wire::capture::{Direction, pcapng};

/// Writes packets of many interfaces. Each is described when its first packet comes.
#[derive(Debug)]
pub(super) struct File<W> {
    out: W,
    /// Numbers of interfaces in the file. One that carries frames and packets is two for the file.
    interfaces: HashMap<(String, u16), u32>,
    snap_length: u32,
    /// Blocks are collected and written in one go, so that a file that is cut off ends at a block.
    buffer: Vec<u8>,
    bytes: u64,
}

impl<W: Write> File<W> {
    /// Begins a file. `snap_length` is the most bytes kept of a packet, 0 for all.
    pub(super) fn new(out: W, snap_length: u32) -> io::Result<Self> {
        let mut file = Self { out, interfaces: HashMap::new(), snap_length, buffer: Vec::new(), bytes: 0 };
        pcapng::section_header(&mut file.buffer, concat!("quiver ", env!("CARGO_PKG_VERSION")));
        file.flush()?;
        Ok(file)
    }

    /// Appends packets and hands them on, so that a reader of a pipe sees them at once.
    pub(super) fn append(&mut self, packets: &[CapturedPacket]) -> io::Result<()> {
        for packet in packets {
            let interface = self.interface(packet);
            let comment = comment(packet);
            let direction = match packet.direction() {
                CaptureDirection::Rx => Some(Direction::Inbound),
                CaptureDirection::Tx => Some(Direction::Outbound),
                CaptureDirection::Drop | CaptureDirection::Unspecified => None,
            };
            // The format wants the length on the wire to be no less than what was kept of it.
            let kept = u32::try_from(packet.data.len()).unwrap_or(u32::MAX);
            let packet = pcapng::Packet {
                interface,
                timestamp_ns: packet.timestamp_ns,
                original_len: packet.original_length.max(kept),
                pieces: &[&packet.data],
                direction,
                comment: &comment,
            };
            pcapng::packet(&mut self.buffer, &packet);
        }
        self.flush()
    }

    /// Bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of a packet's interface, which is described if it is new.
    fn interface(&mut self, packet: &CapturedPacket) -> u32 {
        let link = match packet.link() {
            CaptureLink::Ip => LinkType::RAW,
            CaptureLink::Ethernet | CaptureLink::Unspecified => LinkType::ETHERNET,
        };
        let key = (packet.interface.clone(), link.0);
        if let Some(number) = self.interfaces.get(&key) {
            return *number;
        }
        // More interfaces than u32 has can't come in one capture.
        let number = u32::try_from(self.interfaces.len()).unwrap_or(u32::MAX);
        pcapng::interface(&mut self.buffer, link, &packet.interface, self.snap_length);
        self.interfaces.insert(key, number);
        number
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.out.flush()?;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Why it was dropped: "dropped by ip4-input: ttl-expired". Empty if it wasn't.
fn comment(packet: &CapturedPacket) -> String {
    match (packet.direction(), packet.drop_node.as_str()) {
        (CaptureDirection::Drop, "") => format!("dropped: {}", packet.drop_reason),
        (CaptureDirection::Drop, node) => format!("dropped by {node}: {}", packet.drop_reason),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use wire::capture::Decoder;

    use super::*;

    fn packet(
        interface: &str,
        direction: CaptureDirection,
        link: CaptureLink,
        data: &[u8],
    ) -> CapturedPacket {
        CapturedPacket {
            timestamp_ns: 1_700_000_000_000_000_123,
            interface: interface.into(),
            direction: direction.into(),
            link: link.into(),
            original_length: 1514,
            data: data.to_vec(),
            ..CapturedPacket::default()
        }
    }

    /// What a reader finds: interface, link, direction, comment, data.
    type Read = (u32, LinkType, Option<Direction>, String, Vec<u8>);

    fn read(bytes: &[u8]) -> Vec<Read> {
        let mut decoder = Decoder::new();
        decoder.feed(bytes);
        let mut all = Vec::new();
        while let Some(packet) = decoder.next_packet().unwrap() {
            assert_eq!((packet.timestamp_ns, packet.original_len), (1_700_000_000_000_000_123, 1514));
            let (comment, data) = (packet.comment.to_owned(), packet.data.to_vec());
            all.push((packet.interface, packet.link, packet.direction, comment, data));
        }
        decoder.finish().unwrap();
        all
    }

    #[test]
    fn interfaces_are_told_apart_and_drops_say_why() {
        let mut out = Vec::new();
        let mut file = File::new(&mut out, 0).unwrap();
        let mut dropped = packet("pod-b", CaptureDirection::Drop, CaptureLink::Ethernet, &[3; 61]);
        dropped.drop_node = "ip4-input".into();
        dropped.drop_reason = "ttl-expired".into();
        file.append(&[packet("pod-a", CaptureDirection::Rx, CaptureLink::Ethernet, &[1; 60])]).unwrap();
        file.append(&[dropped, packet("pod-a", CaptureDirection::Tx, CaptureLink::Ip, &[2; 20])]).unwrap();
        file.append(&[packet("pod-a", CaptureDirection::Tx, CaptureLink::Ethernet, &[4; 1])]).unwrap();
        assert_eq!(file.bytes(), file.out.len() as u64);
        let none = String::new();
        assert_eq!(
            read(&out),
            [
                (0, LinkType::ETHERNET, Some(Direction::Inbound), none.clone(), vec![1; 60]),
                (1, LinkType::ETHERNET, None, "dropped by ip4-input: ttl-expired".into(), vec![3; 61]),
                (2, LinkType::RAW, Some(Direction::Outbound), none.clone(), vec![2; 20]),
                (0, LinkType::ETHERNET, Some(Direction::Outbound), none, vec![4; 1]),
            ]
        );
    }

    #[test]
    fn a_capture_without_packets_is_a_file_nevertheless() {
        let mut out = Vec::new();
        File::new(&mut out, 64).unwrap();
        assert_eq!(read(&out), []);
    }
}
