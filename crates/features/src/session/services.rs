//! Services, and the order in which a session's packets pass them.
//!
//! A service is a node and a place on the arc `session-services`: what it runs before and after is declared as for any feature, and
//! resolved once, scope by scope. A chain is a bitmap whose lowest bit is the first service.

use super::explain::{Meeting, Meets};
pub use super::order::Order;
use super::scopes::MAX_SCOPES;
pub use super::scopes::{DEFAULT_SCOPE, Scopes};
use graph::NodeSpec;

/// The arc whose features the services are.
pub const SERVICES_ARC: &str = "session-services";

/// Follows sessions whose answers go past us.
pub(super) const ONE_SIDED: &str = "l4-one-sided";

/// Says where their packets go.
pub(super) const DIRECT_RETURN: &str = "direct-return";

/// Services that no tenant names: another one puts them on the chains of some sessions.
pub(super) const IMPLIED: [&str; 2] = [ONE_SIDED, DIRECT_RETURN];

/// Services that a chain can have, and so a [scope](Scopes): the last bit of the bitmap says that packets are dropped.
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
    /// Scopes that it is of: those of tenants that may name it.
    pub scopes: Scopes,
    /// Whether it can do its work for sessions that a [parser](super::parser::Parser) finds: it needs neither addresses nor ports of them.
    pub any_key: bool,
    /// Whether what it decides about a session depends on more than the session's tenant (rules, VIPs, pools): it sees sessions again that it has left when any of
    /// that changes, and not only when their tenant does.
    pub asked_again: bool,
    /// What it would do with a packet. It changes nothing, and says what it looks at.
    pub explain: fn(&mut Meeting<'_>) -> Meets,
}

impl Service {
    /// A declaration of nothing, to fill by struct update: a service of the default scope that needs addresses and ports.
    pub const EMPTY: Self = Self {
        node: NodeSpec::EMPTY,
        both_ways: false,
        errors: false,
        scopes: Scopes::DEFAULT,
        any_key: false,
        asked_again: false,
        explain: |_| Meets::Passes,
    };
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

    /// It with all of `others`, too.
    #[must_use]
    pub const fn with_all(self, others: Self) -> Self {
        Self(self.0 | others.0)
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
    #[error("services of scope {scope:?}: {cycle}")]
    Cycle {
        /// Where they are; several scopes, where each of them alone could be ordered.
        scope: String,
        /// Who comes before whom.
        cycle: String,
    },
    /// There is no such scope.
    #[error("there is no scope {0:?}")]
    NoScope(String),
    /// There is such a service, in other scopes.
    #[error("service {name:?} is of scope {its}, and not of {scope}")]
    OtherScope {
        /// What was asked for.
        name: String,
        /// Scopes that it is of.
        its: String,
        /// The one that was asked.
        scope: String,
        /// Services that are of that one.
        known: String,
    },
    /// A service is of no scope, or of one without a name.
    #[error("service {0:?} is of no scope, or of one without a name")]
    Unscoped(&'static str),
    /// More scopes than can be told apart.
    #[error("there are {0} scopes, and {MAX_SCOPES} at most can be told apart")]
    TooManyScopes(usize),
    /// Services of several scopes have one bit in all of them, and too many come before this one in some of these.
    #[error(
        "service {0:?} comes behind more than {MAX_SERVICES} others, in one scope or another: services of several scopes have one place in all of them"
    )]
    TooFar(&'static str),
    /// More services than nodes have edges for.
    #[error("there are {0} services in all scopes together, and {1} at most can be told apart")]
    TooManyInAll(usize, usize),
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
    #[error("scope {0:?} has {1} services, and {MAX_SERVICES} at most can be told apart")]
    TooMany(&'static str, usize),
}

#[cfg(test)]
mod tests {
    use super::*;

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
