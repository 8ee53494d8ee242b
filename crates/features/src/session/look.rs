//! Looking at a worker's sessions, and ending some, from outside: by commands between two rounds, a part at a time.

use super::entry::Session;
use super::events::End;
use super::parser::{self, Parsed};
use super::redirect::Judgment;
use super::session_stats::{SideStats, Stats};
use super::sessions::Sessions;
use super::tcp_check::{TcpState, Track};
use super::tenants::{TICK_BITS, Tenants};
use super::translate::NOBODY;
use core::net::IpAddr;
use graph::IfIndex;
use tables::session::{Endpoint, Handle, Key};

/// Which sessions are meant: those that agree with everything that is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Number of the tenant.
    pub tenant: Option<u16>,
    /// An address of either side, also as it is seen outside.
    pub address: Option<IpAddr>,
    /// A port of either side; with `address`, of the same one. ESP and AH have none.
    pub port: Option<u16>,
    /// The SPI of ESP or AH.
    pub spi: Option<u32>,
    /// IP protocol.
    pub protocol: Option<u8>,
    /// Where it stands.
    pub state: Option<super::State>,
    /// Number of the parser that has given its key.
    pub parser: Option<u8>,
    /// Whether none of its packets pass.
    pub blocked: Option<bool>,
}

impl Filter {
    /// Whether that session is meant.
    pub(super) fn means(&self, seen: &Seen) -> bool {
        let Seen { key, session, translated, .. } = seen;
        let side = |(address, port): Endpoint| {
            self.address.is_none_or(|wanted| wanted == address)
                && self.port.is_none_or(|wanted| wanted == port && key.spi().is_none())
        };
        let (low, high) = parser::endpoints(key);
        self.tenant.is_none_or(|tenant| tenant == session.tenant)
            && self.protocol.is_none_or(|protocol| protocol == seen.protocol())
            && self.parser.is_none_or(|parser| key.parsed_by().is_some_and(|(its, _)| its == parser))
            && self.spi.is_none_or(|spi| key.spi() == Some(spi))
            && self.blocked.is_none_or(|blocked| blocked == session.is_blocked())
            && self.state.is_none_or(|state| state == session.state)
            && (side(low) || side(high) || translated.is_some_and(|ends| ends.into_iter().any(side)))
    }
}

/// A session as it was at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Names it for good, at its worker.
    pub handle: Handle,
    /// Its key.
    pub key: Key,
    /// The rest.
    pub session: Session,
    /// Where both sides of a TCP connection stand, if `tcp-check` follows it.
    pub tcp: Option<[TcpState; 2]>,
    /// What is known of its initiator and of the other side, if `session-stats` notes it.
    pub stats: Option<[SideStats; 2]>,
    /// The endpoints as they are seen on the far side, if `nat` or `balance` translates it: the host inside or the client, and the other.
    pub translated: Option<[Endpoint; 2]>,
    /// The other is a backend.
    pub balanced: bool,
    /// Its packets go to the backend, and come from it, as they are: nothing is translated.
    pub direct: bool,
    /// The interface that its first packet came by.
    pub begun: IfIndex,
}

impl Seen {
    /// Its IP protocol.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        parser::protocol(&self.key).0
    }

    /// Its key, if a parser has given it.
    #[must_use]
    pub fn parsed(&self) -> Option<Parsed> {
        Parsed::of(&self.key)
    }

    /// The initiator's endpoint and that of the other side; of a key that a parser has given, as far as that says.
    #[must_use]
    pub fn endpoints(&self) -> (Endpoint, Endpoint) {
        let (low, high) = parser::endpoints(&self.key);
        if self.session.initiator_is_high() { (high, low) } else { (low, high) }
    }
}

impl Sessions {
    /// Those of the sessions at `from` and behind that are meant, a part at a time: of at most `span` places; and where to go on.
    #[must_use]
    pub fn look(&self, filter: &Filter, from: u32, span: u32) -> (Vec<Seen>, Option<u32>) {
        let (part, next) = self.table.walk(from, span);
        let seen = part.filter_map(|index| self.as_it_is(index)).filter(|seen| filter.means(seen));
        (seen.collect(), next)
    }

    /// A session as it is now.
    pub(super) fn as_it_is(&self, index: u32) -> Option<Seen> {
        let (handle, key) = self.table.handle(index).zip(self.table.key(index))?;
        let session = *self.table.get(index)?;
        // What is known of one that has lost its backend is none of its any more.
        let translated = Some(handle).filter(|_| session.is_translated());
        let owners = translated.and_then(|handle| self.translations.owners(handle));
        Some(Seen {
            handle,
            key,
            session,
            tcp: self.tcp.get(handle).and_then(Track::states),
            stats: self.stats.get(handle).map(Stats::sides),
            translated: translated.and_then(|handle| self.translations.endpoints(handle)),
            balanced: owners.is_some_and(|owners| owners.account != NOBODY),
            direct: translated.is_some_and(|handle| self.translations.direct(handle).is_some()),
            begun: self.begun.get(handle).copied().unwrap_or(0),
        })
    }

    /// Ends those that are meant, likewise; gives how many there were. It is `now` (monotonic nanoseconds).
    pub fn clear(&mut self, filter: &Filter, from: u32, span: u32, now: u64) -> (u64, Option<u32>) {
        self.now_is(now >> TICK_BITS);
        let (meant, next) = self.look(filter, from, span);
        meant.iter().for_each(|seen| self.end(seen.handle.index, End::Cleared));
        (meant.len() as u64, next)
    }

    /// Judges those that are meant and go to an engine, likewise: the rest of them passes without, or is dropped for `reason` (graph-wide id). Gives how many there
    /// were.
    pub fn judge(
        &mut self,
        tenants: &Tenants,
        filter: &Filter,
        (judgment, reason): (Judgment, u16),
        tick: u64,
        (from, span): (u32, u32),
    ) -> (u64, Option<u32>) {
        self.now_is(tick);
        let (meant, next) = self.look(filter, from, span);
        let goes =
            |seen: &&Seen| tenants.get(seen.session.tenant).is_some_and(|tenant| tenant.redirect.is_some());
        let mut judged = 0;
        for Seen { handle, session, .. } in meant.iter().filter(goes) {
            // One that hasn't seen its tenant's last change yet would forget by it what is said now.
            let is_new = session.epoch == tenants.generation as u16;
            if !is_new && self.renew(tenants, handle.index).is_none() {
                continue;
            }
            match judgment {
                Judgment::DropRest => self.block_for_good(tenants, handle.index, reason, tick),
                Judgment::AllowRest => {
                    let policy = tenants.get(session.tenant).map(|tenant| tenant.policy);
                    let Some((policy, (note, _))) = policy.zip(self.redirected.get_mut(*handle)) else {
                        continue;
                    };
                    note.allow(policy);
                }
            }
            judged += 1;
        }
        (judged, next)
    }
}
