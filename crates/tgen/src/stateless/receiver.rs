//! Received frames: counted, or checked by their signatures.

use super::quoted::is_quoted;
use super::sequence::Tracker;
use super::signature::{self, Signature};
use crate::link::{Receiver, View};
use crate::plan::Arrival;
use hdrhistogram::Histogram;
use memory::clock::cycles;
use wire::checksum::Partial;

/// For each number of bytes: a line in which so many of the last are kept.
static KEEP_LAST: [[u8; 64]; 65] = {
    let mut masks = [[0; 64]; 65];
    let mut keep = 1;
    while keep <= 64 {
        let mut at = 64 - keep;
        while at < 64 {
            masks[keep][at] = 0xff;
            at += 1;
        }
        keep += 1;
    }
    masks
};

/// A [`Receiver`] that keeps accounts by link and lane.
pub trait Observer: Receiver {
    /// What came in at links.
    fn account(&mut self) -> &mut Account;

    /// A lane has sent so many packets.
    fn issued(&mut self, lane: usize, packets: u64);

    /// Packets of ours that came, so far; each counts once where that is known.
    fn ours(&self) -> u64;
}

/// What came in at a link.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkCounts {
    /// Frames, whosever they are.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of those that aren't ours, or were to come in elsewhere.
    pub other_bytes: u64,
    /// Those that aren't ours.
    pub foreign: u64,
    /// Those that are ours and that were to come in elsewhere: they count as lost.
    pub misdirected: u64,
    /// Frames, whosever they are, that the kernel threw away because they weren't taken in time. `None` where that can't be
    /// known.
    pub dropped: Option<u64>,
}

/// What came in at links, one of which is at work.
#[derive(Debug)]
pub struct Account {
    links: Vec<LinkCounts>,
    at: usize,
    now: LinkCounts,
}

impl Account {
    fn new(links: usize) -> Self {
        Self { links: vec![LinkCounts::default(); links], at: 0, now: LinkCounts::default() }
    }

    /// Frames of this link follow.
    #[inline(always)]
    pub fn begin(&mut self, link: usize) {
        (self.at, self.now) = (link, LinkCounts::default());
    }

    /// No more frames of this link for now; gives the bytes of those that came.
    #[inline(always)]
    pub fn end(&mut self) -> u64 {
        if let Some(link) = self.links.get_mut(self.at) {
            link.packets += self.now.packets;
            link.bytes += self.now.bytes;
            link.other_bytes += self.now.other_bytes;
            link.foreign += self.now.foreign;
            link.misdirected += self.now.misdirected;
        }
        self.now.bytes
    }

    /// A frame that isn't ours.
    #[cold]
    fn foreign(&mut self, len: u32) {
        self.now.foreign += 1;
        self.now.other_bytes += u64::from(len);
    }
}

/// Counts frames and looks at their length and first bytes only.
#[derive(Debug)]
pub struct Count {
    account: Account,
    word: u64,
    /// Lengths that are sent.
    min: u32,
    span: u32,
    full: bool,
    /// Whether packets are to come in at a link.
    expected: Vec<bool>,
}

impl Count {
    /// For links at which packets are to come in, or not; frames of other than `lens` (least and most) bytes are foreign. `full` reads a word of every line.
    #[must_use]
    pub fn new(expected: Vec<bool>, lens: (u32, u32), full: bool) -> Self {
        let (min, span) = (lens.0, lens.1 - lens.0);
        Self { account: Account::new(expected.len()), word: 0, min, span, full, expected }
    }

    /// What came in, by link.
    #[must_use]
    pub fn into_links(self) -> Vec<LinkCounts> {
        core::hint::black_box(self.word);
        let mut links = self.account.links;
        for (link, _) in links.iter_mut().zip(self.expected).filter(|(_, expected)| !*expected) {
            link.misdirected = link.packets - link.foreign;
            link.other_bytes = link.bytes;
        }
        links
    }
}

impl Receiver for Count {
    #[inline(always)]
    fn frame<V: View>(&mut self, frame: V) {
        let len = frame.size();
        self.account.now.packets += 1;
        self.account.now.bytes += u64::from(len);
        if len.wrapping_sub(self.min) > self.span {
            self.account.foreign(len);
        }
        let mut word = [0; 8];
        frame.array_at(0, &mut word);
        self.word ^= u64::from_ne_bytes(word);
        if self.full {
            let mut at = 64;
            while frame.array_at(at, &mut word) {
                self.word ^= u64::from_ne_bytes(word);
                at += 64;
            }
        }
    }
}

impl Observer for Count {
    #[inline(always)]
    fn account(&mut self) -> &mut Account {
        &mut self.account
    }

    #[inline(always)]
    fn issued(&mut self, _lane: usize, _packets: u64) {}

    fn ours(&self) -> u64 {
        let links = self.account.links.iter().zip(&self.expected).filter(|(_, expected)| **expected);
        links.map(|(link, _)| link.packets - link.foreign).sum()
    }
}

/// What came of a lane's packets.
#[derive(Debug)]
pub struct LaneCounts {
    /// Received, duplicated, reordered.
    pub tracker: Tracker,
    /// Bytes of its packets that came whole, each once.
    pub bytes: u64,
    /// Packets whose payload isn't what was sent. They aren't received, so they are lost, too.
    pub corrupted: u64,
    /// Times under way, in clock ticks.
    pub latency: Option<Box<Histogram<u64>>>,
    /// Packets that came in where they were not to: they aren't received, either.
    pub misdirected: u64,
    arrival: Arrival,
    /// Packets sent.
    issued: u64,
}

impl LaneCounts {
    /// Of a lane with or without timestamps, whose packets are to come in there.
    #[must_use]
    pub fn new(stamped: bool, arrival: Arrival) -> Self {
        // Three digits; minutes, in ticks of any clock there is.
        let latency = stamped.then(|| Histogram::new_with_bounds(1, 1 << 40, 3).ok()).flatten();
        Self {
            tracker: Tracker::default(),
            bytes: 0,
            corrupted: 0,
            latency: latency.map(Box::new),
            misdirected: 0,
            arrival,
            issued: 0,
        }
    }
}

/// Looks at signatures: sequence numbers and timestamps; with `PAYLOAD` also whether payloads are whole.
#[derive(Debug)]
pub struct Check<const PAYLOAD: bool> {
    account: Account,
    lanes: Vec<LaneCounts>,
    run: u16,
    scratch: Vec<u8>,
}

impl<const PAYLOAD: bool> Check<PAYLOAD> {
    /// For so many links, and these lanes of the run of that number.
    #[must_use]
    pub fn new(links: usize, lanes: Vec<LaneCounts>, run: u16) -> Self {
        Self { account: Account::new(links), lanes, run, scratch: vec![0; super::size::MAX + 64] }
    }

    /// What came in, by link and by lane.
    #[must_use]
    pub fn into_counts(self) -> (Vec<LinkCounts>, Vec<LaneCounts>) {
        (self.account.links, self.lanes)
    }

    /// Whether the payload is as it was sent.
    #[inline(always)]
    fn is_whole<V: View>(&mut self, frame: V, signature: &Signature) -> bool {
        let (len, payload) = (frame.size(), usize::from(signature.payload_len));
        let mut last = [0; 64];
        if (signature::LEN..=64).contains(&payload) && len >= 64 && frame.array_at(len - 64, &mut last) {
            // The sum of the whole array, without what isn't payload: vector code. It may stand at an odd byte, which
            // doesn't matter to whether it is a multiple of 0xffff.
            let mut masked = [0; 64];
            for ((masked, byte), keep) in masked.iter_mut().zip(&last).zip(&KEEP_LAST[payload]) {
                *masked = byte & keep;
            }
            return Partial::of_header(&masked).is_valid();
        }
        if payload > len as usize || payload < signature::LEN {
            return false;
        }
        let room = self.scratch.get_mut(..payload).unwrap_or_default();
        let read = frame.copy_at(len - payload as u32, room);
        read == payload && Partial::of(room).is_valid()
    }
}

impl<const PAYLOAD: bool> Receiver for Check<PAYLOAD> {
    #[inline(always)]
    fn frame<V: View>(&mut self, frame: V) {
        let len = frame.size();
        self.account.now.packets += 1;
        self.account.now.bytes += u64::from(len);
        let mut bytes = [0; signature::LEN];
        let found = frame.array_at(len.wrapping_sub(signature::LEN as u32), &mut bytes);
        let signature = if found { Signature::read(&bytes) } else { None };
        let Some(signature) = signature.filter(|s| usize::from(s.mark.lane) < self.lanes.len()) else {
            self.account.foreign(len);
            return;
        };
        let whole = !PAYLOAD || self.is_whole(frame, &signature);
        // An error about one of our packets isn't the packet.
        if whole && signature.mark.run != self.run || is_quoted(frame, signature.payload_len) {
            self.account.foreign(len);
            return;
        }
        let lane = &mut self.lanes[usize::from(signature.mark.lane)];
        if !whole || signature.sequence >= lane.issued {
            lane.corrupted += 1;
            return;
        }
        if !lane.arrival.is_at(self.account.at) {
            lane.misdirected += 1;
            self.account.now.misdirected += 1;
            self.account.now.other_bytes += u64::from(len);
            return;
        }
        if lane.tracker.receive(signature.sequence) {
            lane.bytes += u64::from(len);
        }
        if signature.mark.stamped
            && let Some(latency) = &mut lane.latency
        {
            let mut stamp = [0; 8];
            if frame.array_at(len.wrapping_sub(signature::STAMPED_LEN as u32), &mut stamp) {
                latency.saturating_record(cycles().saturating_sub(u64::from_be_bytes(stamp)));
            }
        }
    }
}

impl<const PAYLOAD: bool> Observer for Check<PAYLOAD> {
    #[inline(always)]
    fn account(&mut self) -> &mut Account {
        &mut self.account
    }

    #[inline(always)]
    fn issued(&mut self, lane: usize, packets: u64) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.issued = packets;
        }
    }

    fn ours(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.tracker.received()).sum()
    }
}
