//! Whose a session is that begins at a tenant's interface: the tenant's, or that of one of its classes.
//!
//! A class is a list of rules and another tenant of the same address space: sessions that the list lets pass are that one's. Lists are asked about a
//! session's first packet, before there is a session: so a packet that has one costs nothing, and the key, which has the address space alone, finds it
//! whoever's it is.

use super::Tenants;
use super::acl::{Asking, Met, Question};
use super::tenants::Tenant;
use tables::session::Key;
use wire::IpProtocol;

/// Sessions that a list lets pass are another tenant's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Number of the list.
    pub acl: u32,
    /// Number of the tenant.
    pub tenant: u16,
}

impl Tenant {
    /// Whether sessions that begin at its interfaces may be of the tenant of that number.
    pub(super) fn has_class(&self, tenant: u16) -> bool {
        self.classes.iter().any(|class| class.tenant == tenant)
    }

    /// The tenant of a session that begins at one of its interfaces with such a packet, by number; `None` where it is its own. `met` is told of each
    /// list that is asked.
    pub(super) fn class(
        &self,
        tenants: &Tenants,
        question: &Question,
        asking: &mut Asking,
        met: impl FnMut(Met<'_>),
    ) -> Option<u16> {
        // One that is gone, or not there yet, has none.
        let there = || self.classes.iter().filter(|class| tenants.get(class.tenant).is_some());
        let lets =
            tenants.acls.first_that_lets_pass(there().map(|class| class.acl), question, asking, met)?;
        there().nth(lets).map(|class| class.tenant)
    }
}

/// What lists are asked about a session that begins with a packet from the higher or the lower endpoint of its key. `said`: what else they may ask
/// of it ([`super::acl::first`]).
pub(super) fn question(key: &Key, from_high: bool, said: (u8, u8)) -> Question {
    let (low, high) = key.endpoints();
    let (source, destination) = if from_high { (high, low) } else { (low, high) };
    let flags = if key.protocol() == IpProtocol::TCP.0 { said.0 } else { 0 };
    Question { context: key.context(), protocol: key.protocol(), source, destination, flags, icmp: said }
}
