//! Changes to the packet engine.

use std::fmt;
use std::sync::Arc;

use super::KeptSession;
use crate::model::spec::{
    AclSpec, AddressSetSpec, BridgeSpec, EndpointSpec, InterfaceSpec, NatPoolSpec, NeighborSpec, PolicerSpec,
    TenantSpec, VipSpec, VrfSpec,
};
use crate::model::{Flaw, Key, Refusal, ResolvedPaths, RouteKey};

/// The packet engine as the control thread changes it.
///
/// A plan is executed operation by operation and then published. Each operation is done as a whole or not at all: if
/// it is rejected, nothing of it remains. If a later one is rejected, the earlier ones are taken back by executing
/// their inverses in reverse order; an inverse of what was done may not be rejected for reasons of consistency, only
/// by the system outside (say, a namespace that vanished in between).
///
/// What an operation names exists: objects are created before they are used and destroyed after their last use.
/// Rules between objects were checked before; the engine needs to reject only what it finds outside (namespaces,
/// devices, files, permissions, memory) or can't do.
pub trait Dataplane: Send {
    /// Whether `operation` would find outside what it needs. Nothing is changed. Objects that earlier operations of
    /// the same plan create don't exist yet, so this looks only at the system: does the namespace exist, may we use
    /// it, is the device name free.
    ///
    /// # Errors
    /// [`Rejection`] with the field and a remedy.
    fn check(&mut self, operation: &Operation) -> Result<(), Rejection>;

    /// Does `operation`. Workers needn't see it before [`Self::publish`].
    ///
    /// # Errors
    /// [`Rejection`]; then nothing of the operation remains.
    fn execute(&mut self, operation: &Operation) -> Result<(), Rejection>;

    /// Makes everything that was executed visible to the workers and waits until it is, for as long as that goes on.
    ///
    /// # Errors
    /// [`Flaw`] where it doesn't: says why. What waits goes on by itself.
    fn publish(&mut self) -> Result<(), Flaw>;

    /// Sessions that all workers have room for.
    fn session_room(&self) -> u64 {
        u64::MAX
    }

    /// Sessions of the process before go on as they were, once the tenants and VIPs are published that they are of, and before any packet comes.
    fn go_on(&mut self, _sessions: Vec<KeptSession>) {}

    /// The objects that were executed and can't be in force: because it showed only when they were published (a table is
    /// full), or not any more, because of what happened since (a device is gone). Each is told once; it stays as it is,
    /// without function, until it is taken back.
    fn lost(&mut self) -> Vec<Refusal> {
        Vec::new()
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A VRF comes, changes or goes. "default" exists from the start and only changes.
    Vrf(Change<VrfSpec>),
    /// A bridge comes, changes or goes. When it comes it has no entries for members, when it goes no members.
    Bridge(Change<BridgeSpec>),
    /// An interface comes: its port is opened, and it is as [`InterfaceSpec::bare`] says: down, not bridged, without
    /// addresses. A vlan comes after its parent.
    CreateInterface(Arc<InterfaceSpec>),
    /// An interface goes, which is as [`InterfaceSpec::bare`] says; its port may already be closed.
    DestroyInterface(Arc<InterfaceSpec>),
    /// The port of an interface is closed because it will be opened again with other parameters. The interface, its
    /// index, addresses, and whatever refers to it remain; packets to it are dropped meanwhile.
    ClosePort(Arc<InterfaceSpec>),
    /// The port of an interface is opened again, as `port` in this says.
    OpenPort(Arc<InterfaceSpec>),
    /// Everything but the port of an interface changes from one to the other; both are given, and name and port are
    /// the same in both. Its connected networks and own addresses come and go with its addresses. At no point of a
    /// plan is an address on two interfaces of a VRF, except for link-local ones, which may be on all.
    Configure {
        /// What it is.
        before: Arc<InterfaceSpec>,
        /// What it shall be.
        after: Arc<InterfaceSpec>,
    },
    /// Routes come, change or go, each destination at most once.
    Routes(Vec<RouteChange>),
    /// A static neighbour comes, changes or goes.
    Neighbor(Change<NeighborSpec>),
    /// A tenant comes, changes or goes. Its interfaces are there, and no other tenant's at any point of a plan.
    Tenant(Change<TenantSpec>),
    /// A pool of addresses for NAT comes, changes or goes. A tenant may refer to one that isn't there.
    NatPool(Change<NatPoolSpec>),
    /// A policer comes, changes or goes. At some points of a plan others may refer to one that isn't there: when it is published, none does.
    Policer(Change<PolicerSpec>),
    /// A VIP comes, changes or goes. At some points of a plan two of them may be asked at the same place: when it is published, no more.
    Vip(Change<VipSpec>),
    /// A list of rules comes, changes or goes. Others may refer to one that isn't there.
    Acl(Change<AclSpec>),
    /// A set of addresses, likewise.
    AddressSet(Change<AddressSetSpec>),
    /// An endpoint comes, changes or goes. At some points of a plan two of them may have the same address: when it is published, no more.
    Endpoint(Change<EndpointSpec>),
}

/// An object comes (`before` is none), changes, or goes (`after` is none).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<S> {
    /// What is there.
    pub before: Option<Arc<S>>,
    /// What shall be there.
    pub after: Option<Arc<S>>,
}

/// A route comes (`before` is none), changes, or goes (`after` is none). Equal paths are mostly, but not always, the
/// same `Arc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteChange {
    /// VRF and destination.
    pub key: RouteKey,
    /// Where packets go.
    pub before: Option<Arc<ResolvedPaths>>,
    /// Where they shall go.
    pub after: Option<Arc<ResolvedPaths>>,
}

/// Why an operation can't be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The route at fault, for [`Operation::Routes`]; none: the object of the operation.
    pub key: Option<Key>,
    /// What is wrong and what to do about it.
    pub flaw: Flaw,
}

impl From<Flaw> for Rejection {
    fn from(flaw: Flaw) -> Self {
        Self { key: None, flaw }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(formatter, "{key}: {}", self.flaw),
            None => self.flaw.fmt(formatter),
        }
    }
}

impl std::error::Error for Rejection {}

impl<S> Change<S> {
    /// It comes.
    pub fn added(after: &Arc<S>) -> Self {
        Self { before: None, after: Some(Arc::clone(after)) }
    }

    /// It goes.
    pub fn removed(before: &Arc<S>) -> Self {
        Self { before: Some(Arc::clone(before)), after: None }
    }

    /// What shall be there, or else what was.
    pub fn either(&self) -> Option<&Arc<S>> {
        self.after.as_ref().or(self.before.as_ref())
    }

    fn inverse(&self) -> Self {
        Self { before: self.after.clone(), after: self.before.clone() }
    }
}

impl Operation {
    /// The object it is about; none for a set of routes.
    pub fn key(&self) -> Option<Key> {
        match self {
            Self::Vrf(change) => change.either().map(|spec| Key::Vrf(spec.name.clone())),
            Self::Bridge(change) => change.either().map(|spec| Key::Bridge(spec.name.clone())),
            Self::CreateInterface(spec)
            | Self::DestroyInterface(spec)
            | Self::ClosePort(spec)
            | Self::OpenPort(spec)
            | Self::Configure { after: spec, .. } => Some(Key::Interface(spec.name.clone())),
            Self::Routes(changes) => match &changes[..] {
                [change] => Some(Key::Route(change.key.clone())),
                _ => None,
            },
            Self::Neighbor(change) => change.either().map(|spec| Key::Neighbor(spec.key.clone())),
            Self::Tenant(change) => change.either().map(|spec| Key::Tenant(spec.name.clone())),
            Self::NatPool(change) => change.either().map(|spec| Key::NatPool(spec.name.clone())),
            Self::Policer(change) => change.either().map(|spec| Key::Policer(spec.name.clone())),
            Self::Vip(change) => change.either().map(|spec| Key::Vip(spec.name.clone())),
            Self::Acl(change) => change.either().map(|spec| Key::Acl(spec.name.clone())),
            Self::AddressSet(change) => change.either().map(|spec| Key::AddressSet(spec.name.clone())),
            Self::Endpoint(change) => change.either().map(|spec| Key::Endpoint(spec.name.clone())),
        }
    }

    /// What takes it back.
    #[must_use]
    pub fn inverse(&self) -> Self {
        match self {
            Self::Vrf(change) => Self::Vrf(change.inverse()),
            Self::Bridge(change) => Self::Bridge(change.inverse()),
            Self::CreateInterface(spec) => Self::DestroyInterface(Arc::clone(spec)),
            Self::DestroyInterface(spec) => Self::CreateInterface(Arc::clone(spec)),
            Self::ClosePort(spec) => Self::OpenPort(Arc::clone(spec)),
            Self::OpenPort(spec) => Self::ClosePort(Arc::clone(spec)),
            Self::Configure { before, after } => {
                Self::Configure { before: Arc::clone(after), after: Arc::clone(before) }
            }
            Self::Routes(changes) => Self::Routes(changes.iter().map(RouteChange::inverse).collect()),
            Self::Neighbor(change) => Self::Neighbor(change.inverse()),
            Self::Tenant(change) => Self::Tenant(change.inverse()),
            Self::NatPool(change) => Self::NatPool(change.inverse()),
            Self::Policer(change) => Self::Policer(change.inverse()),
            Self::Vip(change) => Self::Vip(change.inverse()),
            Self::Acl(change) => Self::Acl(change.inverse()),
            Self::AddressSet(change) => Self::AddressSet(change.inverse()),
            Self::Endpoint(change) => Self::Endpoint(change.inverse()),
        }
    }
}

impl RouteChange {
    fn inverse(&self) -> Self {
        Self { key: self.key.clone(), before: self.after.clone(), after: self.before.clone() }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self {
            Self::Vrf(Change { before: None, .. })
            | Self::Bridge(Change { before: None, .. })
            | Self::Neighbor(Change { before: None, .. })
            | Self::Tenant(Change { before: None, .. })
            | Self::NatPool(Change { before: None, .. })
            | Self::Policer(Change { before: None, .. })
            | Self::Vip(Change { before: None, .. })
            | Self::Acl(Change { before: None, .. })
            | Self::AddressSet(Change { before: None, .. })
            | Self::Endpoint(Change { before: None, .. })
            | Self::CreateInterface(_) => "create",
            Self::Vrf(Change { after: None, .. })
            | Self::Bridge(Change { after: None, .. })
            | Self::Neighbor(Change { after: None, .. })
            | Self::Tenant(Change { after: None, .. })
            | Self::NatPool(Change { after: None, .. })
            | Self::Policer(Change { after: None, .. })
            | Self::Vip(Change { after: None, .. })
            | Self::Acl(Change { after: None, .. })
            | Self::AddressSet(Change { after: None, .. })
            | Self::Endpoint(Change { after: None, .. })
            | Self::DestroyInterface(_) => "destroy",
            Self::Vrf(_)
            | Self::Bridge(_)
            | Self::Neighbor(_)
            | Self::Tenant(_)
            | Self::NatPool(_)
            | Self::Policer(_)
            | Self::Vip(_)
            | Self::Acl(_)
            | Self::AddressSet(_)
            | Self::Endpoint(_)
            | Self::Configure { .. } => "change",
            Self::ClosePort(_) => "close the port of",
            Self::OpenPort(_) => "open the port of",
            Self::Routes(_) => "change",
        };
        match (self.key(), self) {
            (Some(key), _) => write!(formatter, "{verb} {key}"),
            (None, Self::Routes(changes)) => write!(formatter, "{verb} {} routes", changes.len()),
            (None, _) => formatter.write_str(verb),
        }
    }
}
