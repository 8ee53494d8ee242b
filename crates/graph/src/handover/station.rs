//! One worker's end of the exchange.

use super::bell::Bell;
use memory::packet::{NoSlot, Packets, SlotId, Train};
use rtrb::{Consumer, Producer, RingBuffer};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Trains from one worker to another: one that is being loaded, one that is being unloaded, and two under way, for a
/// receiver that is busy with a vector of its own. Those that are used take 192 KiB each.
const TRAINS: usize = 4;
/// Packets on a train: a vector.
const PACKETS: usize = crate::engine::MAX_VECTOR;

/// All trains to a worker are under way: it doesn't keep up. The packet is to be dropped, with a reason that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A packet that has come.
#[derive(Debug)]
pub(crate) struct Handed {
    /// Key of the node that it is for.
    pub(crate) target: u32,
    /// The interface that it came in by.
    pub(crate) interface: u16,
    /// Where it is now, unless there was no slot left.
    pub(crate) slot: Result<SlotId, NoSlot>,
}

/// A worker's end.
#[derive(Debug)]
pub struct Station {
    number: usize,
    /// By worker; none to ourselves.
    to: Vec<Option<Departures>>,
    from: Vec<Arrivals>,
    /// Whose train is being unloaded.
    next: usize,
    bell: Option<Arc<Bell>>,
}

/// The way to another worker.
#[derive(Debug)]
struct Departures {
    empty: Consumer<Train>,
    loaded: Producer<Train>,
    /// The train that is being loaded.
    open: Option<Train>,
    bell: Arc<Bell>,
}

/// The way from another worker.
#[derive(Debug)]
struct Arrivals {
    loaded: Consumer<Train>,
    empty: Producer<Train>,
    /// The train that is being unloaded, and the number of its next packet.
    open: Option<(Train, usize)>,
}

/// The ends of `workers` workers, in order.
///
/// # Errors
/// What the system says: there is no descriptor for a bell.
pub fn exchange(workers: usize) -> rustix::io::Result<Vec<Station>> {
    let bells = (0..workers).map(|_| Bell::new().map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
    let mut stations: Vec<_> = bells
        .iter()
        .enumerate()
        .map(|(number, bell)| Station { number, bell: Some(Arc::clone(bell)), ..Station::alone() })
        .collect();
    for from in 0..workers {
        for (to, bell) in bells.iter().enumerate() {
            let (departures, arrivals) = if from == to { (None, None) } else { line(bell) };
            stations[from].to.push(departures);
            stations[to].from.extend(arrivals);
        }
    }
    Ok(stations)
}

/// Both ends of the way to the worker that this bell wakes.
fn line(bell: &Arc<Bell>) -> (Option<Departures>, Option<Arrivals>) {
    let (loaded, coming) = RingBuffer::new(TRAINS);
    let (mut back, empty) = RingBuffer::new(TRAINS);
    // There is room: nobody else has seen it.
    while back.push(Train::default()).is_ok() {}
    let departures = Departures { empty, loaded, open: None, bell: Arc::clone(bell) };
    (Some(departures), Some(Arrivals { loaded: coming, empty: back, open: None }))
}

impl Station {
    /// Of a worker that has no others beside it.
    #[must_use]
    pub const fn alone() -> Self {
        Self { number: 0, to: Vec::new(), from: Vec::new(), next: 0, bell: None }
    }

    /// Workers, this one among them.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.to.len().max(1)
    }

    /// Puts a copy of the packet on a train to `worker`, for the node of key `target`.
    pub(crate) fn load(
        &mut self,
        packets: &Packets,
        worker: usize,
        target: u32,
        slot: SlotId,
    ) -> Result<(), Full> {
        let way = self.to.get_mut(worker).and_then(Option::as_mut).ok_or(Full)?;
        if way.is_full() {
            way.depart();
        }
        let train = match &mut way.open {
            Some(train) => train,
            None => way.open.insert(way.empty.pop().map_err(|_| Full)?),
        };
        packets.load(slot, target, train);
        Ok(())
    }

    /// The round is over: what was loaded departs. Only the last train of a way waits to be filled while the others are under way: a
    /// receiver that isn't run for some short rounds would cost packets although there is room for hundreds.
    #[inline]
    pub(crate) fn end_round(&mut self) {
        self.to
            .iter_mut()
            .flatten()
            .filter(|way| !way.empty.is_empty() || way.is_full())
            .for_each(Departures::depart);
    }

    /// Takes the next packet that has come into a slot of this round, if one has: of one worker's train as long as it lasts,
    /// then of another's.
    pub(crate) fn unload(&mut self, packets: &mut Packets) -> Option<Handed> {
        for _ in 0..self.from.len() {
            if let Some(handed) = self.from.get_mut(self.next).and_then(|way| way.unload(packets)) {
                return Some(handed);
            }
            self.next = (self.next + 1) % self.from.len();
        }
        None
    }

    /// Asks to be woken, and lets trains that wait depart. False where something has come already: then nothing stays armed.
    pub(crate) fn arm(&mut self) -> bool {
        self.to.iter_mut().flatten().for_each(Departures::depart);
        let Some(bell) = &self.bell else { return true };
        bell.arm();
        let quiet = self.from.iter().all(|way| way.open.is_none() && way.loaded.is_empty());
        if !quiet {
            bell.disarm();
        }
        quiet
    }

    /// The worker is awake.
    pub(crate) fn disarm(&self) {
        if let Some(bell) = &self.bell {
            bell.disarm();
        }
    }

    /// What is to be waited for.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.bell.as_ref().map(|bell| bell.descriptor())
    }

    /// The worker's number.
    #[must_use]
    pub const fn number(&self) -> usize {
        self.number
    }
}

impl Arrivals {
    fn unload(&mut self, packets: &mut Packets) -> Option<Handed> {
        let (train, next) = match &mut self.open {
            Some(open) => open,
            None => self.open.insert((self.loaded.pop().ok()?, 0)),
        };
        let (target, interface) = train.label(*next)?;
        let handed = Handed { target, interface, slot: packets.unload(train, *next) };
        *next += 1;
        if *next == train.len()
            && let Some((mut train, _)) = self.open.take()
        {
            train.clear();
            // There is room for all that there are.
            let _ = self.empty.push(train);
        }
        Some(handed)
    }
}

impl Departures {
    /// No packet more has room on the train that is being loaded.
    fn is_full(&self) -> bool {
        self.open.as_ref().is_some_and(|train| train.len() >= PACKETS || train.is_full())
    }

    fn depart(&mut self) {
        if let Some(train) = self.open.take() {
            // There is room for all that there are.
            let _ = self.loaded.push(train);
            self.bell.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory::packet::OwnedPacket;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn packets() -> Packets {
        Packets::try_new().unwrap_or_else(|error| panic!("{error}"))
    }

    /// As many workers, each with slots of its own.
    fn workers(number: usize) -> Vec<(Station, Packets)> {
        let stations = exchange(number).unwrap_or_else(|error| panic!("{error}"));
        stations.into_iter().map(|station| (station, packets())).collect()
    }

    fn load((station, packets): &mut (Station, Packets), to: usize, number: u32) -> Result<(), Full> {
        let packet = OwnedPacket::new(7, number.to_be_bytes().repeat(16));
        let slot = packets.adopt(&packet).unwrap_or_else(|error| panic!("{error}"));
        let loaded = station.load(packets, to, number, slot);
        packets.end_round();
        loaded
    }

    /// Numbers of the packets that have come.
    fn unload((station, packets): &mut (Station, Packets)) -> Vec<u32> {
        let mut numbers = Vec::new();
        while let Some(handed) = station.unload(packets) {
            let slot = handed.slot.unwrap_or_else(|error| panic!("{error}"));
            let mut bytes = [0; 64];
            packets.copy_out(slot, &mut bytes);
            assert_eq!(bytes, handed.target.to_be_bytes().repeat(16)[..]);
            assert_eq!(handed.interface, 7);
            numbers.push(handed.target);
            packets.end_round();
        }
        numbers
    }

    #[test]
    fn packets_come_in_order_from_every_worker() {
        let mut workers = workers(3);
        for turn in 0..100 {
            for number in 0..300 {
                assert_eq!(load(&mut workers[0], 2, number), Ok(()), "turn {turn}");
                assert_eq!(load(&mut workers[1], 2, 1000 + number), Ok(()));
            }
            let mut come = unload(&mut workers[2]);
            assert_eq!(come.len(), 2 * PACKETS, "what isn't full departs at the end of the round");
            workers.iter_mut().for_each(|(station, _)| station.end_round());
            come.append(&mut unload(&mut workers[2]));
            let of = |first: u32| come.iter().filter(move |number| (first..first + 300).contains(number));
            assert!(of(0).copied().eq(0..300) && of(1000).copied().eq(1000..1300), "{come:?}");
            assert!(unload(&mut workers[0]).is_empty() && unload(&mut workers[1]).is_empty());
        }
    }

    #[test]
    fn a_worker_that_stands_still_costs_no_more_than_its_trains() {
        let mut workers = workers(2);
        let room = (0..).take_while(|number| load(&mut workers[0], 1, *number).is_ok()).count();
        assert_eq!(room, TRAINS * PACKETS);
        workers[0].0.end_round();
        assert_eq!(load(&mut workers[0], 1, 0), Err(Full));
        assert_eq!(unload(&mut workers[1]), (0..room as u32).collect::<Vec<_>>());
        assert_eq!(load(&mut workers[0], 1, 0), Ok(()), "trains come back");
    }

    #[test]
    fn the_last_train_waits_to_be_filled_while_the_others_are_under_way() {
        let mut workers = workers(2);
        let in_rounds_of_its_own = |workers: &mut [(Station, Packets)], number: u32| {
            let loaded = load(&mut workers[0], 1, number);
            workers[0].0.end_round();
            loaded.is_ok()
        };
        let room = (0..).take_while(|number| in_rounds_of_its_own(&mut workers, *number)).count();
        assert_eq!(room, TRAINS - 1 + PACKETS);
        assert_eq!(unload(&mut workers[1]), (0..room as u32).collect::<Vec<_>>(), "the last one was full");
        assert!((0..5).all(|number| in_rounds_of_its_own(&mut workers, number)));
        assert_eq!(unload(&mut workers[1]), [0, 1, 2], "two are on the train that waits");
        workers[0].0.end_round();
        assert_eq!(unload(&mut workers[1]), [3, 4], "which departs in the next round");
        assert!((0..5).all(|number| in_rounds_of_its_own(&mut workers, number)));
        assert!(workers[0].0.arm(), "or before its worker sleeps");
        assert_eq!(unload(&mut workers[1]), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn there_is_no_way_to_oneself_nor_to_whom_there_is_not() {
        let mut workers = workers(2);
        assert_eq!(load(&mut workers[0], 0, 0), Err(Full));
        assert_eq!(load(&mut workers[0], 2, 0), Err(Full));
        assert_eq!(load(&mut (Station::alone(), packets()), 0, 0), Err(Full));
    }

    #[test]
    fn the_bell_rings_for_who_sleeps() {
        let mut workers = workers(2);
        let rung = |station: &Station| {
            let descriptor = station.descriptor().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            poll(&mut Vec::from_iter(descriptor), Some(&Timespec::default())) == Ok(1)
        };
        assert_eq!(load(&mut workers[0], 1, 1), Ok(()));
        workers[0].0.end_round();
        assert!(!rung(&workers[1].0), "it is awake");
        assert!(!workers[1].0.arm(), "something has come: it mustn't sleep");
        assert_eq!(unload(&mut workers[1]), [1]);
        assert!(workers[1].0.arm());
        assert_eq!(load(&mut workers[0], 1, 2), Ok(()));
        assert!(!rung(&workers[1].0), "not before the train departs");
        workers[0].0.end_round();
        assert!(rung(&workers[1].0));
        workers[1].0.disarm();
        assert!(!rung(&workers[1].0));
        assert_eq!(unload(&mut workers[1]), [2]);
    }
}
