//! Services, and the order in which a session's packets pass them.
//!
//! A service is a node and a place on the arc `session-services`: what it runs before and after is declared as for any feature, and
//! resolved once. A chain is a bitmap whose lowest bit is the first service.

use super::explain::{Meeting, Meets};
use core::fmt::Write;
use graph::NodeSpec;
use graph::plan::features;

/// The arc whose features the services are.
pub const SERVICES_ARC: &str = "session-services";

/// Follows sessions whose answers go past us.
pub(super) const ONE_SIDED: &str = "l4-one-sided";

/// Says where their packets go.
pub(super) const DIRECT_RETURN: &str = "direct-return";

/// Services that no tenant names: another one puts them on the chains of some sessions.
const IMPLIED: [&str; 2] = [ONE_SIDED, DIRECT_RETURN];

/// Services that a chain can have: the last bit of the bitmap says that packets are dropped.
pub const MAX_SERVICES: usize = 63;

/// What a service declares.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Its node. Name, help and place in the order are there.
    pub node: NodeSpec,
    /// Whether it has to see the packets of both directions.
    pub both_ways: bool,
    /// Whether ICMP errors about packets of a session that it has changed pass it, too.
    pub errors: bool,
    /// What it would do with a packet. It changes nothing, and says what it looks at.
    pub explain: fn(&mut Meeting<'_>) -> Meets,
}

/// Services of one direction: bit `n` is the service that is `n`-th in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain(pub u64);

/// Set where packets are dropped at once.
const BLOCKED: u64 = 1 << MAX_SERVICES;

impl Chain {
    /// Whether the service of that number is on it.
    #[inline(always)]
    #[must_use]
    pub const fn has(self, service: u8) -> bool {
        self.0 >> service & 1 != 0
    }

    /// The first service, if there is any.
    #[inline(always)]
    #[must_use]
    pub const fn first(self) -> Option<u8> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros() as u8) }
    }

    /// What is left of it behind the service of that number.
    #[inline(always)]
    #[must_use]
    pub const fn behind(self, service: u8) -> Self {
        Self(self.0 & (u64::MAX << service << 1))
    }

    /// Whether none on it comes before the service of that number.
    #[inline(always)]
    #[must_use]
    pub(super) const fn has_none_before(self, service: u8) -> bool {
        self.0 & ((1 << service) - 1) == 0
    }

    /// Those that are on `other`, too.
    #[inline(always)]
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// It with that service, too.
    #[must_use]
    pub const fn with(self, service: u8) -> Self {
        Self(self.0 | 1 << service)
    }

    /// It without that service; where packets are dropped at its beginning, they are for the same reason.
    #[inline(always)]
    #[must_use]
    pub const fn without(self, service: u8) -> Self {
        if self.block().is_some() { self } else { Self(self.0 & !(1 << service)) }
    }

    /// It without any of `others`, likewise.
    #[inline(always)]
    #[must_use]
    pub const fn without_all(self, others: Self) -> Self {
        if self.block().is_some() { self } else { Self(self.0 & !others.0) }
    }

    /// A chain at whose beginning packets are dropped for that reason (graph-wide id).
    #[inline(always)]
    #[must_use]
    pub const fn blocked(reason: u16) -> Self {
        Self(BLOCKED | reason as u64)
    }

    /// Why packets are dropped at its beginning, if they are.
    #[inline(always)]
    #[must_use]
    pub const fn block(self) -> Option<u16> {
        if self.0 & BLOCKED == 0 { None } else { Some(self.0 as u16) }
    }
}

/// Services can't be put in order, or a chain can't be made of those that were asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// Each of them comes before the next, and the last one before the first.
    #[error("{0}")]
    Cycle(String),
    /// There is no such service.
    #[error("there is no service {name:?}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A chain names a service twice.
    #[error("service {0:?} appears twice")]
    Twice(String),
    /// A service that follows both sides is to see one only.
    #[error("service {0:?} has to see both directions")]
    OneWay(&'static str),
    /// More services than a bitmap has bits.
    #[error("there are {0} services, and {MAX_SERVICES} at most can be told apart")]
    TooMany(usize),
}

/// All services in their order.
#[derive(Clone, Debug)]
pub struct Order(Vec<Service>);

impl Order {
    /// Puts services in order, as every graph with their nodes does.
    ///
    /// # Errors
    /// [`ServiceError::Cycle`] or [`ServiceError::TooMany`].
    pub fn resolve(services: &[Service]) -> Result<Self, ServiceError> {
        if services.len() > MAX_SERVICES {
            return Err(ServiceError::TooMany(services.len()));
        }
        let nodes: Vec<NodeSpec> = services.iter().map(|service| service.node).collect();
        let order = features(SERVICES_ARC, &nodes).map_err(|cycle| ServiceError::Cycle(cycle.to_string()))?;
        Ok(Self(order.into_iter().map(|at| services[at]).collect()))
    }

    /// The services.
    #[must_use]
    pub fn services(&self) -> &[Service] {
        &self.0
    }

    /// Those that ICMP errors pass, too.
    #[must_use]
    pub fn of_errors(&self) -> Chain {
        let bits = self.0.iter().enumerate().map(|(at, service)| u64::from(service.errors) << at);
        Chain(bits.fold(0, |chain, bit| chain | bit))
    }

    /// The number of a service.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u8> {
        self.0.iter().position(|service| service.node.name == name).map(|at| at as u8)
    }

    /// The chain of these services.
    ///
    /// # Errors
    /// [`ServiceError::Unknown`] or [`ServiceError::Twice`].
    pub fn chain<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<Chain, ServiceError> {
        names.into_iter().try_fold(Chain::default(), |chain, name| {
            let number = self.number(name).filter(|_| !IMPLIED.contains(&name)).ok_or_else(|| {
                let mut known = String::new();
                for service in self.0.iter().filter(|service| !IMPLIED.contains(&service.node.name)) {
                    let comma = if known.is_empty() { "" } else { ", " };
                    // Writing to a string doesn't fail.
                    let _ = write!(known, "{comma}{}", service.node.name);
                }
                ServiceError::Unknown { name: name.into(), known }
            })?;
            if chain.has(number) {
                return Err(ServiceError::Twice(name.into()));
            }
            Ok(Chain(chain.0 | 1 << number))
        })
    }

    /// Sees to it that services which follow both sides of a session are on both of its chains.
    ///
    /// # Errors
    /// [`ServiceError::OneWay`].
    pub fn check(&self, [forward, reverse]: [Chain; 2]) -> Result<(), ServiceError> {
        let one = |at: &usize| self.0[*at].both_ways && forward.has(*at as u8) != reverse.has(*at as u8);
        match (0..self.0.len()).find(one) {
            Some(at) => Err(ServiceError::OneWay(self.0[at].node.name)),
            None => Ok(()),
        }
    }

    /// Names of a chain's services, in order.
    pub fn names(&self, chain: Chain) -> impl Iterator<Item = &'static str> + '_ {
        let on = move |at: &usize| chain.has(*at as u8);
        (0..self.0.len()).filter(on).map(|at| self.0[at].node.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::Feature;

    const fn service(name: &'static str, features: &'static [Feature]) -> Service {
        let node = NodeSpec { name, features, ..NodeSpec::EMPTY };
        Service { node, both_ways: false, errors: false, explain: |_| Meets::Passes }
    }

    const fn place(runs_before: &'static [&'static str], runs_after: &'static [&'static str]) -> Feature {
        Feature { arc: SERVICES_ARC, runs_before, runs_after }
    }

    const NAT: Service = service("nat", &[place(&[], &["tcp-check", "acl"])]);
    const ACL: Service = service("acl", &[place(&[], &["gone"])]);
    const TCP: Service = Service { both_ways: true, ..service("tcp-check", &[place(&["acl"], &[])]) };

    #[test]
    fn a_chain_is_in_declared_order_however_it_is_named() {
        let order = Order::resolve(&[NAT, ACL, TCP]).unwrap();
        let chain = order.chain(["nat", "tcp-check", "acl"]).unwrap();
        assert_eq!(order.names(chain).collect::<Vec<_>>(), ["tcp-check", "acl", "nat"]);
        assert_eq!(chain, Chain(0b111));
        assert_eq!(order.names(order.chain(["nat"]).unwrap()).collect::<Vec<_>>(), ["nat"]);
        let unknown = order.chain(["nat", "ips"]).unwrap_err();
        assert_eq!(unknown.to_string(), "there is no service \"ips\"");
        assert_eq!(order.chain(["nat", "nat"]).unwrap_err(), ServiceError::Twice("nat".into()));
    }

    #[test]
    fn who_follows_both_sides_is_on_both_chains() {
        let order = Order::resolve(&[NAT, ACL, TCP]).unwrap();
        let chain = |names: &[&str]| order.chain(names.iter().copied()).unwrap();
        assert_eq!(order.check([chain(&["nat", "tcp-check"]), chain(&["tcp-check"])]), Ok(()));
        let error = order.check([chain(&["nat"]), chain(&["tcp-check"])]);
        assert_eq!(error, Err(ServiceError::OneWay("tcp-check")));
    }

    #[test]
    fn a_cycle_is_named() {
        const SERVICES: [Service; 4] = [
            service("a", &[place(&["b"], &[])]),
            service("b", &[place(&["c"], &[])]),
            service("c", &[place(&["a"], &[])]),
            service("d", &[place(&[], &[])]),
        ];
        let error = Order::resolve(&SERVICES).unwrap_err().to_string();
        assert!(error.contains("session-services can't be ordered"), "{error}");
        assert!(error.contains("b before c before a before b"), "{error}");
    }

    #[test]
    fn a_chain_has_sixty_three_services_at_most() {
        const MANY: [Service; MAX_SERVICES + 1] = [service("a", &[place(&[], &[])]); MAX_SERVICES + 1];
        assert_eq!(Order::resolve(&MANY).unwrap_err(), ServiceError::TooMany(64));
    }

    #[test]
    fn a_chain_is_walked_from_its_lowest_bit() {
        let chain = Chain(1 << 62 | 1 << 5 | 1);
        assert_eq!((chain.first(), chain.behind(0).first()), (Some(0), Some(5)));
        assert_eq!((chain.behind(5).first(), chain.behind(62).first()), (Some(62), None));
        assert_eq!(chain.without(5), Chain(1 << 62 | 1));
        assert_eq!(chain.block(), None);
        assert_eq!(Chain::blocked(700).block(), Some(700));
    }
}
