//! What concerns sessions: tenants and their pools, VIPs, lists of rules and endpoints.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use features::session::balance::control::{BackendConfig, VipConfig};
use features::session::nat::PrefixPair;
use features::session::parser::Parser;

use super::Conflicts;
use crate::model::spec::{Ipv4Span, TenantSpec};
use crate::model::{Flaw, Key, Name};

impl Conflicts<'_> {
    /// An interface is one tenant's, and its packets belong to one address space and are told apart in one way.
    pub(super) fn tenants(&mut self) {
        let mut owners = BTreeMap::<&Name, &Name>::new();
        let mut contexts = BTreeMap::<&Name, (&Name, u16)>::new();
        let mut parsers = BTreeMap::<&Name, (&Name, Option<&Parser>)>::new();
        for (name, stored) in &self.model.tenants {
            for interface in &stored.spec.interfaces {
                if let Some(other) = owners.insert(interface, name) {
                    self.blame(Key::Tenant(name.clone()), Key::Tenant(other.clone()), |other| {
                        Flaw::new("interfaces", format!("interface {interface} is already {other}'s"))
                            .remedy("leave it out here or there")
                    });
                }
            }
            let context = stored.spec.context;
            for interface in stored.spec.all_interfaces() {
                let (other, first) = *contexts.entry(interface).or_insert((name, context));
                if first != context {
                    self.blame(Key::Tenant(name.clone()), Key::Tenant(other.clone()), |other| {
                        let what = format!("{other} has interface {interface} in another context");
                        Flaw::new("context", what)
                            .remedy("give tenants that share an interface the same context")
                    });
                }
                let (other, first) = *parsers.entry(interface).or_insert((name, stored.spec.parser));
                if first != stored.spec.parser {
                    self.blame(Key::Tenant(name.clone()), Key::Tenant(other.clone()), |other| {
                        let what =
                            format!("{other} has interface {interface} with another parser, or without");
                        Flaw::new("parser", what)
                            .remedy("give tenants that share an interface the same parser, or none")
                    });
                }
            }
        }
    }

    /// Whose a tenant's classes are is there, in the same address space, and has none itself: nobody would ask them.
    pub(super) fn classes(&mut self) {
        for (name, stored) in &self.model.tenants {
            for (index, class) in stored.spec.classes.iter().enumerate() {
                let (user, other) = (Key::Tenant(name.clone()), Key::Tenant(class.tenant.clone()));
                let field = format!("classes[{index}].tenant");
                let Some(its) = self.model.tenants.get(&class.tenant) else {
                    self.blame(user, other.clone(), |to| refers(&field, to, *to == other));
                    continue;
                };
                if its.spec.context != stored.spec.context {
                    self.blame(user, other, |to| {
                        Flaw::new(
                            "context",
                            format!("{to} has another context, and sessions of one can be the other's"),
                        )
                        .remedy("give both tenants of a class the same context")
                    });
                } else if !its.spec.classes.is_empty() {
                    let classes = Key::Tenant(name.clone());
                    self.blame(user, other, |to| match *to == classes {
                        true => Flaw::new(
                            "classes",
                            format!("{to} has this tenant as a class, whose own classes nobody asks"),
                        )
                        .remedy("add them to that one's"),
                        false => {
                            Flaw::new(&*field, format!("{to} has classes of its own, which nobody would ask"))
                                .remedy("add them to this tenant's")
                        }
                    });
                }
            }
        }
    }

    /// An address is one pool's, and a pool's packets belong to one address space.
    pub(super) fn nat_pools(&mut self) {
        let mut pools = self.model.nat_pools.keys();
        // What was there before has been compared.
        if pools.any(|name| self.batch.contains(&Key::NatPool(name.clone()))) {
            self.addresses_of_pools();
            self.prefixes_of_pools();
        }
        let mut owners = BTreeMap::new();
        for (name, stored) in &self.model.tenants {
            let pool = stored.spec.nat_pool.as_ref().and_then(|pool| self.model.nat_pools.get(pool));
            let maps = pool.filter(|pool| !(pool.spec.mappings.is_empty() && pool.spec.prefixes.is_empty()));
            if let Some((pool, other)) =
                maps.and_then(|pool| Some((pool, owners.insert(&pool.spec.name, name)?)))
            {
                self.blame(Key::Tenant(name.clone()), Key::Tenant(other.clone()), |other| {
                    let what =
                        format!("{} has mappings or prefixes, and {other} has it already", pool.spec.name);
                    Flaw::new("nat_pool", what).remedy("give each tenant that maps hosts a pool of its own")
                });
            }
        }
        for (name, stored) in &self.model.tenants {
            let pool = stored.spec.nat_pool.as_ref().and_then(|pool| self.model.nat_pools.get(pool));
            let Some(pool) = pool.filter(|pool| pool.spec.context != stored.spec.context) else { continue };
            self.blame(Key::Tenant(name.clone()), Key::NatPool(pool.spec.name.clone()), |other| {
                Flaw::new("context", format!("{other} has another context, and they belong together"))
                    .remedy("give a pool and the tenants that use it the same context")
            });
        }
    }

    /// No two pools of an address space have an address in common.
    fn addresses_of_pools(&mut self) {
        let mut spans: Vec<(u16, Ipv4Span, &Name)> = Vec::new();
        for (name, stored) in &self.model.nat_pools {
            let all = stored.spec.all_addresses();
            spans.extend(all.into_iter().map(|span| (stored.spec.context, span, name)));
        }
        spans.sort_unstable();
        // The one that reaches furthest: whoever begins in it is another pool's, since a pool has no address twice.
        let mut furthest: Option<(u16, Ipv4Span, &Name)> = None;
        for one in spans {
            let (context, span, name) = one;
            let before = furthest.filter(|(its, before, _)| *its == context && before.last >= span.first);
            if let Some((_, earlier, other)) = before {
                self.blame(Key::NatPool(name.clone()), Key::NatPool(other.clone()), |other| {
                    let what = format!("{span} and {earlier} overlap, of which one is {other}'s");
                    Flaw::new("addresses", what).remedy("give each address to one pool")
                });
            }
            if before.is_none_or(|(_, before, _)| before.last < span.last) {
                furthest = Some(one);
            }
        }
    }

    /// Nor a prefix of IPv6.
    fn prefixes_of_pools(&mut self) {
        let specs = self.model.nat_pools.values().map(|stored| &*stored.spec);
        let pools: Vec<_> = specs.filter(|spec| !spec.prefixes.is_empty()).collect();
        for (at, spec) in pools.iter().enumerate() {
            for before in pools[..at].iter().filter(|before| before.context == spec.context) {
                let overlap = |pair: &&PrefixPair| before.prefixes.iter().any(|one| one.overlaps(**pair));
                let Some(pair) = spec.prefixes.iter().find(overlap) else { continue };
                self.blame(Key::NatPool(spec.name.clone()), Key::NatPool(before.name.clone()), |other| {
                    let prefix = |bits: u128| format!("{}/{}", Ipv6Addr::from_bits(bits), pair.len);
                    let (inside, outside) = (prefix(pair.inside), prefix(pair.outside));
                    Flaw::new("prefixes", format!("{inside} or {outside} overlaps a prefix of {other}"))
                        .remedy("give each prefix to one pool")
                });
            }
        }
    }

    /// Clients ask one VIP at a place, and neither Quiver itself nor another VIP answers for it.
    pub(super) fn vips(&mut self) {
        type Place = (u16, u8, (IpAddr, u16));
        if self.model.vips.is_empty() {
            return;
        }
        let place = |config: &VipConfig, endpoint| -> Place { (config.context, config.protocol, endpoint) };
        let mut places = HashMap::<Place, &Name>::new();
        for (name, stored) in &self.model.vips {
            let config = &stored.spec.config;
            if let Some(other) = places.insert(place(config, config.endpoint), name) {
                let (address, port) = config.endpoint;
                self.blame(Key::Vip(name.clone()), Key::Vip(other.clone()), |other| {
                    Flaw::new("address", format!("{address} port {port} is {other}'s already"))
                        .remedy("take another address, port or protocol, or give that one these backends")
                });
            }
        }
        for (name, stored) in &self.model.vips {
            let config = &stored.spec.config;
            let other = |backend: &BackendConfig| places.get(&place(config, backend.endpoint));
            let Some((index, other)) =
                config.backends.iter().enumerate().find_map(|(at, one)| Some((at, *other(one)?)))
            else {
                continue;
            };
            let asked = Key::Vip(other.clone());
            self.blame(Key::Vip(name.clone()), asked.clone(), |other| match *other == asked {
                true => {
                    Flaw::new(format!("backends[{index}].address"), format!("that is where {other} is asked"))
                        .remedy("name those who answer for it")
                }
                false => Flaw::new("address", format!("it is a backend of {other}"))
                    .remedy("take another address, port or protocol"),
            });
        }
        let addresses: BTreeMap<IpAddr, Vec<(&Name, u16)>> =
            self.model.vips.iter().fold(BTreeMap::new(), |mut all, (name, stored)| {
                let config = &stored.spec.config;
                all.entry(config.endpoint.0).or_insert_with(Vec::new).push((name, config.context));
                all
            });
        for interface in self.interfaces() {
            let owns = interface.addresses.iter().filter_map(|own| addresses.get(&own.addr()));
            for (name, context) in owns.flatten() {
                let tenants = || self.model.tenants.values().map(|stored| &stored.spec);
                let its =
                    |tenant: &&Arc<TenantSpec>| tenant.all_interfaces().any(|one| *one == interface.name);
                // One that is in other address spaces alone has nothing to do with it.
                let elsewhere = tenants().any(|tenant| its(&tenant) && tenant.context != *context)
                    && !tenants().any(|tenant| its(&tenant) && tenant.context == *context);
                if elsewhere {
                    continue;
                }
                let vip = Key::Vip((*name).clone());
                let text = vip.to_string();
                self.blame(vip, Key::Interface(interface.name.clone()), |other| match other {
                    Key::Vip(_) => Flaw::new("addresses", format!("one of them is that of {text}"))
                        .remedy("take another one, or another one for the VIP"),
                    _ => Flaw::new("address", format!("it is an own address of {other}"))
                        .remedy("take an address that no interface has"),
                });
            }
        }
    }

    /// Sets that rules name are there.
    pub(super) fn address_sets(&mut self) {
        for (name, stored) in &self.model.acls {
            let there = |set: &str| self.model.address_sets.contains_key(set);
            let Some(missing) = stored.spec.sets.iter().find(|used| !there(&used.name)) else { continue };
            let Ok(set) = Name::new(&missing.name) else { continue };
            let at = format!("rules[{}].{}", missing.rule, missing.field);
            let set = Key::AddressSet(set);
            self.blame(Key::Acl(name.clone()), set.clone(), |other| refers(&at, other, *other == set));
        }
    }

    /// Lists that tenants and endpoints name are there.
    pub(super) fn acls(&mut self) {
        let mut missing = Vec::new();
        // `field`: where the list is named, with an empty place for its number.
        let mut look = |user: &dyn Fn() -> Key, field: &str, lists: &[Arc<str>]| {
            let absent =
                lists.iter().enumerate().find(|(_, list)| !self.model.acls.contains_key::<str>(list));
            if let Some((index, list)) = absent {
                missing.push((user(), field.replace("[]", &format!("[{index}]")), Arc::clone(list)));
            }
        };
        for (name, stored) in &self.model.tenants {
            look(&|| Key::Tenant(name.clone()), "acls[]", &stored.spec.acls);
            let classes: Vec<Arc<str>> =
                stored.spec.classes.iter().map(|class| class.acl.to_string().into()).collect();
            look(&|| Key::Tenant(name.clone()), "classes[].acl", &classes);
        }
        for (name, stored) in &self.model.endpoints {
            look(&|| Key::Endpoint(name.clone()), "ingress_acls[]", &stored.spec.config.ingress);
            look(&|| Key::Endpoint(name.clone()), "egress_acls[]", &stored.spec.config.egress);
        }
        for (user, field, list) in missing {
            let Ok(list) = Name::new(&list) else { continue };
            let list = Key::Acl(list);
            self.blame(user, list.clone(), |other| refers(&field, other, *other == list));
        }
    }

    /// An address is one endpoint's.
    pub(super) fn endpoints(&mut self) {
        let mut owners = HashMap::<(u16, IpAddr), &Name>::new();
        for (name, stored) in &self.model.endpoints {
            let config = &stored.spec.config;
            for address in &config.addresses {
                if let Some(other) = owners.insert((config.context, *address), name) {
                    self.blame(Key::Endpoint(name.clone()), Key::Endpoint(other.clone()), |other| {
                        Flaw::new("addresses", format!("{address} is already {other}'s"))
                            .remedy("give each address to one endpoint, or take another context")
                    });
                }
            }
        }
    }
}

/// What is wrong where an object refers in a field to one that isn't there, or goes: `other` is that one (`missing`), or whoever refers to it.
pub(super) fn refers(field: &str, other: &Key, missing: bool) -> Flaw {
    if missing {
        return Flaw::new(field, format!("there is no {other}"))
            .remedy("add it in the same batch, or leave it out here");
    }
    Flaw::new("", format!("{other} refers to it")).remedy("change that one in the same batch")
}
