//! Services, and the order in which a session's packets pass them.
//!
//! A service declares what it runs before and after; the order is resolved once, and a chain is a bitmap whose lowest bit is the
//! first service. There are at most 64.

/// Services that a chain can have.
pub const MAX_SERVICES: usize = 64;

/// What a service declares.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Name: lower case, words joined by `-`.
    pub name: &'static str,
    /// One sentence: what it does.
    pub help: &'static str,
    /// Services that come after this one. Names of services that aren't there are allowed and ignored.
    pub runs_before: &'static [&'static str],
    /// Services that come before this one, likewise.
    pub runs_after: &'static [&'static str],
}

/// Services of one direction: bit `n` is the service that is `n`-th in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain(pub u64);

impl Chain {
    /// Whether the service of that number is on it.
    #[inline(always)]
    #[must_use]
    pub const fn has(self, service: u8) -> bool {
        self.0 >> service & 1 != 0
    }
}

/// Services can't be put in order, or a chain names one that isn't there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// Each of them comes before the next, and the last one before the first.
    #[error("services come before each other: {0}")]
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
    /// More services than a bitmap has bits.
    #[error("there are {0} services, and {MAX_SERVICES} at most can be told apart")]
    TooMany(usize),
}

/// All services in their order.
#[derive(Clone, Debug)]
pub struct Order(Vec<Service>);

impl Order {
    /// Puts services in order; where nothing is declared, by name, so that it doesn't depend on that of registration.
    ///
    /// # Errors
    /// [`ServiceError::Cycle`] or [`ServiceError::TooMany`].
    pub fn resolve(services: &[Service]) -> Result<Self, ServiceError> {
        if services.len() > MAX_SERVICES {
            return Err(ServiceError::TooMany(services.len()));
        }
        let mut left = services.to_vec();
        left.sort_by_key(|service| service.name);
        let mut order = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let free = left.iter().position(|at| !left.iter().any(|other| before(other, at)));
            match free {
                Some(at) => order.push(left.remove(at)),
                None => return Err(ServiceError::Cycle(cycle(&left))),
            }
        }
        Ok(Self(order))
    }

    /// The services.
    #[must_use]
    pub fn services(&self) -> &[Service] {
        &self.0
    }

    /// The number of a service.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u8> {
        self.0.iter().position(|service| service.name == name).map(|at| at as u8)
    }

    /// The chain of these services.
    ///
    /// # Errors
    /// [`ServiceError::Unknown`] or [`ServiceError::Twice`].
    pub fn chain<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<Chain, ServiceError> {
        names.into_iter().try_fold(Chain::default(), |chain, name| {
            let number = self.number(name).ok_or_else(|| {
                let known: Vec<&str> = self.0.iter().map(|service| service.name).collect();
                ServiceError::Unknown { name: name.into(), known: known.join(", ") }
            })?;
            if chain.has(number) {
                return Err(ServiceError::Twice(name.into()));
            }
            Ok(Chain(chain.0 | 1 << number))
        })
    }

    /// Names of a chain's services, in order.
    pub fn names(&self, chain: Chain) -> impl Iterator<Item = &'static str> + '_ {
        let on = move |at: &usize| chain.has(*at as u8);
        (0..self.0.len()).filter(on).map(|at| self.0[at].name)
    }
}

fn before(a: &Service, b: &Service) -> bool {
    a.runs_before.contains(&b.name) || b.runs_after.contains(&a.name)
}

/// One cycle among `left`, each of which has a predecessor there.
fn cycle(left: &[Service]) -> String {
    let mut path = vec![left[0]];
    loop {
        let last = path[path.len() - 1];
        let Some(earlier) = left.iter().find(|at| before(at, &last)) else { break };
        if let Some(start) = path.iter().position(|at| at.name == earlier.name) {
            path.drain(..start);
            path.reverse();
            break;
        }
        path.push(*earlier);
    }
    let names: Vec<&str> = path.iter().chain(path.first()).map(|service| service.name).collect();
    names.join(" before ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn service(
        name: &'static str,
        runs_before: &'static [&'static str],
        runs_after: &'static [&'static str],
    ) -> Service {
        Service { name, help: "", runs_before, runs_after }
    }

    #[test]
    fn a_chain_is_in_declared_order_however_it_is_named() {
        let order = Order::resolve(&[
            service("nat", &[], &["tcp-check", "acl"]),
            service("acl", &[], &["gone"]),
            service("tcp-check", &["acl"], &[]),
        ])
        .unwrap();
        let chain = order.chain(["nat", "tcp-check", "acl"]).unwrap();
        assert_eq!(order.names(chain).collect::<Vec<_>>(), ["tcp-check", "acl", "nat"]);
        assert_eq!(chain, Chain(0b111));
        assert_eq!(order.names(order.chain(["nat"]).unwrap()).collect::<Vec<_>>(), ["nat"]);
        let unknown = order.chain(["nat", "ips"]).unwrap_err();
        assert_eq!(unknown.to_string(), "there is no service \"ips\"");
        assert_eq!(order.chain(["nat", "nat"]).unwrap_err(), ServiceError::Twice("nat".into()));
    }

    #[test]
    fn a_cycle_is_named() {
        let services = [
            service("a", &["b"], &[]),
            service("b", &["c"], &[]),
            service("c", &["a"], &[]),
            service("d", &[], &[]),
        ];
        let error = Order::resolve(&services).unwrap_err().to_string();
        assert_eq!(error, "services come before each other: b before c before a before b");
    }
}
