//! All services in their order, scope by scope.

use super::scopes::{Layout, names};
use super::services::{Chain, IMPLIED, SERVICES_ARC, Service, ServiceError};
use graph::NodeSpec;
use graph::plan::features;

/// All services in the order in which packets pass them.
#[derive(Clone, Debug)]
pub struct Order {
    services: Vec<Service>,
    layout: Layout,
    /// Those of each scope that are asked again.
    asked_again: Vec<Chain>,
}

impl Order {
    /// Puts services in order, as every graph with their nodes does: each scope for itself, and all of them together.
    ///
    /// # Errors
    /// [`ServiceError`]: a cycle with its scope, or more services than a scope has bits for.
    pub fn resolve(services: &[Service]) -> Result<Self, ServiceError> {
        let put = |scope: &str, of: &[Service]| {
            let nodes: Vec<NodeSpec> = of.iter().map(|service| service.node).collect();
            features(SERVICES_ARC, &nodes)
                .map_err(|cycle| ServiceError::Cycle { scope: scope.into(), cycle: cycle.to_string() })
        };
        let scopes = names(services.iter().map(|service| service.scopes));
        for scope in &scopes {
            let its: Vec<Service> =
                services.iter().copied().filter(|service| service.scopes.has(scope)).collect();
            put(scope, &its)?;
        }
        let all = put(&scopes.join(", "), services)?;
        let services: Vec<Service> = all.into_iter().map(|at| services[at]).collect();
        let said: Vec<_> = services.iter().map(|service| (service.node.name, service.scopes)).collect();
        let mut order = Self { layout: Layout::new(&said)?, services, asked_again: Vec::new() };
        let of = |scope: usize| {
            let again = order.of(scope as u8).filter(|(_, service)| service.asked_again);
            again.fold(Chain::default(), |chain, (number, _)| chain.with(number))
        };
        order.asked_again = (0..scopes.len()).map(of).collect();
        Ok(order)
    }

    /// The services of all scopes.
    #[must_use]
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// Names of all scopes, by number; the default one is 0.
    #[must_use]
    pub fn scopes(&self) -> &[&'static str] {
        self.layout.scopes()
    }

    /// The number of a scope.
    ///
    /// # Errors
    /// [`ServiceError::NoScope`].
    pub fn scope(&self, name: &str) -> Result<u8, ServiceError> {
        let at = self.scopes().iter().position(|scope| *scope == name);
        at.map(|at| at as u8).ok_or_else(|| ServiceError::NoScope(name.into()))
    }

    /// The services of a scope in order, and their bits in its chains.
    pub fn of(&self, scope: u8) -> impl Iterator<Item = (u8, &Service)> + '_ {
        self.layout.of(scope).map(|(at, number)| (number, &self.services[at]))
    }

    /// Those that tenants of a scope can name, as a list for people.
    #[must_use]
    pub fn known(&self, scope: u8) -> String {
        let names = self.of(scope).map(|(_, service)| service.node.name);
        names.filter(|name| !IMPLIED.contains(name)).collect::<Vec<_>>().join(", ")
    }

    /// Those of the default scope that ICMP errors pass, too: only there, sessions are translated.
    #[must_use]
    pub fn of_errors(&self) -> Chain {
        let asked = self.of(0).filter(|(_, service)| service.errors);
        asked.fold(Chain::default(), |chain, (number, _)| chain.with(number))
    }

    /// Those of a scope that are [asked again](Service::asked_again) whatever has changed.
    pub(super) fn asked_again(&self, scope: u8) -> Chain {
        self.asked_again.get(usize::from(scope)).copied().unwrap_or_default()
    }

    /// The number of a service: its bit in chains of the scopes that it is of.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u8> {
        let at = self.services.iter().position(|service| service.node.name == name)?;
        self.layout.number(at)
    }

    /// Scopes that a service is of: bit `n` is scope `n`. 0 where there is no such service.
    #[must_use]
    pub(super) fn mask(&self, name: &str) -> u64 {
        let at = self.services.iter().position(|service| service.node.name == name);
        at.map_or(0, |at| self.layout.mask(at))
    }

    /// Names of the scopes that a service is of.
    #[must_use]
    pub fn scopes_of(&self, name: &str) -> Vec<&'static str> {
        let mask = self.mask(name);
        let its = self.scopes().iter().enumerate().filter(|(at, _)| mask >> at & 1 != 0);
        its.map(|(_, scope)| *scope).collect()
    }

    /// Whether a service is on a chain of a scope.
    #[must_use]
    pub fn is_on(&self, scope: u8, chain: Chain, name: &str) -> bool {
        let has = |number: u8| chain.block().is_none() && chain.has(number);
        self.mask(name) >> scope & 1 != 0 && self.number(name).is_some_and(has)
    }

    /// The chain of these services, in the default scope.
    ///
    /// # Errors
    /// As [`Order::chain_in`].
    pub fn chain<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<Chain, ServiceError> {
        self.chain_in(0, names)
    }

    /// The chain of these services, in a scope.
    ///
    /// # Errors
    /// [`ServiceError::Unknown`], [`ServiceError::OtherScope`] or [`ServiceError::Twice`].
    pub fn chain_in<'n>(
        &self,
        scope: u8,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Chain, ServiceError> {
        names.into_iter().try_fold(Chain::default(), |chain, name| {
            let nameable = || self.number(name).filter(|_| !IMPLIED.contains(&name));
            let number = nameable()
                .ok_or_else(|| ServiceError::Unknown { name: name.into(), known: self.known(scope) })?;
            if self.mask(name) >> scope & 1 == 0 {
                return Err(ServiceError::OtherScope {
                    name: name.into(),
                    its: self.scopes_of(name).join(", "),
                    scope: self.scopes().get(usize::from(scope)).copied().unwrap_or_default().into(),
                    known: self.known(scope),
                });
            }
            if chain.has(number) {
                return Err(ServiceError::Twice(name.into()));
            }
            Ok(chain.with(number))
        })
    }

    /// Sees to it that services which follow both sides of a session are on both of its chains, in a scope.
    ///
    /// # Errors
    /// [`ServiceError::OneWay`].
    pub fn check(&self, scope: u8, [forward, reverse]: [Chain; 2]) -> Result<(), ServiceError> {
        let one = |(number, service): &(u8, &Service)| {
            service.both_ways && forward.has(*number) != reverse.has(*number)
        };
        match self.of(scope).find(one) {
            Some((_, service)) => Err(ServiceError::OneWay(service.node.name)),
            None => Ok(()),
        }
    }

    /// Names of a chain's services, in order, in a scope.
    pub fn names(&self, scope: u8, chain: Chain) -> impl Iterator<Item = &'static str> + '_ {
        let on = move |(number, _): &(u8, &Service)| chain.has(*number);
        self.of(scope).filter(on).map(|(_, service)| service.node.name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scopes::Scopes;
    use super::super::services::MAX_SERVICES;
    use super::*;
    use graph::Feature;

    const fn service(name: &'static str, features: &'static [Feature]) -> Service {
        let node = NodeSpec { name, features, ..NodeSpec::EMPTY };
        Service { node, ..Service::EMPTY }
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
        assert_eq!(order.names(0, chain).collect::<Vec<_>>(), ["tcp-check", "acl", "nat"]);
        assert_eq!(chain, Chain(0b111));
        assert_eq!(order.names(0, order.chain(["nat"]).unwrap()).collect::<Vec<_>>(), ["nat"]);
        let unknown = order.chain(["nat", "ips"]).unwrap_err();
        assert_eq!(unknown.to_string(), "there is no service \"ips\"");
        assert_eq!(order.chain(["nat", "nat"]).unwrap_err(), ServiceError::Twice("nat".into()));
    }

    #[test]
    fn who_follows_both_sides_is_on_both_chains() {
        let order = Order::resolve(&[NAT, ACL, TCP]).unwrap();
        let chain = |names: &[&str]| order.chain(names.iter().copied()).unwrap();
        assert_eq!(order.check(0, [chain(&["nat", "tcp-check"]), chain(&["tcp-check"])]), Ok(()));
        let error = order.check(0, [chain(&["nat"]), chain(&["tcp-check"])]);
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
        assert_eq!(Order::resolve(&MANY).unwrap_err(), ServiceError::TooMany("default", 64));
    }

    const MOBILE: Scopes = Scopes::Of(&["mobile"]);

    #[test]
    fn a_chain_names_services_of_its_scope_only() {
        const BEHIND: &[Feature] = &[place(&[], &["tcp-check"])];
        let every = Service { scopes: Scopes::All, ..TCP };
        let meter = Service { scopes: MOBILE, ..service("meter", BEHIND) };
        let order = Order::resolve(&[NAT, ACL, every, meter]).unwrap();
        let mobile = order.scope("mobile").unwrap();
        assert_eq!(order.scopes(), ["default", "mobile"]);
        assert_eq!((order.number("acl"), order.number("meter")), (Some(1), Some(1)), "one bit, two services");
        let chain = order.chain_in(mobile, ["meter", "tcp-check"]).unwrap();
        assert_eq!(order.names(mobile, chain).collect::<Vec<_>>(), ["tcp-check", "meter"]);
        assert_eq!(order.names(0, chain).collect::<Vec<_>>(), ["tcp-check", "acl"], "read in another scope");
        assert!(order.is_on(mobile, chain, "meter") && !order.is_on(mobile, chain, "acl"));
        let wrong = order.chain_in(mobile, ["tcp-check", "nat"]).unwrap_err();
        assert_eq!(wrong.to_string(), "service \"nat\" is of scope default, and not of mobile");
        let ServiceError::OtherScope { known, .. } = wrong else { panic!("{wrong}") };
        assert_eq!(known, "tcp-check, meter");
        let wrong = order.chain(["meter"]).unwrap_err().to_string();
        assert_eq!(wrong, "service \"meter\" is of scope mobile, and not of default");
        assert_eq!(order.scope("lab"), Err(ServiceError::NoScope("lab".into())));
        assert_eq!(order.scopes_of("tcp-check"), ["default", "mobile"]);
    }

    #[test]
    fn a_cycle_is_told_with_its_scope() {
        let of = |name: &'static str, scopes, features| Service { scopes, ..service(name, features) };
        const A: &[Feature] = &[place(&["b"], &[])];
        const B: &[Feature] = &[place(&["a"], &[])];
        let error = Order::resolve(&[NAT, of("a", MOBILE, A), of("b", MOBILE, B)]).unwrap_err().to_string();
        assert!(error.contains("scope \"mobile\"") && error.contains("b before a before b"), "{error}");
        // Each of these scopes could be ordered; but the graph is one.
        const NONE: &[Feature] = &[place(&[], &[])];
        const C: &[Feature] = &[place(&["b"], &["x"])];
        const X: &[Feature] = &[place(&[], &["b"])];
        let across = [
            of("b", Scopes::All, NONE),
            of("x", MOBILE, X),
            of("c", Scopes::Of(&["lab", "mobile"]), NONE),
            of("d", Scopes::Of(&["lab", "default"]), C),
        ];
        assert!(Order::resolve(&across[..3]).is_ok());
        let error = Order::resolve(&across).unwrap_err().to_string();
        assert!(error.contains("scope \"default, lab, mobile\"") && error.contains("before"), "{error}");
    }
}
