//! One packet at its session: where it goes and what is changed in it.

use super::super::lifecycle::Step;
use super::super::serving::{Verdict, Visit};
use super::super::tuple::{icmp_error_at, transport_at};
use super::{Address, Translation, Unfit};
use crate::session::balance::Books;
use graph::packet::{Meta, Packets, SlotId};
use tables::session::Key;
use wire::IpProtocol;

/// What a service counts, and why it drops packets: numbers of its own.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Told {
    /// Packets from the near side, to it, and ICMP errors, that were translated.
    pub(in super::super) out: u8,
    pub(in super::super) back: u8,
    pub(in super::super) errors: u8,
    /// It has other addresses or ports than packets of that side have.
    pub(in super::super) foreign: u8,
    /// Its headers aren't whole.
    pub(in super::super) short: u8,
}

/// What was done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// It goes on as it is: another service translates the session, or nobody does.
    Nothing,
    /// It was translated on its way from the near side.
    Out,
    /// It was translated on its way to the near side.
    In,
    /// It is an ICMP error, and was translated with the packet that it quotes.
    Error,
}

/// Translates a packet at its session, where that has a backend or has none, as the service that asks is.
#[inline(always)]
pub(in super::super) fn packet(visit: &mut Visit<'_>, balanced: bool, told: Told) -> Verdict {
    let done = translated(visit, balanced, false);
    told_of(visit, done, told)
}

/// The same with a later fragment, which has addresses and no ports.
#[cold]
pub(in super::super) fn fragment(visit: &mut Visit<'_>, balanced: bool, told: Told) -> Verdict {
    let done = translated(visit, balanced, true);
    told_of(visit, done, told)
}

#[inline(always)]
fn told_of(visit: &mut Visit<'_>, done: Result<Done, Unfit>, told: Told) -> Verdict {
    match done {
        Ok(Done::Out) => visit.count(told.out),
        Ok(Done::In) => visit.count(told.back),
        Ok(Done::Error) => visit.count(told.errors),
        Ok(Done::Nothing) => {}
        Err(Unfit::Foreign) => return Verdict::Drop(told.foreign),
        Err(Unfit::Short) => return Verdict::Drop(told.short),
    }
    Verdict::Next
}

#[inline(always)]
fn translated(visit: &mut Visit<'_>, balanced: bool, later: bool) -> Result<Done, Unfit> {
    let translations = visit.translations;
    if visit.is_v6 {
        let Some(translation) = translations.v6.get(visit.handle) else { return Ok(Done::Nothing) };
        one(visit, translation, balanced, later)
    } else {
        let Some(translation) = translations.v4.get(visit.handle) else { return Ok(Done::Nothing) };
        one(visit, translation, balanced, later)
    }
}

#[inline(always)]
fn one<A: Address>(
    visit: &mut Visit<'_>,
    translation: &Translation<A>,
    balanced: bool,
    later: bool,
) -> Result<Done, Unfit> {
    if translation.is_balanced() != balanced {
        return Ok(Done::Nothing);
    }
    let leaves = visit.from_high == translation.near_is_high;
    let done = if leaves { Done::Out } else { Done::In };
    // What a visit knows is in registers, as long as nobody else has the place where that stands.
    let books = balanced.then_some(&visit.translations.books);
    let (packets, slot) = (&mut *visit.packets, visit.slot);
    if balanced && translation.direct {
        let is_error = !later && icmp_error_at(packets, slot, visit.is_v6).is_some();
        if is_error {
            visit.step = Step::Doubted;
            return Ok(Done::Nothing);
        }
        note(books, translation, leaves, packets.meta(slot));
        return Ok(done);
    }
    if !later {
        let (meta, area) = packets.parts_mut(slot);
        if A::replace_ordinary((meta, area), visit.key, translation, leaves) {
            note(books, translation, leaves, meta);
            return Ok(done);
        }
    }
    let is_error = rest((packets, slot), (books, translation), visit.key, leaves, later)?;
    if is_error {
        visit.step = Step::Doubted;
    }
    Ok(if is_error { Done::Error } else { done })
}

/// Counts a packet at its session's backend, if it has one.
#[inline(always)]
fn note<A: Address>(books: Option<&Books>, translation: &Translation<A>, leaves: bool, meta: &Meta) {
    if let Some(books) = books {
        books.note(translation.account, leaves, meta.len());
    }
}

/// A packet that isn't [ordinary](super::ordinary); gives whether it is an ICMP error.
#[inline(never)]
fn rest<A: Address>(
    (packets, slot): (&mut Packets, SlotId),
    (books, translation): (Option<&Books>, &Translation<A>),
    key: &Key,
    leaves: bool,
    later: bool,
) -> Result<bool, Unfit> {
    if later {
        let (meta, area) = packets.parts_mut(slot);
        note(books, translation, leaves, meta);
        translation.apply_to_later::<false>((meta, area), key, leaves)?;
        return Ok(false);
    }
    if let Some(at) = icmp_error_at(packets, slot, A::IS_V6) {
        let (meta, area) = packets.parts_mut(slot);
        translation.apply_to_error((meta, area), at, key, leaves, false)?;
        return Ok(true);
    }
    let transport = if A::IS_V6 || key.protocol() == IpProtocol::SCTP.0 {
        transport_at(packets, slot, A::IS_V6).ok_or(Unfit::Short)?
    } else {
        // Whether it is a fragment matters to SCTP alone.
        (packets.meta(slot).l4.into(), false)
    };
    let (meta, area) = packets.parts_mut(slot);
    note(books, translation, leaves, meta);
    translation.apply::<false>((meta, area), transport, key, leaves)?;
    Ok(false)
}
