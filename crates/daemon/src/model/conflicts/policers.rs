//! Policers and those that they meter.

use super::Conflicts;
use super::sessions::refers;
use crate::model::{Flaw, Key};

impl Conflicts<'_> {
    /// Who is metered names a policer that is there: without one, all that comes would pass. And an interface has no sessions.
    pub(super) fn policers(&mut self) {
        let tenants = self.model.tenants.iter().flat_map(|(name, stored)| {
            let named = ["forward_policer", "reverse_policer"].into_iter().zip(&stored.spec.policers);
            named.filter_map(|(field, policer)| Some((Key::Tenant(name.clone()), field, policer.as_ref()?)))
        });
        let interfaces = self.model.interfaces.iter().filter_map(|(name, stored)| {
            Some((Key::Interface(name.clone()), "policer", stored.spec.policer.as_ref()?))
        });
        for (user, field, name) in tenants.chain(interfaces) {
            let key = Key::Policer(name.clone());
            match self.model.policers.get(name) {
                Some(policer) if policer.spec.per_session && matches!(user, Key::Interface(_)) => {
                    let what = format!("{key} meters each session for itself, and {user} has none");
                    self.blame(user, key.clone(), |other| {
                        let field = if *other == key { field } else { "per_session" };
                        Flaw::new(field, what.clone()).remedy("take another policer for interfaces")
                    });
                }
                Some(_) => {}
                None => self.blame(user, key.clone(), |other| refers(field, other, *other == key)),
            }
        }
    }
}
