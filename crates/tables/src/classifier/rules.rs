//! One ordered list of rules.

use super::ports::{ALL, PortRange, Ports};
use super::prefixes::{Behind, Known, Spoken, Term};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// What TCP flags of the first segment have to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Those that are looked at; none: all segments meet it.
    pub mask: u8,
    /// How they have to be.
    pub value: u8,
}

/// A rule as the classifier knows it. A flow meets it when it meets one of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Terms of its source; [`super::ANY`] for all.
    pub sources: Vec<Term>,
    /// Terms of its destination.
    pub destinations: Vec<Term>,
    /// IP protocol; `None`: all.
    pub protocol: Option<u8>,
    /// Ports of the source; none: all. Only where it has a protocol.
    pub source_ports: Vec<PortRange>,
    /// Ports of the destination, likewise; what a protocol has in their place (type and code of ICMP).
    pub ports: Vec<PortRange>,
    /// Flags of a TCP segment.
    pub flags: Flags,
}

/// A flow that asks.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'a> {
    /// What its source is behind.
    pub sources: &'a Behind<'a>,
    /// What its destination is behind.
    pub destinations: &'a Behind<'a>,
    /// IP protocol.
    pub protocol: u8,
    /// Source port.
    pub source_port: u16,
    /// Destination port, or what is in its place.
    pub port: u16,
    /// TCP flags of its first segment; 0 for other protocols.
    pub flags: u8,
}

/// What a classification needs besides, to be used for many.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    spoken: Vec<Spoken>,
    sources: Vec<(u32, Term)>,
    destinations: Vec<(u32, Term)>,
    source_ports: Vec<(u32, u32)>,
    ports: Vec<(u32, u32)>,
}

/// What rules have in common that differ in flags at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tuple {
    source: Term,
    destination: Term,
    source_ports: u32,
    ports: u32,
    /// [`NO_PROTOCOL`]: all.
    protocol: u16,
}

const NO_PROTOCOL: u16 = 256;

/// The rules of a tuple, ascending: one that has no flags ends the list.
#[derive(Clone, Debug)]
enum Found {
    One(u32),
    Some(Vec<(u32, Flags)>),
}

/// An ordered list of rules, numbered from 0.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    len: u32,
    /// Terms that sources and destinations of rules have, with the first rule that has them.
    sources: Known,
    destinations: Known,
    /// Pairs of them, likewise.
    pairs: HashMap<(Term, Term), u32, RandomState>,
    source_ports: Ports,
    ports: Ports,
    tuples: HashMap<Tuple, Found, RandomState>,
}

impl Rules {
    /// The list of these rules, the first one before all others.
    #[must_use]
    pub fn new<'r>(rules: impl IntoIterator<Item = &'r Rule>) -> Self {
        let mut list = Self::default();
        for rule in rules {
            list.push(rule);
        }
        list.source_ports.finish();
        list.ports.finish();
        list
    }

    fn push(&mut self, rule: &Rule) {
        let number = self.len;
        self.len += 1;
        let (source_ports, ports) = match rule.protocol {
            Some(_) => {
                (self.source_ports.number(&rule.source_ports, number), self.ports.number(&rule.ports, number))
            }
            None => (ALL, ALL),
        };
        let protocol = rule.protocol.map_or(NO_PROTOCOL, u16::from);
        for source in &rule.sources {
            self.sources.entry(*source).or_insert(number);
            for destination in &rule.destinations {
                self.destinations.entry(*destination).or_insert(number);
                self.pairs.entry((*source, *destination)).or_insert(number);
                let tuple =
                    Tuple { source: *source, destination: *destination, source_ports, ports, protocol };
                self.note(tuple, number, rule.flags);
            }
        }
    }

    fn note(&mut self, tuple: Tuple, number: u32, flags: Flags) {
        let any = flags.mask == 0;
        match self.tuples.get_mut(&tuple) {
            None if any => {
                self.tuples.insert(tuple, Found::One(number));
            }
            None => {
                self.tuples.insert(tuple, Found::Some(vec![(number, flags)]));
            }
            // Nothing comes to those behind one that takes all.
            Some(Found::One(_)) => {}
            Some(Found::Some(list)) => {
                if list.last().is_none_or(|(_, last)| last.mask != 0) {
                    list.push((number, flags));
                }
            }
        }
    }

    /// Number of rules.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first rule that a flow meets.
    #[must_use]
    pub fn first(&self, flow: &Flow<'_>, scratch: &mut Scratch) -> Option<u32> {
        let Scratch { spoken, sources, destinations, source_ports, ports } = scratch;
        flow.sources.among(&self.sources, spoken, sources);
        if sources.is_empty() {
            return None;
        }
        flow.destinations.among(&self.destinations, spoken, destinations);
        let mut best = u32::MAX;
        let mut ported = false;
        for (first, source) in &*sources {
            if *first >= best {
                break;
            }
            for (first, destination) in &*destinations {
                if *first >= best {
                    break;
                }
                let pair = (*source, *destination);
                if self.pairs.get(&pair).is_none_or(|first| *first >= best) {
                    continue;
                }
                self.probe(pair, (ALL, ALL), NO_PROTOCOL, flow.flags, &mut best);
                if !ported {
                    self.source_ports.of(flow.source_port, source_ports);
                    self.ports.of(flow.port, ports);
                    ported = true;
                }
                for (first, from) in &*source_ports {
                    if *first >= best {
                        break;
                    }
                    for (first, to) in &*ports {
                        if *first >= best {
                            break;
                        }
                        self.probe(pair, (*from, *to), flow.protocol.into(), flow.flags, &mut best);
                    }
                }
            }
        }
        (best != u32::MAX).then_some(best)
    }

    fn probe(
        &self,
        (source, destination): (Term, Term),
        (source_ports, ports): (u32, u32),
        protocol: u16,
        flags: u8,
        best: &mut u32,
    ) {
        let tuple = Tuple { source, destination, source_ports, ports, protocol };
        let found = match self.tuples.get(&tuple) {
            None => None,
            Some(Found::One(rule)) => Some(*rule),
            Some(Found::Some(list)) => {
                list.iter().find(|(_, of)| flags & of.mask == of.value).map(|(rule, _)| *rule)
            }
        };
        *best = found.unwrap_or(u32::MAX).min(*best);
    }
}
