//! What a server and a client say to each other: one message, and its answer.

use std::collections::BTreeMap;

use super::channel::Channel;
use super::foreign::Closing;
use super::interfaces::{Interface, View};
use super::line;
use super::outcomes::Outcomes;
use super::sessions::Session;
use crate::control::{ServerMachine, ServerNext, ServerStep, Unmapped};
use crate::ring::Overrun;
use crate::{Connection, Reason};

/// What came of looking for a message of a session.
pub(super) enum Heard {
    /// There is none.
    Nothing,
    /// It was answered, perhaps with a connection as the result.
    Answered(Option<Connection>),
    /// A region to be mapped.
    Region(Unmapped),
}

/// One message of a session.
pub(super) fn step(
    session: &mut Session,
    interfaces: &mut BTreeMap<u32, Interface>,
    closing: &Closing,
    overruns: &Outcomes<(u64, Overrun)>,
    token: u64,
) -> Result<Heard, Reason> {
    let Session { channel, peer, machine, origin, doorbell, .. } = session;
    let received = match channel.receive(machine.takes_descriptors())? {
        None => return Ok(Heard::Nothing),
        Some(line::Heard::NotDue(bytes)) => return Err(machine.not_due(&bytes)),
        Some(line::Heard::Message(received)) => received,
    };
    ServerMachine::check_count(&received.bytes, received.fds.len())?;
    let mut view = View { interfaces, token, channel, peer: *peer };
    let fds = received.fds.lend().map_err(Reason::Socket)?;
    let regions = machine.regions();
    let next = machine.begin(&received.bytes, fds, &mut view)?;
    received.fds.accepted();
    let mut step = match next {
        ServerNext::Map(unmapped) => return Ok(Heard::Region(unmapped)),
        ServerNext::Step(step) => step,
    };
    if let Some(connection) = &mut step.connection {
        let interface = interfaces.get(&connection.id);
        let start = |Interface { config, costs, .. }: &Interface| {
            let overruns = overruns.clone();
            connection.with_doorbell(&config.signals, costs, move |overrun| overruns.add((token, overrun)))
        };
        match interface.map_or(Ok(None), start) {
            Ok(started) => *doorbell = started,
            Err((errno, remains)) => {
                closing.of(*origin).close((step.connection, remains), regions);
                return Err(Reason::Socket(errno));
            }
        }
    }
    if let Err(reason) = answer(channel, &step) {
        // Connected, and already gone: its memory may take long to free, and others are served here.
        if let Some(connection) = step.connection {
            closing.of(*origin).close(connection, regions);
        }
        return Err(reason);
    }
    Ok(Heard::Answered(step.connection))
}

/// Sends what a message led to.
pub(super) fn answer(channel: &Channel, step: &ServerStep) -> Result<(), Reason> {
    step.reply.as_ref().map_or(Ok(()), |reply| channel.send(reply, None))
}
