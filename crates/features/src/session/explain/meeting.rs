//! A packet at a service that says what it would do.

use super::super::entry::{Direction, Session};
use super::super::parser;
use super::super::sessions::Sessions;
use super::super::tenants::{Tenant, Tenants};
use super::{Imagined, Known, Object, Step};
use core::net::IpAddr;
use tables::session::{Endpoint, Handle, Key};

/// What becomes of the packet at a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meets {
    /// It passes.
    Passes,
    /// It is dropped, for that reason of the service's node.
    Drops(&'static str),
}

/// A packet at a service.
#[derive(Debug)]
pub struct Meeting<'a> {
    pub(in super::super) known: &'a Known,
    pub(in super::super) sessions: &'a Sessions,
    pub(in super::super) worker: u32,
    /// Its session's tenant.
    pub(in super::super) tenant: &'a Tenant,
    pub(in super::super) packet: Imagined,
    /// Its session's key.
    pub(in super::super) key: Key,
    /// The initiator is the higher endpoint of that.
    pub(in super::super) initiator_is_high: bool,
    pub(in super::super) direction: Direction,
    /// Its session; `None`: the packet begins it.
    pub(in super::super) there: Option<(Handle, Session)>,
    /// It doesn't come here: the service has decided about the session before.
    pub(in super::super) is_past: bool,
    /// Source and destination as services before have left them.
    pub(in super::super) ends: [Endpoint; 2],
    /// The backend that the session was given on the way here, and as whom that sees the client: client, backend.
    pub(in super::super) balanced: Option<[Endpoint; 2]>,
    /// The address of that, where the packet goes there as it is.
    pub(in super::super) direct: Option<IpAddr>,
    /// A rule has said on the way here that an engine is to look into the session.
    pub(in super::super) redirected: bool,
    /// The service's node.
    pub(in super::super) node: &'static str,
    pub(in super::super) steps: &'a mut Vec<Step>,
}

impl<'a> Meeting<'a> {
    /// Notes what the packet meets.
    pub fn say(&mut self, object: Option<Object>, found: impl Into<String>) {
        self.steps.push(Step { node: self.node, object, found: found.into() });
    }

    /// Notes that it passes, and why.
    pub fn passes(&mut self, found: impl Into<String>) -> Meets {
        self.say(None, found);
        Meets::Passes
    }

    /// Notes that it is dropped, and why.
    pub fn drops(&mut self, object: Option<Object>, found: impl Into<String>, reason: &'static str) -> Meets {
        self.say(object, found);
        Meets::Drops(reason)
    }

    /// The packet.
    #[must_use]
    pub const fn packet(&self) -> &Imagined {
        &self.packet
    }

    /// Initiator and responder, as the session's key has them.
    #[must_use]
    pub fn sides(&self) -> [Endpoint; 2] {
        let (low, high) = parser::endpoints(&self.key);
        if self.initiator_is_high { [high, low] } else { [low, high] }
    }

    /// The side that sends the packet.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Its session; `None`: the packet would begin it.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.there.as_ref().map(|(_, session)| session)
    }

    pub(in super::super) fn tenants(&self) -> &'a Tenants {
        &self.known.tenants
    }

    /// Whether the session has had no answer.
    pub(in super::super) fn is_unanswered(&self) -> bool {
        self.there.is_none_or(|(_, session)| session.is_unanswered())
    }
}

/// An address and its port.
pub(in super::super) fn shown((address, port): Endpoint) -> String {
    core::net::SocketAddr::new(address, port).to_string()
}
