//! What a service is made of that is written elsewhere, in a crate of its own: `docs/write-a-service.md`.
//!
//! * [`Custom`]: what it does with a [`Packet`]; [`node`]: its node; [`Service`]: its declaration.
//! * [`add`]: has it be one of the services, before anything else is done with them; [`add_parsers`]: likewise one of the [parsers](Parser).

pub use super::onward::RESUMES;
pub use super::parser::{Datagram, MAX_KEY, Parsed, Parser};
pub use super::services::{DEFAULT_SCOPE, SERVICES_ARC, Scopes, Service, ServiceError};
pub use super::serving::Verdict;

use super::entry::{Direction, Marks, Session};
use super::parser;
use super::serve::COUNTERS;
use super::services::{IMPLIED, Order};
use super::serving::{Serve, Serving, Visit};
use super::tenants::Tenant;
use super::tuple::transport_at;
use super::{ORDER, SERVICES, direct_return, order, tcp_check};
use graph::{Feature, Node, NodeContext};
use tables::session::Endpoint;
use wire::IpProtocol;

/// A service, one instance for each worker. Packets of a session always come to the same one.
pub trait Custom: Send + 'static {
    /// What becomes of a packet.
    fn packet(&mut self, packet: &mut Packet<'_, '_>) -> Verdict;

    /// What becomes of a [later fragment](Packet::is_later_fragment), which has data where others have a transport header.
    fn fragment(&mut self, _: &mut Packet<'_, '_>) -> Verdict {
        Verdict::Next
    }
}

/// A service that another one may put on the chains of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insertable {
    number: u8,
    /// Scopes that it is of: bit `n` is scope `n`.
    scopes: u64,
    /// Whether it takes sessions of any key, those that a [parser](Parser) has given, too.
    any_key: bool,
}

impl Insertable {
    /// The service of that name; `None` where there is none that tenants could name. For where a node is made: packets have no time for names.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::of(order(), name)
    }

    pub(super) fn of(order: &Order, name: &str) -> Option<Self> {
        let number = order.number(name).filter(|_| !IMPLIED.contains(&name))?;
        let any_key = order.services().iter().any(|service| service.node.name == name && service.any_key);
        Some(Self { number, scopes: order.mask(name), any_key })
    }

    /// Whether it can stand behind service `me` on chains of a scope, and of a session whose key a parser has given if that is `parsed`.
    const fn fits(self, me: u8, scope: u8, parsed: bool) -> bool {
        self.number > me && self.scopes >> scope & 1 != 0 && (self.any_key || !parsed)
    }
}

/// A packet at its session.
pub struct Packet<'p, 'v>(&'p mut Visit<'v>, bool);

impl core::fmt::Debug for Packet<'_, '_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Packet").field("session", &self.0.handle).finish_non_exhaustive()
    }
}

impl Packet<'_, '_> {
    /// Its session. The packet is counted there already.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.0.session
    }

    /// Whether the initiator has sent it.
    #[must_use]
    pub fn direction(&self) -> Direction {
        self.0.direction
    }

    /// The session's protocol.
    #[must_use]
    pub fn protocol(&self) -> IpProtocol {
        parser::protocol(self.0.key)
    }

    /// The session's key, if its tenant's parser has given it. Then endpoints are known as far as that says.
    #[must_use]
    pub fn parsed(&self) -> Option<Parsed> {
        Parsed::of(self.0.key)
    }

    /// Who began the session: address and port, as it has them itself.
    #[must_use]
    pub fn initiator(&self) -> Endpoint {
        self.sides()[0]
    }

    /// Who was asked: address and port, as the initiator knows them.
    #[must_use]
    pub fn responder(&self) -> Endpoint {
        self.sides()[1]
    }

    fn sides(&self) -> [Endpoint; 2] {
        let (low, high) = parser::endpoints(self.0.key);
        if self.0.session.initiator_is_high() { [high, low] } else { [low, high] }
    }

    /// The session's tenant; `None` where it has just gone.
    #[must_use]
    pub fn tenant(&self) -> Option<&Tenant> {
        self.0.tenant()
    }

    /// Bytes of all of it, from the IP header on.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no packet is empty")]
    pub fn len(&self) -> u32 {
        self.0.packets.meta(self.0.slot).len()
    }

    /// Its first bytes, from the IP header on. They are private: nobody changes them meanwhile.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        let meta = self.0.packets.meta(self.0.slot);
        let area = self.0.packets.area(self.0.slot);
        area.get(meta.l3.into()..meta.end.into()).unwrap_or_default()
    }

    /// The same, to change. Who does keeps checksums right.
    pub fn head_mut(&mut self) -> &mut [u8] {
        let (meta, area) = self.0.packets.parts_mut(self.0.slot);
        area.get_mut(meta.l3.into()..meta.end.into()).unwrap_or_default()
    }

    /// Whether it is a part of a datagram behind the first one: the session's by what that one has said, with data where others have a transport header.
    #[must_use]
    pub fn is_later_fragment(&self) -> bool {
        self.1
    }

    /// Where its transport header begins in the head; `None` where that doesn't reach so far, and of a [later fragment](Self::is_later_fragment).
    #[must_use]
    pub fn transport(&self) -> Option<usize> {
        let l3 = usize::from(self.0.packets.meta(self.0.slot).l3);
        let (at, _) = transport_at(self.0.packets, self.0.slot, self.0.is_v6)?;
        at.checked_sub(l3).filter(|at| *at < self.head().len())
    }

    /// No packet of the session comes to this service any more, of neither direction, until its [tenant changes](Tenant::policy).
    pub fn leave_session(&mut self) {
        self.0.session.retire(self.0.me);
    }

    /// Puts a service behind this one on both of the session's chains, until its [tenant changes](Tenant::policy): it sees this packet, and all that come later. False where it
    /// comes before this one, is of other scopes than the session's tenant, needs addresses and ports where the session was found by a parser's key, packets of the session are
    /// dropped, or there is no memory: then nothing changes.
    ///
    /// What the service needs of a tenant (a pool, lists, an engine) has to be the tenant's. `tcp-check` takes a connection that has begun for one whose beginning it
    /// hasn't seen, and follows it.
    pub fn insert_service(&mut self, inserted: Insertable) -> bool {
        let scope = self.0.tenant().map_or(0, |tenant| tenant.scope);
        let (service, parsed) = (inserted.number, self.0.key.is_parsed());
        let session = &mut *self.0.session;
        if !inserted.fits(self.0.me, scope, parsed)
            || session.chain.iter().any(|chain| chain.block().is_some())
        {
            return false;
        }
        let Some((decided, _)) = self.0.decided.get_mut(self.0.handle) else { return false };
        *decided = decided.with(service);
        let is_new = !session.chain[0].has(service);
        if is_new && order().number(tcp_check::SERVICE.node.name) == Some(service) {
            session.marks.put(Marks::UNCHECKED, true);
        }
        session.chain = session.chain.map(|chain| chain.with(service));
        true
    }

    /// Adds one to a counter of the service's node.
    pub fn count(&mut self, counter: impl Into<u8>) {
        self.0.count(counter);
    }
}

struct Adapter<C>(C);

impl<C: Custom> Serve for Adapter<C> {
    #[inline(always)]
    fn packet(&mut self, visit: &mut Visit<'_>) -> Verdict {
        self.0.packet(&mut Packet(visit, false))
    }

    fn fragment(&mut self, visit: &mut Visit<'_>) -> Verdict {
        self.0.fragment(&mut Packet(visit, true))
    }
}

/// The node of a service.
pub fn node(cx: &NodeContext<'_>, service: impl Custom) -> Box<dyn Node> {
    Serving::boxed(cx, Adapter(service))
}

/// Services can't be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// Somebody knows the services, or parsers, without them already.
    #[error(
        "{0:?} is added too late: add services and parsers before the graph is built and configuration is read"
    )]
    Late(&'static str),
    /// There is one of that name.
    #[error("there is a service {0:?} already: give yours another name")]
    Taken(&'static str),
    /// It has no place among the others.
    #[error("service {0:?} is no feature of the arc {SERVICES_ARC:?}: declare its place in `features`")]
    NoPlace(&'static str),
    /// A service counts more than there is room for.
    #[error("service {0:?} has {1} counters, and {COUNTERS} at most can be told apart")]
    Counters(&'static str, usize),
    /// There is a parser of that name.
    #[error("there is a parser {0:?} already: give yours another name")]
    TakenParser(&'static str),
    /// A parser has no name that a tenant could say.
    #[error("parser {0:?} needs a name of lower-case letters, digits and hyphens")]
    ParserName(&'static str),
    /// A parser is for connections, which are followed by their addresses and ports alone.
    #[error(
        "parser {0:?} is for TCP, whose connections are followed by addresses and ports alone: choose another protocol"
    )]
    Tcp(&'static str),
    /// A parser's keys are too long, or empty.
    #[error("parser {0:?} has keys of {1} bytes: 1 to {max} are possible", max = parser::MAX_KEY)]
    KeyBytes(&'static str, usize),
    /// More parsers than can be told apart.
    #[error("there are {0} parsers, and 255 at most can be told apart")]
    TooManyParsers(usize),
    /// They contradict each other.
    #[error(transparent)]
    Order(#[from] ServiceError),
}

/// Adds services to Quiver's own. Once, and first of all.
///
/// # Errors
/// [`AddError`], which names the service.
pub fn add(services: &[Service]) -> Result<(), AddError> {
    let Some(first) = services.first() else { return Ok(()) };
    let mut all = SERVICES.to_vec();
    for service in services {
        let (name, counters) = (service.node.name, service.node.counters.len());
        if all.iter().any(|known| known.node.name == name) {
            return Err(AddError::Taken(name));
        }
        if !service.node.features.iter().any(|feature| feature.arc == SERVICES_ARC) {
            return Err(AddError::NoPlace(name));
        }
        if counters > COUNTERS {
            return Err(AddError::Counters(name, counters));
        }
        all.push(*service);
    }
    last(&mut all);
    ORDER.set(Order::resolve(&all)?).map_err(|_| AddError::Late(first.node.name))
}

/// Adds parsers to Quiver's own. Once, and first of all.
///
/// # Errors
/// [`AddError`], which names the parser.
pub fn add_parsers(parsers: &[Parser]) -> Result<(), AddError> {
    let Some(first) = parsers.first() else { return Ok(()) };
    let mut all = parser::OWN.to_vec();
    for one in parsers {
        if all.contains(one) {
            return Err(AddError::TakenParser(one.name));
        }
        let named = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if one.name.is_empty() || !one.name.bytes().all(named) {
            return Err(AddError::ParserName(one.name));
        }
        if one.protocol == IpProtocol::TCP {
            return Err(AddError::Tcp(one.name));
        }
        if one.key_bytes == 0 || one.key_bytes > MAX_KEY {
            return Err(AddError::KeyBytes(one.name, one.key_bytes));
        }
        all.push(*one);
    }
    if all.len() > usize::from(u8::MAX) {
        return Err(AddError::TooManyParsers(all.len()));
    }
    parser::ALL.set(all).map_err(|_| AddError::Late(first.name))
}

/// Where a session's packets go is said by the service behind all others, also behind those that were added.
fn last(all: &mut [Service]) {
    let behind: Vec<&'static str> = all
        .iter()
        .map(|service| service.node.name)
        .filter(|name| *name != direct_return::SERVICE.node.name)
        .collect();
    // For as long as the program runs, as all declarations.
    let place = Feature { arc: SERVICES_ARC, runs_before: &[], runs_after: behind.leak() };
    if let Some(it) = all.iter_mut().find(|service| service.node.name == direct_return::SERVICE.node.name) {
        it.node.features = vec![place].leak();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{acl, nat};
    use super::super::{lifecycle, policer};
    use super::*;
    use graph::{CounterSpec, NodeSpec};

    const PLACE: Feature = Feature { arc: SERVICES_ARC, runs_before: &[], runs_after: &["acl"] };
    const MANY: &[CounterSpec] = &[CounterSpec { name: "one", help: "One of many." }; COUNTERS + 1];
    const OF: NodeSpec = NodeSpec { name: "mine", features: &[PLACE], ..NodeSpec::EMPTY };
    const MINE: Service = Service { node: OF, ..Service::EMPTY };

    #[test]
    fn what_can_not_be_added_is_said_by_name() {
        let cyclic = [Feature { runs_before: &["tcp-check"], ..PLACE }];
        let cyclic: &'static [Feature] = Box::leak(Box::new(cyclic));
        let of = |node: NodeSpec| Service { node, ..MINE };
        for (services, wrong) in [
            (vec![lifecycle::SERVICE], "there is a service \"l4-lifecycle\" already"),
            (vec![MINE, MINE], "there is a service \"mine\" already"),
            (vec![of(NodeSpec { features: &[], ..OF })], "service \"mine\" is no feature of the arc"),
            (vec![of(NodeSpec { counters: MANY, ..OF })], "service \"mine\" has 17 counters, and 16 at most"),
            (vec![of(NodeSpec { features: cyclic, ..OF })], "session-services can't be ordered"),
        ] {
            let error = add(&services).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
        let mut all = [SERVICES, &[of(NodeSpec { name: "zebra", ..OF })]].concat();
        last(&mut all);
        let order = Order::resolve(&all).unwrap();
        let last = order.services().last().map(|service| service.node.name);
        assert_eq!(last, Some(direct_return::SERVICE.node.name));
        // Somebody has asked for it.
        assert!(super::super::order().number("mine").is_none());
        assert_eq!(add(&[MINE]), Err(AddError::Late("mine")));
        assert_eq!(add(&[]), Ok(()));
    }

    #[test]
    fn a_service_is_inserted_where_it_can_do_its_work() {
        let field = Service { scopes: Scopes::Of(&["field"]), ..MINE };
        let order = Order::resolve(&[SERVICES, &[field]].concat()).unwrap();
        let scope = order.scope("field").unwrap();
        let of = |name| Insertable::of(&order, name).unwrap();
        let [policer, acl, nat] = [policer::SERVICE, acl::SERVICE, nat::SERVICE].map(|one| of(one.node.name));
        let mine = of("mine");
        // Behind it, in any scope, whatever the key is.
        assert!(policer.fits(0, 0, false) && policer.fits(0, scope, true));
        assert!(!policer.fits(policer.number, 0, false), "it has been passed");
        assert!(
            acl.fits(0, scope, false) && !acl.fits(0, scope, true),
            "rules are about addresses and ports"
        );
        assert!(nat.fits(0, 0, false) && !nat.fits(0, scope, false), "of the default scope");
        assert!(mine.fits(0, scope, false) && !mine.fits(0, 0, false) && !mine.fits(0, scope, true));
        assert_eq!(Insertable::of(&order, direct_return::SERVICE.node.name), None);
    }

    #[test]
    fn what_parsers_can_not_be_added_is_said_by_name() {
        let parser = parser::OWN[0];
        for (wrong, said) in [
            (parser, "there is a parser \"gtpu\" already"),
            (Parser { name: "", ..parser }, "parser \"\" needs a name"),
            (Parser { name: "My parser", ..parser }, "parser \"My parser\" needs a name"),
            (Parser { name: "mine", protocol: IpProtocol::TCP, ..parser }, "parser \"mine\" is for TCP"),
            (Parser { name: "mine", key_bytes: 0, ..parser }, "parser \"mine\" has keys of 0 bytes"),
            (
                Parser { name: "mine", key_bytes: MAX_KEY + 1, ..parser },
                "parser \"mine\" has keys of 33 bytes",
            ),
        ] {
            let error = add_parsers(&[wrong]).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
