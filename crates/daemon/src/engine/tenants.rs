//! Tenants: their numbers, and what workers see of them.

use std::sync::Arc;

use features::session::acl::control::Filters;
use features::session::tenants::ticks_of_seconds;
use features::session::{self, Class, Place, Tenants};

use super::core::Core;
use super::directory::{Inventory, Tenant};
use super::{nat, policers, redirects};
use crate::dataplane::Change;
use crate::model::spec::{ClassSpec, TenantSpec};
use crate::model::{Flaw, Name};

impl Core {
    /// A tenant comes, changes or goes.
    pub(super) fn tenant(&mut self, change: &Change<TenantSpec>) -> Result<(), Flaw> {
        match (&change.before, &change.after) {
            (_, Some(after)) => {
                let inventory = self.directory.get();
                // One that a batch has taken away comes back when the batch is taken back.
                let departed = self.departed_tenants.remove(&after.name);
                let before = inventory.tenants.get(&after.name).or(departed.as_ref());
                let index = match before {
                    Some(tenant) => tenant.index,
                    None => {
                        // Numbers are used again as late as can be: by then the sessions of whoever had it are gone.
                        let used =
                            |index: &u16| inventory.tenants.values().any(|tenant| tenant.index == *index);
                        let later =
                            (self.last_tenant.saturating_add(1)..=u16::MAX).chain(1..=self.last_tenant);
                        let index = later.filter(|index| *index > 0).find(|index| !used(index));
                        let index =
                            index.ok_or_else(|| Flaw::new("name", "there are 65535 tenants already"))?;
                        self.last_tenant = index;
                        index
                    }
                };
                let occupancy = before.map(|tenant| Arc::clone(&tenant.occupancy)).unwrap_or_default();
                let engine = before.and_then(|tenant| redirects::kept(tenant, after)).unwrap_or_default();
                let seen = before.and_then(|tenant| tenant.seen.clone());
                let tenant = Tenant { index, spec: Arc::clone(after), occupancy, engine, seen };
                drop(inventory);
                self.directory.change(|inventory| {
                    let names = Arc::make_mut(&mut inventory.tenant_names);
                    names.insert(index, after.name.to_string().into());
                    inventory.tenants.insert(after.name.clone(), tenant)
                });
            }
            (Some(before), None) => {
                let gone = self.directory.change(|inventory| inventory.tenants.remove(&before.name));
                self.departed_tenants.extend(gone.map(|tenant| (before.name.clone(), tenant)));
            }
            (None, None) => {}
        }
        self.tenants_changed = true;
        self.interfaces_changed = true;
        Ok(())
    }

    /// Workers are about to see all tenants as they are: those that have become others since are by another policy from now on.
    pub(super) fn take_tenants(&mut self) {
        if !std::mem::take(&mut self.tenants_changed) {
            return;
        }
        self.tenant_changes += 1;
        let now = self.tenant_changes;
        self.directory.change(|inventory| {
            for tenant in inventory.tenants.values_mut() {
                // One that a batch has changed and changed back is what it was.
                let before = tenant.seen.as_ref().filter(|(spec, _)| spec.is_same_policy(&tenant.spec));
                let since = before.map_or(now, |(_, since)| *since);
                tenant.seen = Some((Arc::clone(&tenant.spec), since));
            }
        });
    }

    /// A step of a batch that changes what workers know of sessions. They see none of it before the batch is complete: what is referred to may come
    /// in a later step than what refers to it, and a number may be given to another.
    pub(super) fn of_batch(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<(), Flaw>,
    ) -> Result<(), Flaw> {
        change(self)?;
        self.in_batch = true;
        Ok(())
    }

    /// Makes VIPs and lists visible to the workers, at once. What tenants refer to is there already, or comes with them.
    pub(super) fn publish_sessions(&mut self) {
        self.take_vips();
        self.take_filters();
        let mut draft = self.publisher.draft();
        let inventory = self.directory.get();
        draft.change(self.keys.tenants, |tenants| {
            self.compile_sessions(tenants);
            for tenant in inventory.tenants.values() {
                if let Some((_, policy)) = tenant.seen {
                    tenants.set_policy(tenant.index, policy);
                }
            }
        });
        self.publisher.publish(draft);
    }

    /// VIPs and lists as workers see them.
    fn compile_sessions(&self, tenants: &mut Tenants) {
        tenants.generation = self.tenant_changes;
        tenants.vips = self.balancer.vips().clone();
        tenants.acls = self.filters.acls().clone();
    }

    /// The tenants as workers see them.
    pub(super) fn compile_tenants(&self, inventory: &Inventory, tenants: &mut Tenants) {
        self.compile_sessions(tenants);
        tenants.workers = self.pool.workers().len() as u32;
        tenants.per_worker = self.sessions_per_worker;
        compile(inventory, tenants, &self.filters);
        tenants.apportion();
    }
}

/// All tenants, and whose packets each interface's are.
fn compile(inventory: &Inventory, tenants: &mut Tenants, filters: &Filters) {
    tenants.clear();
    for tenant in inventory.tenants.values() {
        let spec = &tenant.spec;
        let index = |name: &Name| inventory.registry.index(name);
        let indices = |names: &[Name]| {
            let mut indices: Vec<_> = names.iter().filter_map(index).collect();
            indices.sort_unstable();
            indices
        };
        let pool = spec.nat_pool.as_ref().and_then(|name| inventory.nat_pools.get(name));
        let nat = pool.map(|pool| Arc::new(nat::compile(pool)));
        if let Some(pool) = &nat {
            tenants.mapped.add(spec.context, tenant.index, pool);
        }
        let class = |class: &ClassSpec| {
            let acl = filters.numbers([&*class.acl]).first().copied()?;
            Some(Class { acl, tenant: inventory.tenants.get(&class.tenant)?.index })
        };
        let compiled = session::Tenant {
            name: spec.name.to_string().into(),
            timeouts: spec.timeouts.map(ticks_of_seconds),
            max_sessions: spec.max_sessions.into(),
            max_new_per_second: spec.max_new_per_second,
            source_limit: spec.source_limit(),
            early_syn_drop: spec.early_syn_drop,
            parser: spec.parser_number(),
            scope: spec.scope,
            policy: tenant.seen.as_ref().map_or(tenants.generation, |(_, policy)| *policy),
            chain: spec.chain,
            slow_path: spec.slow_path,
            midstream: spec.midstream,
            classes: spec.classes.iter().filter_map(class).collect(),
            outside: indices(&spec.outside_interfaces),
            uncounted: indices(&spec.uncounted),
            nat,
            acls: filters.numbers(spec.acls.iter().map(|name| &**name)),
            keep_sessions: spec.keep_sessions,
            policers: policers::of_tenant(inventory, spec),
            redirect: redirects::of_tenant(inventory, tenant),
            occupancy: Arc::clone(&tenant.occupancy),
        };
        if let Some(redirect) = &compiled.redirect {
            tenants.engines.add((tenant.index, spec.context), redirect);
        }
        tenants.set(tenant.index, Some(compiled));
        let (context, parser) = (spec.context, spec.parser_number());
        for index in spec.outside_interfaces.iter().filter_map(|name| inventory.registry.index(name)) {
            // One tenant's outside may be another's inside.
            let tenant = tenants.place(index).map_or(0, |place| place.tenant);
            tenants.set_place(index, Place { tenant, context, parser });
        }
        for index in spec.interfaces.iter().filter_map(|name| inventory.registry.index(name)) {
            tenants.set_place(index, Place { tenant: tenant.index, context, parser });
        }
    }
}
