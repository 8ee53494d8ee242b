//! The interfaces behind a listening socket, and who has claimed which.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use memory::region::Account;

use super::channel::Channel;
use super::{Credentials, admission};
use crate::control::{Interfaces, Member};
use crate::ring::Costs;
use crate::{Reason, ServerConfig};

/// An interface that clients may connect to.
#[derive(Debug)]
pub(super) struct Interface {
    pub(super) config: Arc<ServerConfig>,
    /// What regions of all its connections may have made us pay for.
    pub(super) account: Arc<Account>,
    /// Its part of what all clients of the socket may have.
    pub(super) quota: Arc<Member>,
    /// The connection that has claimed it.
    pub(super) owner: Option<u64>,
    /// The connection whose region is being mapped, which may have ended meanwhile: there is one at a time.
    pub(super) mapping: Option<u64>,
    /// Why nobody may, at present.
    pub(super) closed: Option<Reason>,
    /// What it costs to signal its clients.
    pub(super) costs: Costs,
}

/// The interfaces, as one session sees them.
pub(super) struct View<'l> {
    pub(super) interfaces: &'l mut BTreeMap<u32, Interface>,
    pub(super) token: u64,
    pub(super) channel: &'l Channel,
    pub(super) peer: Option<Credentials>,
}

impl Interfaces for View<'_> {
    fn config(&self, id: u32) -> Option<Arc<ServerConfig>> {
        Some(Arc::clone(&self.interfaces.get(&id)?.config))
    }

    fn claim(&mut self, id: u32) -> Result<(), Reason> {
        let excluded =
            self.interfaces.get(&id).and_then(|interface| interface.costs.excluded(Instant::now()));
        if let Some(left) = excluded {
            return Err(Reason::Excluded(left));
        }
        match self.interfaces.get_mut(&id) {
            Some(Interface { closed: Some(reason), .. }) => Err(reason.clone()),
            Some(Interface { owner: None, mapping: Some(_), .. }) => Err(Reason::HangingRegion),
            Some(interface) if interface.owner.is_none() => {
                interface.owner = Some(self.token);
                Ok(())
            }
            Some(_) => Err(Reason::AlreadyConnected(id)),
            None => Err(Reason::UnknownInterface(id)),
        }
    }

    fn admit(&self, config: &ServerConfig) -> Result<(), Reason> {
        admission::check(&config.admission, self.peer, self.channel.fd())
    }

    fn account(&self, id: u32) -> Arc<Account> {
        self.interfaces.get(&id).map(|interface| Arc::clone(&interface.account)).unwrap_or_default()
    }

    fn quota(&self, id: u32) -> Arc<Member> {
        let known = self.interfaces.get(&id).map(|interface| Arc::clone(&interface.quota));
        known.unwrap_or_else(|| Arc::new(Member::unbounded()))
    }
}
