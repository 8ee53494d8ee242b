//! What happens at sockets, as news of links.

use std::collections::HashMap;

use ::memif::io::{ClientEvent, ServerEvent};
use graph::port::IfIndex;

use super::super::passage::Attachments;
use super::links::{LinkChange, Links};
use crate::model::spec::SocketName;

/// What happened at a listening socket, of whose ids these are the interfaces.
pub(super) fn of_server(
    event: ServerEvent,
    socket: &SocketName,
    ids: &HashMap<u32, IfIndex>,
    links: &mut Links,
    attachments: &Attachments,
) -> Option<LinkChange> {
    match event {
        ServerEvent::Connected(connection) => {
            let index = ids.get(&connection.id)?;
            links.up(*index, attachments.next(), connection)
        }
        ServerEvent::Disconnected { id, reason } => {
            ids.get(&id).and_then(|index| links.down(*index, &reason))
        }
        ServerEvent::NotAccepting { error } => {
            tracing::error!(%socket, %error, "memif peers can't be accepted");
            None
        }
        ServerEvent::Refused { id, peer, reason } => {
            links.turned_away(socket, id.and_then(|id| ids.get(&id)).copied(), id, peer, &reason);
            None
        }
    }
}

/// What happened to the client of an interface.
pub(super) fn of_client(
    event: ClientEvent,
    index: IfIndex,
    links: &mut Links,
    attachments: &Attachments,
) -> Option<LinkChange> {
    match event {
        ClientEvent::Connected(connection) => links.up(index, attachments.next(), connection),
        ClientEvent::Disconnected { reason } => links.down(index, &reason),
        ClientEvent::Refused { reason } => {
            links.refused(index, &reason);
            None
        }
        ClientEvent::Unreachable { error } => {
            links.unreachable(index, &error);
            None
        }
    }
}
