//! One packet at its session: where it goes and what is changed in it.

use super::super::lifecycle::Step;
use super::super::serving::{Verdict, Visit};
use super::super::tuple::{icmp_error_at, transport_at};
use super::{Address, Translation, Unfit};
use graph::packet::{HEAD_AREA, Meta};
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
    if balanced && translation.direct {
        return Ok(direct(visit, translation, leaves, later));
    }
    if later {
        let packet = visit.packets.parts_mut(visit.slot);
        if balanced {
            visit.translations.books.note(translation.account, leaves, packet.0.len());
        }
        return translation.apply_to_later::<false>((packet.0, packet.1), visit.key, leaves).map(|()| done);
    }
    if let Some(at) = icmp_error_at(visit.packets, visit.slot, visit.is_v6) {
        visit.step = Step::Doubted;
        let packet = visit.packets.parts_mut(visit.slot);
        return error(translation, packet, at, visit.key, leaves).map(|()| Done::Error);
    }
    let transport = if visit.is_v6 || visit.protocol() == IpProtocol::SCTP {
        transport_at(visit.packets, visit.slot, visit.is_v6).ok_or(Unfit::Short)?
    } else {
        // Whether it is a fragment matters to SCTP alone.
        (visit.packets.meta(visit.slot).l4.into(), false)
    };
    let packet = visit.packets.parts_mut(visit.slot);
    if balanced {
        visit.translations.books.note(translation.account, leaves, packet.0.len());
    }
    translation.apply::<false>((packet.0, packet.1), transport, visit.key, leaves)?;
    Ok(done)
}

/// A packet of a session whose packets aren't changed.
#[inline(never)]
fn direct<A: Address>(
    visit: &mut Visit<'_>,
    translation: &Translation<A>,
    leaves: bool,
    later: bool,
) -> Done {
    if !later && icmp_error_at(visit.packets, visit.slot, visit.is_v6).is_some() {
        visit.step = Step::Doubted;
        return Done::Nothing;
    }
    visit.translations.books.note(translation.account, leaves, visit.packets.meta(visit.slot).len());
    if leaves { Done::Out } else { Done::In }
}

#[inline(never)]
fn error<A: Address>(
    translation: &Translation<A>,
    packet: (&mut Meta, &mut [u8; HEAD_AREA]),
    at: usize,
    key: &Key,
    leaves: bool,
) -> Result<(), Unfit> {
    translation.apply_to_error((packet.0, packet.1), at, key, leaves, false)
}
