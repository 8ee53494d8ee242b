//! The control side: lists, sets and endpoints by name, and what of all that workers see.

use super::lists::{Acl, Acls, Action, Bound, host};
use core::cmp::Ordering;
use core::net::IpAddr;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tables::classifier::{ANY, Flags, PortRange, Prefix, Rule, Rules, Term};

/// Addresses of one side of a rule: those of prefixes but for some, and those of sets. None at all: all addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Side {
    /// Prefixes, ascending, none twice.
    pub prefixes: Vec<Prefix>,
    /// Prefixes whose addresses are none of these, likewise. They take nothing from sets.
    pub except: Vec<Prefix>,
    /// Names of sets, likewise.
    pub sets: Vec<Arc<str>>,
}

/// A rule as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RuleConfig {
    /// Its name; empty: none.
    pub name: Box<str>,
    /// Anything.
    pub remark: Box<str>,
    /// What becomes of sessions that meet it; `None`: the next list says.
    pub action: Option<Action>,
    /// Who begins.
    pub sources: Side,
    /// To whom.
    pub destinations: Side,
    /// IP protocol; `None`: all.
    pub protocol: Option<u8>,
    /// Ports of the source; none: all.
    pub source_ports: Vec<PortRange>,
    /// Ports of the destination, likewise.
    pub destination_ports: Vec<PortRange>,
    /// TCP flags of the first segment.
    pub flags: Flags,
    /// Type of ICMP messages, and code.
    pub icmp: Option<(u8, Option<u8>)>,
}

/// A list as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclConfig {
    /// The first that a session meets decides.
    pub rules: Vec<RuleConfig>,
    /// What becomes of sessions that meet none; `None`: the next list says.
    pub otherwise: Option<Action>,
}

/// Addresses whose sessions are asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointConfig {
    /// Address space.
    pub context: u16,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Names of lists for what is begun to them.
    pub ingress: Vec<Arc<str>>,
    /// Names of lists for what they begin.
    pub egress: Vec<Arc<str>>,
}

/// A list that workers know.
#[derive(Clone, Debug)]
pub struct Placed {
    /// As it was asked for.
    pub config: Arc<AclConfig>,
    /// As workers see it.
    pub acl: Arc<Acl>,
    /// Names of sets that its rules refer to, ascending.
    pub sets: Arc<[Arc<str>]>,
}

/// A name that others refer to: its number, and by how many.
#[derive(Debug)]
struct Named<T> {
    number: u32,
    users: u32,
    there: Option<T>,
}

/// Names and numbers: one has a number as long as it is there or somebody refers to it.
#[derive(Debug)]
struct Names<T> {
    named: HashMap<Arc<str>, Named<T>, RandomState>,
}

impl<T> Names<T> {
    fn use_it(&mut self, name: &Arc<str>, numbers: &mut Numbers) -> u32 {
        let named = self.named.entry(Arc::clone(name)).or_insert_with(|| Named {
            number: numbers.take(),
            users: 0,
            there: None,
        });
        named.users += 1;
        named.number
    }

    fn leave_it(&mut self, name: &str, numbers: &mut Numbers) {
        if let Some(named) = self.named.get_mut(name) {
            named.users -= 1;
            self.sweep(name, numbers);
        }
    }

    /// What is there of that name from now on: its number, and what was there.
    fn put(&mut self, name: &Arc<str>, there: Option<T>, numbers: &mut Numbers) -> (u32, Option<T>) {
        let number = self.use_it(name, numbers);
        let before = self.named.get_mut(name).and_then(|named| core::mem::replace(&mut named.there, there));
        self.leave_it(name, numbers);
        (number, before)
    }

    fn sweep(&mut self, name: &str, numbers: &mut Numbers) {
        if self.named.get(name).is_some_and(|named| named.users == 0 && named.there.is_none())
            && let Some(named) = self.named.remove(name)
        {
            numbers.free.push(named.number);
        }
    }
}

/// Prefixes and exceptions of a side.
type Ranges = (Vec<Prefix>, Vec<Prefix>);

/// A term, and how many sides of rules have it.
type Shared = (Term, u32);

/// Numbers that nobody has.
#[derive(Debug)]
struct Numbers {
    free: Vec<u32>,
    next: u32,
}

impl Numbers {
    const fn from(next: u32) -> Self {
        Self { free: Vec::new(), next }
    }

    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

/// What a publication has changed.
#[derive(Debug, Default)]
pub struct Changed {
    /// Lists that are others now, or gone.
    pub lists: BTreeMap<Arc<str>, Option<Placed>>,
    /// Names of sets that have other members now.
    pub sets: BTreeSet<Arc<str>>,
}

impl Changed {
    /// Whether a list has other rules now, or they have other addresses.
    #[must_use]
    pub fn touches(&self, name: &str, list: Option<&Placed>) -> bool {
        self.lists.contains_key(name)
            || list.is_some_and(|list| list.sets.iter().any(|set| self.sets.contains(set)))
    }
}

/// All lists, sets and endpoints, for their one writer.
#[derive(Debug)]
pub struct Filters {
    lists: Names<Placed>,
    list_numbers: Numbers,
    sets: Names<Arc<[Prefix]>>,
    /// Prefixes that rules name themselves: the same ones are one term, however many rules have them.
    sides: HashMap<Ranges, Shared, RandomState>,
    terms: Numbers,
    endpoints: HashMap<Arc<str>, Arc<EndpointConfig>, RandomState>,
    acls: Acls,
    changed: Changed,
    /// Lists that have gone since they were published: who comes back is counted on.
    departed: HashMap<Arc<str>, Placed, RandomState>,
    is_changed: bool,
}

impl Default for Filters {
    fn default() -> Self {
        Self {
            lists: Names { named: HashMap::default() },
            list_numbers: Numbers::from(0),
            sets: Names { named: HashMap::default() },
            sides: HashMap::default(),
            terms: Numbers::from(ANY + 1),
            endpoints: HashMap::default(),
            acls: Acls::default(),
            changed: Changed::default(),
            departed: HashMap::default(),
            is_changed: false,
        }
    }
}

impl Filters {
    /// Whether workers don't see everything yet.
    #[must_use]
    pub const fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// As workers are to see them.
    #[must_use]
    pub const fn acls(&self) -> &Acls {
        &self.acls
    }

    /// A list.
    #[must_use]
    pub fn placed(&self, name: &str) -> Option<Placed> {
        self.lists.named.get(name)?.there.clone()
    }

    /// The numbers of lists, in the order of their names; such as aren't there are left out.
    pub fn numbers<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Vec<u32> {
        let number = |name: &str| self.lists.named.get(name).map(|named| named.number);
        names.into_iter().filter_map(number).collect()
    }

    /// Workers are about to see what [`Filters::acls`] gives.
    pub fn publish(&mut self) -> Changed {
        self.is_changed = false;
        self.departed.clear();
        core::mem::take(&mut self.changed)
    }

    /// A list comes, changes or goes.
    pub fn set_acl(&mut self, name: &Arc<str>, config: Option<Arc<AclConfig>>) {
        self.is_changed = true;
        let before = self.lists.named.get(name).and_then(|named| named.there.clone());
        let counted = before.clone().or_else(|| self.departed.remove(name));
        let placed = config.map(|config| {
            let acl = self.compile(name, &config, counted.as_ref());
            Placed { acl: Arc::new(acl), sets: sets(&config.rules), config }
        });
        let (number, _) = self.lists.put(name, placed.clone(), &mut self.list_numbers);
        let lists = Arc::make_mut(&mut self.acls.lists);
        if lists.len() <= number as usize {
            lists.resize(number as usize + 1, None);
        }
        lists[number as usize] = placed.as_ref().map(|placed| Arc::clone(&placed.acl));
        if let Some(before) = before {
            // Not before the new one has taken what both refer to.
            for rule in &before.config.rules {
                self.leave(&rule.sources);
                self.leave(&rule.destinations);
            }
            if placed.is_none() {
                self.departed.insert(Arc::clone(name), before);
            }
        }
        self.changed.lists.insert(Arc::clone(name), placed);
    }

    /// A set of addresses comes, changes or goes. Its members are ascending, none twice.
    pub fn set_address_set(&mut self, name: &Arc<str>, members: Option<Arc<[Prefix]>>) {
        self.is_changed = true;
        // It isn't swept before its members are.
        let term = self.sets.use_it(name, &mut self.terms);
        let (_, before) = self.sets.put(name, members.clone(), &mut self.terms);
        let (before, after) = (before.unwrap_or_default(), members.unwrap_or_default());
        let prefixes = &mut self.acls.prefixes;
        let [gone, new] = differences(&before, &after);
        gone.into_iter().for_each(|member| prefixes.remove(member, term, true));
        new.into_iter().for_each(|member| prefixes.add(member, term, true));
        self.changed.sets.insert(Arc::clone(name));
        self.sets.leave_it(name, &mut self.terms);
    }

    /// An endpoint comes, changes or goes.
    pub fn set_endpoint(&mut self, name: &Arc<str>, config: Option<Arc<EndpointConfig>>) {
        self.is_changed = true;
        let before = match &config {
            Some(config) => self.endpoints.insert(Arc::clone(name), Arc::clone(config)),
            None => self.endpoints.remove(name),
        };
        let numbers = |lists: &mut Names<Placed>, free: &mut Numbers, names: &[Arc<str>]| {
            names.iter().map(|name| lists.use_it(name, free)).collect::<Vec<_>>()
        };
        let bound = config.as_ref().map(|config| {
            Arc::new(Bound {
                owner: Arc::clone(name),
                egress: numbers(&mut self.lists, &mut self.list_numbers, &config.egress),
                ingress: numbers(&mut self.lists, &mut self.list_numbers, &config.ingress),
            })
        });
        if let Some(before) = before {
            for list in before.egress.iter().chain(&before.ingress) {
                self.lists.leave_it(list, &mut self.list_numbers);
            }
            for address in &before.addresses {
                self.acls.endpoints.change(&host(before.context, *address), |there| {
                    // Another one may have it already.
                    if there.as_ref().is_some_and(|there| there.owner == *name) {
                        *there = None;
                    }
                });
            }
        }
        if let (Some(config), Some(bound)) = (config, bound) {
            for address in &config.addresses {
                let bound = Arc::clone(&bound);
                self.acls.endpoints.change(&host(config.context, *address), |there| *there = Some(bound));
            }
        }
    }

    fn compile(&mut self, name: &Arc<str>, config: &AclConfig, before: Option<&Placed>) -> Acl {
        let rules: Vec<Rule> = config
            .rules
            .iter()
            .map(|rule| Rule {
                sources: self.take(&rule.sources),
                destinations: self.take(&rule.destinations),
                protocol: rule.protocol,
                source_ports: rule.source_ports.clone(),
                ports: match rule.icmp {
                    Some((kind, Some(code))) => {
                        let one = u16::from_be_bytes([kind, code]);
                        vec![(one, one)]
                    }
                    Some((kind, None)) => {
                        vec![(u16::from_be_bytes([kind, 0]), u16::from_be_bytes([kind, u8::MAX]))]
                    }
                    None => rule.destination_ports.clone(),
                },
                flags: rule.flags,
            })
            .collect();
        Acl {
            name: Arc::clone(name),
            rules: Rules::new(&rules),
            actions: config.rules.iter().map(|rule| rule.action).collect(),
            hits: counters(&config.rules, before),
            asked: before.map(|before| Arc::clone(&before.acl.asked)).unwrap_or_default(),
            otherwise: config.otherwise,
        }
    }

    /// The terms of a side, which are there as long as it isn't [left](Self::leave).
    fn take(&mut self, side: &Side) -> Vec<Term> {
        if side.prefixes.is_empty() && side.sets.is_empty() {
            return vec![ANY];
        }
        let mut terms = Vec::with_capacity(1 + side.sets.len());
        if !side.prefixes.is_empty() {
            let key = (side.prefixes.clone(), side.except.clone());
            let (term, users) = self.sides.entry(key).or_insert_with(|| (self.terms.take(), 0));
            *users += 1;
            terms.push(*term);
            if *users == 1 {
                let term = *term;
                entries(side).for_each(|(prefix, inside)| self.acls.prefixes.add(prefix, term, inside));
            }
        }
        terms.extend(side.sets.iter().map(|set| self.sets.use_it(set, &mut self.terms)));
        terms
    }

    fn leave(&mut self, side: &Side) {
        for set in &side.sets {
            self.sets.leave_it(set, &mut self.terms);
        }
        let key = (side.prefixes.clone(), side.except.clone());
        if let Some((term, users)) = self.sides.get_mut(&key) {
            *users -= 1;
            if *users == 0 {
                let term = *term;
                self.sides.remove(&key);
                entries(side).for_each(|(prefix, inside)| self.acls.prefixes.remove(prefix, term, inside));
                self.terms.free.push(term);
            }
        }
    }
}

/// Names of sets that rules refer to, ascending.
fn sets(rules: &[RuleConfig]) -> Arc<[Arc<str>]> {
    let named = rules.iter().flat_map(|rule| rule.sources.sets.iter().chain(&rule.destinations.sets));
    named.collect::<BTreeSet<_>>().into_iter().cloned().collect()
}

/// Of two ascending lists, none of which has anything twice, what only the first has and what only the second.
#[must_use]
pub fn differences(before: &[Prefix], after: &[Prefix]) -> [Vec<Prefix>; 2] {
    let (mut gone, mut new) = (Vec::new(), Vec::new());
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return [gone, new],
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one.cmp(other),
        };
        if order.is_le()
            && let Some(member) = before.next()
            && order.is_lt()
        {
            gone.push(*member);
        }
        if order.is_ge()
            && let Some(member) = after.next()
            && order.is_gt()
        {
            new.push(*member);
        }
    }
}

/// What a side's prefixes are in the table, where the longest prefix decides: those within an exception aren't there at all, and neither are exceptions
/// from nothing.
fn entries(side: &Side) -> impl Iterator<Item = (Prefix, bool)> + '_ {
    let inside = within(&side.prefixes, &side.except).filter(|(_, excepted)| !excepted);
    let outside = within(&side.except, &side.prefixes).filter(|(_, of_it)| *of_it);
    inside.map(|(prefix, _)| (prefix, true)).chain(outside.map(|(prefix, _)| (prefix, false)))
}

/// Ascending prefixes, and whether each lies within one of `outer`, which are ascending, too.
pub fn within<'p>(inner: &'p [Prefix], outer: &'p [Prefix]) -> impl Iterator<Item = (Prefix, bool)> + 'p {
    let mut outer = outer.iter().peekable();
    // Each within the one before it: whoever has been left isn't come back to.
    let mut open: Vec<Prefix> = Vec::new();
    let leave = |open: &mut Vec<Prefix>, prefix: Prefix| {
        while open.pop_if(|last| !covers(*last, prefix)).is_some() {}
    };
    inner.iter().map(move |prefix| {
        while let Some(next) = outer.next_if(|next| *next <= prefix) {
            leave(&mut open, *next);
            open.push(*next);
        }
        leave(&mut open, *prefix);
        (*prefix, !open.is_empty())
    })
}

/// Whether all addresses of the second are the first's.
pub(in super::super) fn covers((outer, length): Prefix, (inner, longer): Prefix) -> bool {
    let same = match (outer, inner) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => return false,
    };
    length <= longer && u32::from(length) <= same
}

/// Counters for these rules: those of before where a rule stays, wherever it is now.
fn counters(rules: &[RuleConfig], before: Option<&Placed>) -> Vec<Arc<AtomicU64>> {
    let Some(Placed { config, acl, .. }) = before else {
        return rules.iter().map(|_| Arc::default()).collect();
    };
    let moved = rules.iter().zip(&config.rules).any(|(new, old)| new != old);
    if !moved {
        let kept = acl.hits.iter().cloned().chain(core::iter::repeat_with(Arc::default));
        return kept.take(rules.len()).collect();
    }
    let mut known: HashMap<&RuleConfig, Vec<&Arc<AtomicU64>>, RandomState> = HashMap::default();
    for (rule, hits) in config.rules.iter().zip(&acl.hits).rev() {
        known.entry(rule).or_default().push(hits);
    }
    let mut kept = |rule: &RuleConfig| known.get_mut(rule)?.pop().cloned();
    rules.iter().map(|rule| kept(rule).unwrap_or_default()).collect()
}
