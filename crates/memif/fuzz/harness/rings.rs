//! Both ends of a connection and its memory, beside an oracle of them.

use std::sync::Arc;

use memif::region::{CheckedRange, HugePages, RegionTable};
use memif::ring::Armed;
use memif::{Connection, QueueConfig, QueueError, RingSize, RxQueue, RxSink, TxQueue, TxSource, in_process};
use memory::packet::{Bodies, OwnedPacket, Packets as Worker, SlotId};
use memory::simd::{Simd, Tier, TierTask};

use super::bytes::Bytes;
use super::oracle::{BUFFER, FLAGS, HEAD, M2S, MAX_PACKET, Oracle, S2M, SLOTS, Side, TAIL};

#[derive(Default)]
pub(super) struct Packets(pub(super) Vec<Vec<u8>>);

fn read(range: CheckedRange<'_>) -> Vec<u8> {
    let mut bytes = vec![0; range.len() as usize];
    assert_eq!(range.read(&mut bytes), bytes.len());
    bytes
}

impl RxSink for Packets {
    fn packet(&mut self, bytes: CheckedRange<'_>) {
        self.0.push(read(bytes));
    }

    fn chain(&mut self, parts: &[CheckedRange<'_>], length: u32) {
        let packet: Vec<u8> = parts.iter().flat_map(|part| read(*part)).collect();
        assert_eq!(packet.len(), length as usize);
        self.0.push(packet);
    }
}

pub(super) struct Source<'p>(pub(super) &'p [Vec<u8>]);

impl TxSource for Source<'_> {
    fn length(&mut self, packet: usize) -> u32 {
        self.0[packet].len() as u32
    }

    fn write(&mut self, packet: usize, into: CheckedRange<'_>) {
        assert_eq!(into.len() as usize, self.0[packet].len());
        into.write(&self.0[packet]);
    }

    fn write_chain(&mut self, packet: usize, into: &[CheckedRange<'_>]) {
        let rest = into.iter().fold(&self.0[packet][..], |rest, part| &rest[part.write(rest)..]);
        assert!(rest.is_empty());
    }
}

/// What a dataplane receives into its slots, and what it sends from them: packets or fault.
struct Dataplane<'a>(Way<'a>, &'a mut Worker);

enum Way<'a> {
    In(&'a mut RxQueue, usize),
    Out(&'a mut TxQueue, &'a [Vec<u8>]),
    /// In two steps, that many of them first, and only then published.
    Staged(&'a mut TxQueue, &'a [Vec<u8>], usize),
}

/// Copies bodies like somebody who may do so later.
struct Copied;

#[allow(unsafe_code, reason = "the trait is")]
impl Bodies for Copied {
    unsafe fn copy<S: Simd>(&mut self, _: S, to: *mut u8, from: *const u8, len: usize) {
        // SAFETY: as the caller promises. Both may be of the same memory, where a peer has it so.
        unsafe { std::ptr::copy(from, to, len) }
    }
}

fn kind(error: QueueError) -> &'static str {
    error.fault.kind()
}

fn adopt(worker: &mut Worker, packets: &[Vec<u8>]) -> Vec<SlotId> {
    let owned = packets.iter().map(|packet| OwnedPacket::new(1, packet.clone()));
    owned.map(|packet| worker.adopt(&packet).unwrap()).collect()
}

impl TierTask for Dataplane<'_> {
    /// The packets received; or how many were sent, and of how many it was found that they can't be.
    type Output = Result<(Vec<Vec<u8>>, usize, usize), QueueError>;

    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let Self(way, worker) = self;
        match way {
            Way::In(queue, max) => {
                let (slots, bytes) = queue.receive_packets(simd, worker, 1, max)?;
                let packets: Vec<_> = slots.map(|slot| worker.own(slot as SlotId).bytes().to_vec()).collect();
                assert_eq!(packets.iter().map(|packet| packet.len() as u64).sum::<u64>(), bytes);
                Ok((packets, 0, 0))
            }
            Way::Out(queue, packets) => {
                let slots = adopt(worker, packets);
                let sent = queue.transmit_packets(simd, worker, &slots)?;
                let bytes: usize = packets[..sent.packets].iter().map(Vec::len).sum();
                assert_eq!(sent.bytes, bytes as u64);
                Ok((Vec::new(), sent.packets, sent.refused.into()))
            }
            Way::Staged(queue, packets, first) => {
                let slots = adopt(worker, packets);
                let (before, after) = slots.split_at(first.min(slots.len()));
                let stage = |queue: &mut TxQueue, slots: &[SlotId]| {
                    // SAFETY: bodies are copied at once.
                    #[allow(unsafe_code, reason = "for whoever copies later")]
                    unsafe {
                        queue.stage_packets(simd, worker, slots, &mut Copied)
                    }
                };
                let mut sent = stage(queue, before)?;
                if sent.packets == before.len() {
                    let staged = queue.staged();
                    let more = stage(queue, after)?;
                    assert!(queue.staged() >= staged + more.packets as u16);
                    (sent.packets, sent.refused) = (sent.packets + more.packets, more.refused);
                    sent.bytes += more.bytes;
                }
                let bytes: usize = packets[..sent.packets].iter().map(Vec::len).sum();
                assert_eq!(sent.bytes, bytes as u64);
                queue.publish_staged();
                assert_eq!(queue.staged(), 0);
                Ok((Vec::new(), sent.packets, sent.refused.into()))
            }
        }
    }
}

struct Both {
    client: Connection,
    server: Connection,
    table: Arc<RegionTable>,
    oracle: Oracle,
    worker: Worker,
    /// Queues that had a fault: their connection would be closed.
    dead: [bool; 4],
    /// A dataplane has sent into the rings themselves: what becomes of that is the peer's own business, and not foretold.
    over: bool,
}

/// Writes, receives and sends; both must agree on every packet, every fault and every byte of memory.
pub fn rings(data: &[u8]) {
    let config = QueueConfig {
        ring_size: RingSize::MIN,
        buffer_size: BUFFER as u32,
        max_packet: MAX_PACKET as u32,
        huge_pages: HugePages::Never,
        ..QueueConfig::default()
    };
    let (client, server) = in_process(&config).unwrap();
    let table = Arc::clone(client.tx[0].regions());
    let oracle = Oracle::new(snapshot(&table));
    let mut both =
        Both { client, server, table, oracle, worker: Worker::new(), dead: [false; 4], over: false };
    let mut bytes = Bytes(data);
    while !bytes.is_empty() {
        both.step(&mut bytes);
        if both.over {
            return;
        }
        assert!(snapshot(&both.table) == both.oracle.memory, "memory differs");
    }
}

fn snapshot(table: &RegionTable) -> Vec<u8> {
    read(table.check(0, 0, table.regions()[0].len() as u32).unwrap())
}

impl Both {
    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let choice = bytes.byte();
        let side = if choice & 1 == 0 { Side::Server } else { Side::Client };
        let ring = if choice & 2 == 0 { S2M } else { M2S };
        // By the application's calls, or by a dataplane's on one of the tiers.
        let tiers = Tier::available();
        let tier = (choice & 32 != 0).then(|| tiers[usize::from(choice >> 6) % tiers.len()]);
        match choice >> 2 & 7 {
            0 => self.move_index(ring, bytes),
            1 | 2 => self.describe(ring, bytes),
            3 | 4 => self.receive(side, tier, bytes),
            5 => self.transmit(side, tier, bytes),
            6 => self.release(side, tier.map(|_| bytes.byte().into())),
            _ => self.arm(side, bytes),
        }
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.table.check(0, at as u32, bytes.len() as u32).unwrap().write(bytes);
        self.oracle.put(at, bytes);
    }

    fn move_index(&mut self, ring: u64, bytes: &mut Bytes<'_>) {
        let place = bytes.byte();
        let at = ring + if place & 1 == 0 { HEAD } else { TAIL };
        let by = match place >> 1 {
            n if n < 100 => u16::from(n % 66),
            n if n < 110 => 0_u16.wrapping_sub(n.into()),
            _ => bytes.word(),
        };
        let value = self.oracle.word(at).wrapping_add(by);
        self.put(at, &value.to_le_bytes());
    }

    fn describe(&mut self, ring: u64, bytes: &mut Bytes<'_>) {
        let end = self.oracle.memory.len() as u32;
        let first = u64::from(bytes.byte()) % SLOTS;
        let count = u64::from(bytes.byte()) % 8 + 1;
        let flags = bytes.one_of(&[0, 0, 0, 1, 1, 0xfffe]) as u16;
        let region = bytes.one_of(&[0, 0, 0, 0, 0, 0, 1, 0xffff]) as u16;
        let length = bytes.one_of(&[60, 128, 64, 1, 0, 129, 1000, 1001, 500, u32::MAX]);
        let offset = bytes.one_of(&[4096, 0, 1152, end - 60, end - 128, end, end - 1, u32::MAX, 8192]);
        let (flags, region) = (flags.to_le_bytes(), region.to_le_bytes());
        let slot = [&flags[..], &region, &length.to_le_bytes(), &offset.to_le_bytes(), &[0; 4]].concat();
        for slot_number in first..first + count {
            self.put(ring + 128 + slot_number % SLOTS * 16, &slot);
        }
    }

    const fn dead(&mut self, side: Side, receives: bool) -> &mut bool {
        let client = matches!(side, Side::Client);
        &mut self.dead[client as usize * 2 + receives as usize]
    }

    const fn end(&mut self, side: Side) -> &mut Connection {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn receive(&mut self, side: Side, tier: Option<Tier>, bytes: &mut Bytes<'_>) {
        if *self.dead(side, true) {
            return;
        }
        let max = usize::from(bytes.byte());
        let (expected, verdict) = self.oracle.receive(side, max);
        if let Some(tier) = tier {
            let Self { client, server, worker, oracle, .. } = self;
            let end = if side == Side::Client { client } else { server };
            let result = tier.dispatch(Dataplane(Way::In(&mut end.rx[0], max), worker));
            let known = |packets: Vec<Vec<u8>>| -> Vec<_> {
                packets
                    .into_iter()
                    .zip(&oracle.apart)
                    .map(|(p, apart)| (p.len(), apart.then_some(p)))
                    .collect()
            };
            // Those before a fault are lost with it.
            let found = result.map(|found| known(found.0)).map_err(kind);
            assert_eq!(found, verdict.map(|()| known(expected)));
            worker.end_round();
        } else {
            let mut packets = Packets::default();
            let result = self.end(side).rx[0].receive(max, &mut packets);
            assert_eq!(packets.0, expected);
            assert_eq!(result.map_err(kind), verdict.map(|()| expected.len()));
        }
        *self.dead(side, true) = verdict.is_err();
    }

    fn release(&mut self, side: Side, most: Option<u16>) {
        if *self.dead(side, true) {
            return;
        }
        self.oracle.release(side, most.map_or(u64::MAX, u64::from));
        match most {
            None => self.end(side).rx[0].release(),
            Some(most) => self.end(side).rx[0].release_first(most),
        }
    }

    fn transmit(&mut self, side: Side, tier: Option<Tier>, bytes: &mut Bytes<'_>) {
        if *self.dead(side, false) {
            return;
        }
        let mut packets = Vec::new();
        for n in 0..bytes.byte() % 70 {
            // One length often follows another of its kind.
            let length =
                if n % 8 == 0 { bytes.one_of(&[60, 128, 1, 129, 500, 0, 1000, 8192, 8193]) } else { 60 };
            packets.push((0..length.min(9000)).map(|i| (i as u8).wrapping_mul(7).wrapping_add(n)).collect());
        }
        let choice = usize::from(if tier.is_some() { bytes.byte() } else { 0 });
        let staged = (choice & 1 == 1).then_some(choice >> 1);
        // A dataplane stops at the first that can't be sent.
        let most = if tier.is_some() { 0 } else { usize::MAX };
        let verdict = self.oracle.transmit(side, &packets, most);
        let result = if let Some(tier) = tier {
            let Self { client, server, worker, .. } = self;
            let end = if side == Side::Client { client } else { server };
            let way = match staged {
                None => Way::Out(&mut end.tx[0], &packets),
                Some(first) => Way::Staged(&mut end.tx[0], &packets, first),
            };
            let result = tier.dispatch(Dataplane(way, worker));
            worker.end_round();
            self.over = !self.oracle.sent_apart;
            if self.over {
                return;
            }
            result.map(|(_, sent, refused)| (sent, refused))
        } else {
            let result = self.end(side).tx[0].transmit(packets.len(), &mut Source(&packets));
            result.map(|done| (done.sent, done.refused))
        };
        assert_eq!(result.map_err(kind), verdict);
        *self.dead(side, false) = verdict.is_err();
    }

    fn arm(&mut self, side: Side, bytes: &mut Bytes<'_>) {
        // Of a queue that has met a fault nothing is said but that.
        if *self.dead(side, true) {
            return;
        }
        let ring = if side == Side::Server { S2M } else { M2S };
        if bytes.byte() & 1 == 0 {
            self.end(side).rx[0].disarm();
            return self.oracle.put(ring + FLAGS, &[1, 0]);
        }
        let verdict = self.oracle.news(side);
        self.oracle.put(ring + FLAGS, &[0, 0]);
        let armed = self.end(side).rx[0].arm();
        assert_eq!(armed.map(|armed| armed == Armed::AlreadyReady).map_err(kind), verdict);
    }
}
