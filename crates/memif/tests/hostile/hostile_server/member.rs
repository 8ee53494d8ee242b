//! A dataplane with a trust group: packets between the hostile server and another member of the group change rings in their buffers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memif::region::{HugePages, SealPolicy};
use memif::{
    Address, Client, ClientConfig, ClientEvent, ClientTiming, Connection, Pool, QueueConfig, QueueError,
    Reason, RxQueue, TxQueue,
};
use memory::packet::{Packets, SlotId};
use memory::simd::{Simd, Tier, TierTask};

use super::victim::{Application, Victim};
use crate::arena::{Arena, GOOD, HOSTILE, Shared};
use crate::traffic::{BYSTANDER_RING, bystander_with, small_queues};
use crate::wire::PATIENCE;

/// Bytes of a buffer of the group.
pub const BUFFER: u32 = 2048;
/// What each byte of the hostile server's packets is, where a test looks at it.
pub const MARK: u8 = 0xa5;
/// Buffers of one link of the hostile server, or of the other member: two rings.
const LINK: u32 = 2 * 64;

/// A victim whose link to the hostile server is in a trust group, and the group.
pub struct Group {
    pub victim: Victim,
    pool: Arc<Pool>,
    /// Buffers that are in no ring once the hostile server has gone: none too many, so that whoever loses one is found out.
    spare: u32,
    /// The other member may notice that memory of the group is gone, sooner or later.
    may_be_hurt: bool,
}

/// What a member's link ends for whose memory another member takes away.
pub fn is_memory_lost(reason: &Reason) -> bool {
    reason.to_string() == "shared memory was truncated"
}

impl Group {
    /// Of the hostile server, a member that behaves, and the well-behaved peer whose packets must all come back.
    pub fn new(test: &str) -> Self {
        Self::with(test, true)
    }

    /// The well-behaved peer isn't in the group: what members may do to each other doesn't concern it.
    pub fn of_two(test: &str) -> Self {
        Self::with(test, false)
    }

    fn with(test: &str, of_three: bool) -> Self {
        let good = Arena::idle(&format!("good-{test}"), |setting| {
            setting.hostile.max_memory = 1 << 30;
            // A pool is mapped by all members' servers.
            setting.hostile.seals = SealPolicy::Shared;
        });
        let bystanders = if of_three { 2 * BYSTANDER_RING } else { 0 };
        let pool = Pool::new(test, bystanders + 2 * LINK, BUFFER, HugePages::Never).unwrap();
        let queues = || QueueConfig { pool: Some(Arc::clone(&pool)), ..small_queues() };
        let bystander = bystander_with(&good.name, GOOD, if of_three { queues() } else { small_queues() });
        // To the same server, which has a copy of the well-behaved peer's packets for it.
        let config = ClientConfig { id: HOSTILE, queues: queues(), ..ClientConfig::default() };
        let quick = Duration::from_millis(20);
        let timing = ClientTiming { handshake_timeout: PATIENCE, min_backoff: quick, max_backoff: quick };
        let member = Client::new(Address::abstract_name(&good.name), config, timing).unwrap();
        let dataplane = Dataplane { member, link: None, packets: Packets::new(), may_be_hurt: !of_three };
        let victim = Victim::with(test, |_| (), queues(), good, bystander, Box::new(dataplane));
        Self { victim, pool, spare: bystanders + LINK, may_be_hurt: !of_three }
    }

    /// Why links of the other member have ended since it was asked last.
    pub fn member_ended(&self) -> Vec<Reason> {
        std::mem::take(&mut self.victim.good.shared.log().ended)
    }

    /// After all that: everybody is served, nobody has lost a packet, and the group has all of its buffers.
    pub fn finish(self) {
        let Self { victim, pool, spare, may_be_hurt } = self;
        assert!(pool.free() <= spare as usize);
        victim.finish_but_for(|reason| may_be_hurt && is_memory_lost(reason));
        assert_eq!(pool.free(), pool.buffers(), "buffers are lost");
    }

    /// Bytes of the group's memory.
    pub fn memory(&self) -> u64 {
        self.pool.region().len()
    }
}

/// Packets from either of two links go out by the other one.
struct Dataplane {
    member: Client,
    link: Option<Connection>,
    packets: Packets,
    /// Whether the other member's link may end, and come back.
    may_be_hurt: bool,
}

impl Application for Dataplane {
    fn serve(&mut self, hostile: &mut Connection, shared: &Shared) -> Result<(), QueueError> {
        let Some(member) = &mut self.link else { return Ok(()) };
        let passed = pass(&mut self.packets, &mut hostile.rx[0], &mut member.tx[0])?;
        let mut log = shared.log();
        log.received += passed.received;
        log.mixed_up += passed.mixed_up;
        drop(log);
        let passed = pass(&mut self.packets, &mut member.rx[0], &mut hostile.tx[0])?;
        shared.log().dropped += passed.dropped;
        Ok(())
    }

    fn round(&mut self) {
        for event in self.member.process(Instant::now()) {
            match event {
                ClientEvent::Connected(link) => self.link = Some(link),
                ClientEvent::Unreachable { .. } => {}
                _ if self.may_be_hurt => self.link = None,
                other => panic!("the other member was hurt: {other:?}"),
            }
        }
    }
}

#[derive(Default)]
struct Passed {
    received: u64,
    dropped: u64,
    mixed_up: u64,
}

/// One round of a worker.
fn pass(packets: &mut Packets, from: &mut RxQueue, to: &mut TxQueue) -> Result<Passed, QueueError> {
    let passed = Tier::detect().dispatch(Pass { packets, from, to });
    // Also after an error: what was received is somewhere, and its link may go.
    from.release();
    packets.end_round();
    passed
}

struct Pass<'a> {
    packets: &'a mut Packets,
    from: &'a mut RxQueue,
    to: &'a mut TxQueue,
}

impl TierTask for Pass<'_> {
    type Output = Result<Passed, QueueError>;

    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let Self { packets, from, to } = self;
        let (slots, _) = from.receive_packets(simd, packets, 1, 256)?;
        let slots: Vec<_> = slots.map(|slot| slot as SlotId).collect();
        let marked = |slot: &&SlotId| packets.own(**slot).bytes().iter().all(|byte| *byte == MARK);
        let mixed_up = slots.len() - slots.iter().filter(marked).count();
        let sent = to.transmit_packets(simd, packets, &slots)?.packets;
        let [received, dropped, mixed_up] =
            [slots.len(), slots.len() - sent, mixed_up].map(|packets| packets as u64);
        Ok(Passed { received, dropped, mixed_up })
    }
}
