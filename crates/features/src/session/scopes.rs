//! Scopes: named sets of services that are ordered among themselves, and share the one table of sessions.
//!
//! A tenant has one scope, and its sessions pass services of that one only. So each scope has all bits of a chain for itself, and the same bit stands for one service
//! here and for another there. A service of several scopes has one bit in all of them, so that who asks whether it is on a chain needn't know of scopes.

use super::services::{MAX_SERVICES, ServiceError};

/// The scope of services, and of tenants, that name none.
pub const DEFAULT_SCOPE: &str = "default";

/// Scopes that there can be.
pub const MAX_SCOPES: usize = 64;

/// Services of all scopes together that there can be: nodes have an edge to each, and 255 in all.
const MAX_ALL: usize = 150;

/// Scopes that a service is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scopes {
    /// Every scope that there is: it fits anywhere.
    All,
    /// Those of these names. A name that nobody else has opens a scope.
    Of(&'static [&'static str]),
}

impl Scopes {
    /// The default one.
    pub const DEFAULT: Self = Self::Of(&[DEFAULT_SCOPE]);

    /// Whether it is of the scope of that name.
    #[must_use]
    pub fn has(self, scope: &str) -> bool {
        self == Self::All || self.names().contains(&scope)
    }

    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::All => &[],
            Self::Of(names) => names,
        }
    }
}

/// Which services are of which scopes, and their bits.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// Names of scopes, the default one first.
    scopes: Vec<&'static str>,
    /// By service, in their order: bit `n` is scope `n`.
    masks: Vec<u64>,
    /// By service, likewise: its bit in chains.
    numbers: Vec<u8>,
}

impl Layout {
    /// That of services that are of these scopes, in the order in which packets pass them.
    ///
    /// # Errors
    /// [`ServiceError::Unscoped`], [`ServiceError::TooManyScopes`], [`ServiceError::TooMany`], [`ServiceError::TooFar`] or [`ServiceError::TooManyInAll`].
    pub(super) fn new(services: &[(&'static str, Scopes)]) -> Result<Self, ServiceError> {
        let scopes = names(services.iter().map(|(_, scopes)| *scopes));
        if scopes.len() > MAX_SCOPES {
            return Err(ServiceError::TooManyScopes(scopes.len()));
        }
        let mut masks = Vec::with_capacity(services.len());
        for (name, its) in services {
            let bits = scopes.iter().enumerate().filter(|(_, scope)| its.has(scope));
            let mask = bits.fold(0_u64, |mask, (at, _)| mask | 1 << at);
            if mask == 0 || its.names().contains(&"") {
                return Err(ServiceError::Unscoped(name));
            }
            masks.push(mask);
        }
        for (at, scope) in scopes.iter().enumerate() {
            let count = masks.iter().filter(|mask| *mask >> at & 1 != 0).count();
            if count > MAX_SERVICES {
                return Err(ServiceError::TooMany(scope, count));
            }
        }
        if services.len() > MAX_ALL {
            return Err(ServiceError::TooManyInAll(services.len(), MAX_ALL));
        }
        let mut numbers: Vec<u8> = Vec::with_capacity(services.len());
        for (at, (name, _)) in services.iter().enumerate() {
            // Behind all that it can be on a chain with.
            let before = numbers.iter().zip(&masks).filter(|(_, mask)| *mask & masks[at] != 0);
            let number = before.map(|(number, _)| number + 1).max().unwrap_or(0);
            if usize::from(number) >= MAX_SERVICES {
                return Err(ServiceError::TooFar(name));
            }
            numbers.push(number);
        }
        Ok(Self { scopes, masks, numbers })
    }

    /// Names of all scopes, by number, the default one first.
    pub(super) fn scopes(&self) -> &[&'static str] {
        &self.scopes
    }

    /// The scopes of the service at a place of the order: bit `n` is scope `n`.
    pub(super) fn mask(&self, at: usize) -> u64 {
        self.masks.get(at).copied().unwrap_or_default()
    }

    /// Its bit in chains.
    pub(super) fn number(&self, at: usize) -> Option<u8> {
        self.numbers.get(at).copied()
    }

    /// Places of a scope's services, and their bits.
    pub(super) fn of(&self, scope: u8) -> impl Iterator<Item = (usize, u8)> + '_ {
        let all = self.masks.iter().zip(&self.numbers).enumerate();
        all.filter(move |(_, (mask, _))| *mask >> scope & 1 != 0).map(|(at, (_, number))| (at, *number))
    }
}

/// Names of scopes, the default one first, and the others by name.
pub(super) fn names(all: impl Iterator<Item = Scopes>) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = all.flat_map(Scopes::names).copied().collect();
    names.push(DEFAULT_SCOPE);
    names.sort_unstable_by_key(|name| (*name != DEFAULT_SCOPE, *name));
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOBILE: Scopes = Scopes::Of(&["mobile"]);
    const BOTH: Scopes = Scopes::Of(&["mobile", DEFAULT_SCOPE]);

    #[test]
    fn a_bit_stands_for_one_service_here_and_for_another_there() {
        let services = [
            ("every", Scopes::All),
            ("here", Scopes::DEFAULT),
            ("here too", Scopes::DEFAULT),
            ("there", MOBILE),
            ("both", BOTH),
            ("third", Scopes::Of(&["lab"])),
        ];
        let layout = Layout::new(&services).unwrap();
        assert_eq!(layout.scopes(), [DEFAULT_SCOPE, "lab", "mobile"]);
        assert_eq!(layout.numbers, [0, 1, 2, 1, 3, 1]);
        assert_eq!(layout.of(0).collect::<Vec<_>>(), [(0, 0), (1, 1), (2, 2), (4, 3)]);
        assert_eq!(layout.of(1).collect::<Vec<_>>(), [(0, 0), (5, 1)]);
        assert_eq!(layout.of(2).collect::<Vec<_>>(), [(0, 0), (3, 1), (4, 3)]);
    }

    #[test]
    fn a_scope_has_as_many_services_as_there_are_bits_and_all_together_more() {
        let many = |here: usize, there: usize| {
            let here = core::iter::repeat_n(("here", Scopes::DEFAULT), here);
            Layout::new(&here.chain(core::iter::repeat_n(("there", MOBILE), there)).collect::<Vec<_>>())
        };
        let both = many(MAX_SERVICES, MAX_SERVICES).unwrap();
        assert_eq!((both.numbers[62], both.numbers[63], both.numbers[125]), (62, 0, 62));
        assert_eq!(many(MAX_SERVICES + 1, 0).unwrap_err(), ServiceError::TooMany(DEFAULT_SCOPE, 64));
        assert_eq!(many(3, MAX_SERVICES + 1).unwrap_err(), ServiceError::TooMany("mobile", 64));
        assert!(matches!(Layout::new(&[("x", Scopes::Of(&[]))]), Err(ServiceError::Unscoped("x"))));
        assert!(matches!(Layout::new(&[("x", Scopes::Of(&[""]))]), Err(ServiceError::Unscoped("x"))));
        // One that is of both comes behind 40 here, and before 40 there.
        let mut apart = vec![("here", Scopes::DEFAULT); 40];
        apart.push(("every", Scopes::All));
        apart.extend([("there", MOBILE); 40]);
        assert_eq!(Layout::new(&apart).unwrap_err(), ServiceError::TooFar("there"));
    }
}
