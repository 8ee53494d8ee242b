//! The packets of a conversation, prepared for other endpoints.

use crate::stateful::packet::{Framing, Head, LINE, Line, checksum_is_right, fold};
use crate::stateful::profile::{Ends, Profile, Protocol};
use crate::stateful::tcp::Role;
use crate::stateless::Recording;
use wire::TcpFlags;
use wire::checksum::Partial;

/// Most steps: as many as a figure per step is of use.
pub const MAX_STEPS: usize = 1000;

/// Why there is no conversation.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// The capture has none.
    #[error("the capture has no TCP or UDP packet over IPv4 (without IP options, not a fragment)")]
    None,
    /// It is too long.
    #[error("the conversation has {0} packets: {MAX_STEPS} are the most")]
    TooLong(usize),
}

/// One packet of a conversation, with zero for addresses and ports.
#[derive(Clone, Debug)]
pub struct Step {
    /// Whether the client sends it.
    pub from_client: bool,
    /// Its first line. IPv4's identification is the number of the step.
    line: Line,
    /// What follows the line.
    rest: Vec<u8>,
    /// Bytes with an Ethernet header, padding included.
    len: usize,
    /// Sums of what the checksums cover, but for addresses and ports.
    ip_sum: u64,
    transport_sum: Option<u64>,
    /// What TCP's numbers are where sequence numbers begin as in the first conversation.
    tcp: Option<Numbers>,
}

/// Sequence numbers of a step.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    seq: u32,
    /// Acknowledged, if something is.
    ack: Option<u32>,
    /// The next one that its sender uses.
    next: u32,
}

impl Numbers {
    /// Of a segment in an Ethernet frame that ends at `total`; takes them out of it.
    fn take(frame: &mut [u8], total: usize) -> Option<Self> {
        let number = |at: usize| Some(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?));
        let (seq, ack, head) = (number(38)?, number(42)?, 34 + usize::from(frame.get(46)? >> 4) * 4);
        let flags = TcpFlags::from_bits_retain(*frame.get(47)?);
        let ack = flags.contains(TcpFlags::ACK).then_some(ack);
        let ends = u32::from(flags.contains(TcpFlags::SYN)) + u32::from(flags.contains(TcpFlags::FIN));
        let next = seq.wrapping_add(total.saturating_sub(head) as u32).wrapping_add(ends);
        frame.get_mut(38..46)?.fill(0);
        Some(Self { seq, ack, next })
    }
}

/// Endpoints of one conversation, as they go into packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pair {
    client: (u64, u64),
    server: (u64, u64),
    addresses: u64,
    all: u64,
    numbers: u32,
}

impl Pair {
    /// A client's and a server's address and port.
    #[inline(always)]
    #[must_use]
    pub fn new(client: (u32, u16), server: (u32, u16)) -> Self {
        let client = (u64::from(client.0), u64::from(client.1));
        let server = (u64::from(server.0), u64::from(server.1));
        let addresses = client.0 + server.0;
        Self { client, server, addresses, all: addresses + client.1 + server.1, numbers: 0 }
    }

    /// The same, with sequence numbers of both ends so far behind those of the first conversation.
    #[inline(always)]
    #[must_use]
    pub const fn behind(self, numbers: u32) -> Self {
        Self { numbers, ..self }
    }
}

impl Step {
    /// Step `number` from a frame with an Ethernet header; `None` where it isn't TCP or UDP over IPv4.
    fn new(frame: &[u8], number: u16, from_client: bool) -> Option<Self> {
        let [_, _, ip @ ..] = frame.get(12..)? else { return None };
        let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
        let transport = ip.get(20..total)?;
        let tcp = transport_of(frame)? == 6;
        let mut bytes = frame.get(..14 + total)?.to_vec();
        bytes.resize(bytes.len().max(LINE), 0);
        let used = if tcp { Some(()) } else { transport.get(6..8).filter(|sum| **sum != [0, 0]).map(|_| ()) };
        // Identification, checksums, addresses and ports.
        bytes.get_mut(18..20)?.copy_from_slice(&number.to_be_bytes());
        let checksum = if tcp { 50 } else { 40 };
        for (from, to) in [(24, 38), (checksum, checksum + 2)] {
            bytes.get_mut(from..to)?.fill(0);
        }
        let numbers = if tcp { Some(Numbers::take(&mut bytes, 14 + total)?) } else { None };
        let sum = |bytes: &[u8]| u64::from(Partial::of(bytes).fold());
        let ip_sum = sum(bytes.get(14..34)?);
        let transport_sum = sum(bytes.get(34..14 + total)?) + (total as u64 - 20) + if tcp { 6 } else { 17 };
        Some(Self {
            from_client,
            line: Line::from_bytes(&bytes),
            len: bytes.len(),
            rest: bytes.get(LINE..).unwrap_or_default().to_vec(),
            ip_sum,
            transport_sum: used.map(|()| transport_sum),
            tcp: numbers,
        })
    }

    /// Its first line between these endpoints, with the Ethernet addresses of `framing`.
    #[inline(always)]
    #[must_use]
    pub fn line(&self, framing: &Framing, pair: &Pair) -> Line {
        let (src, dst) =
            if self.from_client { (pair.client, pair.server) } else { (pair.server, pair.client) };
        let ip = u64::from(fold(self.ip_sum + pair.addresses));
        let number = |number: u32| u64::from(number.wrapping_add(pair.numbers));
        let (seq, ack) = self.tcp.map_or((0, 0), |tcp| (number(tcp.seq), tcp.ack.map_or(0, number)));
        let transport = match self.transport_sum.map(|sum| fold(sum + pair.all + seq + ack)) {
            None => 0,
            Some(0) if self.tcp.is_none() => 0xffff,
            Some(checksum) => u64::from(checksum),
        };
        let mut words = self.line.0;
        [words[0], words[1]] = framing.begin();
        words[3] = ip << 48 | src.0 << 16 | dst.0 >> 16;
        words[4] |= dst.0 << 48 | src.1 << 32 | dst.1 << 16;
        if self.tcp.is_some() {
            words[4] |= seq >> 16;
            words[5] |= seq << 48 | ack << 16;
            words[6] |= transport << 32;
        } else {
            words[5] |= transport << 48;
        }
        Line(words)
    }

    /// What follows the line.
    #[inline(always)]
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// Bytes with an Ethernet header, padding included.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes: never.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What it is, for people: direction, flags, length.
    #[must_use]
    pub fn describe(&self) -> String {
        let way = if self.from_client { "client → server" } else { "server → client" };
        let what = if self.tcp.is_some() {
            TcpFlags::from_bits_retain(self.line.0[5] as u8).to_string()
        } else {
            "UDP".into()
        };
        format!("{way} {what}, {} B", self.len)
    }
}

/// Protocol number of a frame that a step can be made of.
fn transport_of(frame: &[u8]) -> Option<u8> {
    let plain = frame.get(12..15)? == [0x08, 0x00, 0x45];
    let whole = u16::from_be_bytes([*frame.get(20)?, *frame.get(21)?]) & 0x3fff == 0;
    let protocol = *frame.get(23)?;
    let least = if protocol == 6 { 54 } else { 42 };
    (plain && whole && matches!(protocol, 6 | 17) && frame.len() >= least).then_some(protocol)
}

/// The packets of a conversation, in order.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The packets.
    pub steps: Vec<Step>,
    /// Sequence numbers that an end uses up at most.
    pub numbers: u32,
}

impl Conversation {
    /// The conversation that a profile's connection is, seven packets and those with data: what the state machines send
    /// each other when nothing is lost.
    #[must_use]
    pub fn made(profile: &Profile, ends: &Ends) -> Self {
        let frames = match profile.protocol {
            Protocol::Tcp => super::super::rehearsal::tcp(profile, ends),
            Protocol::Udp => super::super::rehearsal::udp(profile, ends),
        };
        let steps = frames.iter().enumerate();
        let steps = steps.filter_map(|(n, (from_client, frame))| Step::new(frame, n as u16, *from_client));
        Self::of(steps.collect())
    }

    fn of(steps: Vec<Step>) -> Self {
        let used = |from_client| {
            let of =
                || steps.iter().filter(|step| step.from_client == from_client).filter_map(|step| step.tcp);
            let first = of().next().map_or(0, |tcp| tcp.seq);
            of().map(|tcp| tcp.next.wrapping_sub(first)).max().unwrap_or(0)
        };
        let numbers = used(true).max(used(false));
        Self { steps, numbers }
    }

    /// The first conversation of a capture. Its client is who sends first.
    ///
    /// # Errors
    /// [`ConversationError`].
    pub fn captured(recording: &Recording) -> Result<Self, ConversationError> {
        let ends = |frame: &[u8]| {
            let protocol = transport_of(frame)?;
            let end = |address: usize, port: usize| {
                Some((frame.get(address..address + 4)?.to_vec(), frame.get(port..port + 2)?.to_vec()))
            };
            Some((protocol, end(26, 34)?, end(30, 36)?))
        };
        let frames = (0..recording.count()).map(|n| recording.packet(n));
        let Some((protocol, client, server)) = frames.clone().find_map(ends) else {
            return Err(ConversationError::None);
        };
        let mut steps = Vec::new();
        for frame in frames {
            let from_client = match ends(frame) {
                Some((p, a, b)) if p == protocol && (&a, &b) == (&client, &server) => true,
                Some((p, a, b)) if p == protocol && (&b, &a) == (&client, &server) => false,
                _ => continue,
            };
            steps.extend(Step::new(frame, steps.len() as u16, from_client));
        }
        match steps.len() {
            0 => Err(ConversationError::None),
            n if n > MAX_STEPS => Err(ConversationError::TooLong(n)),
            _ => Ok(Self::of(steps)),
        }
    }

    /// Whether all checksums of all steps between these endpoints are right: for tests.
    #[must_use]
    pub fn is_right(&self, framing: &Framing, pair: &Pair) -> bool {
        self.steps.iter().all(|step| {
            let mut bytes = step.line(framing, pair).bytes().to_vec();
            bytes.extend_from_slice(step.rest());
            let ip = bytes.get(14..34).is_some_and(|header| Partial::of(header).is_valid());
            ip && checksum_is_right(&bytes)
        })
    }

    /// Steps that `role` sends.
    #[must_use]
    pub fn steps_of(&self, role: Role) -> usize {
        self.steps.iter().filter(|step| step.from_client == (role == Role::Client)).count()
    }
}
