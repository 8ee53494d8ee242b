//! What is known of a session whose packets look otherwise on their other side, and how they are changed.

use super::address::{Address, End};
use super::edit::Edit;
use super::sctp;
use graph::packet::{HEAD_AREA, Meta};
use tables::session::{Endpoint, Key};
use wire::IpProtocol;
use wire::checksum::{Delta, Partial};

/// None of them.
pub(in super::super) const NOBODY: u32 = u32::MAX;

/// How a session's packets look beyond the service that has them changed. Its **near** side is the one whose packets the service translates on their way
/// there: the host inside, the client.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Translation<A> {
    /// Addresses that the near side and the far one are seen with.
    pub(super) addresses: [A; 2],
    /// Their ports.
    pub(super) ports: [u16; 2],
    /// What leaving does to checksums of addresses.
    pub(super) of_addresses: Delta,
    /// What it does to checksums of addresses and ports.
    pub(super) of_all: Delta,
    /// Whose figures it counts in: the number of a pool that it has a port of, and of a backend, if there is one.
    pub(in super::super) pool: u16,
    /// The near side is the higher endpoint of the session's key.
    pub(in super::super) near_is_high: bool,
    /// Its packets go to their backend, and pass, as they are: the far side is where, and not as whom.
    pub(in super::super) direct: bool,
    pub(in super::super) account: u32,
    /// The key by which answers find the session.
    pub(in super::super) alias: u32,
}

impl<A: Address> Default for Translation<A> {
    fn default() -> Self {
        Self {
            addresses: [A::default(); 2],
            ports: [0; 2],
            of_addresses: Delta::default(),
            of_all: Delta::default(),
            pool: u16::MAX,
            near_is_high: false,
            direct: false,
            account: NOBODY,
            alias: NOBODY,
        }
    }
}

/// Why a packet isn't changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Unfit {
    /// Its headers aren't whole in the head.
    Short,
    /// It has other addresses or ports than packets of that side have.
    Foreign,
}

/// Near side and far one, as the session's key has them.
#[inline(always)]
fn near<A: Address>(key: &Key, near_is_high: bool) -> [End<A>; 2] {
    let (low, high) = A::ends(key);
    if near_is_high { [high, low] } else { [low, high] }
}

impl<A: Address> Translation<A> {
    /// Of a session whose near side and far one are seen as `beyond`.
    pub(in super::super) fn new(key: &Key, near_is_high: bool, beyond: [End<A>; 2]) -> Self {
        let sum = |ends: [End<A>; 2]| {
            let addresses = ends[0].0.sum().plus(ends[1].0.sum());
            (addresses, Partial::of_u16(ends[0].1).plus(Partial::of_u16(ends[1].1)))
        };
        let ours = near(key, near_is_high);
        let ((old, old_ports), (new, new_ports)) = (sum(ours), sum(beyond));
        Self {
            addresses: beyond.map(|end| end.0),
            ports: beyond.map(|end| end.1),
            of_addresses: Delta::between(old, new),
            of_all: Delta::between(old.plus(old_ports), new.plus(new_ports)),
            near_is_high,
            ..Self::default()
        }
    }

    /// Whether a backend has it.
    #[inline(always)]
    pub(in super::super) const fn is_balanced(&self) -> bool {
        self.account != NOBODY
    }

    /// Near side and far one, as they are seen there.
    #[inline(always)]
    pub(in super::super) const fn beyond(&self) -> [End<A>; 2] {
        [(self.addresses[0], self.ports[0]), (self.addresses[1], self.ports[1])]
    }

    /// The same for whoever looks.
    pub(in super::super) fn endpoints(&self) -> [Endpoint; 2] {
        self.beyond().map(|(address, port)| (address.ip(), port))
    }

    /// Changes a packet of the session that leaves or comes in, whose transport header is at `l4`: addresses, ports, checksums (RFC 1624).
    /// `is_fragment`: the first part of it; `UNDO`: one that leaves and was changed looks again as it did before.
    #[inline(always)]
    pub(super) fn apply<const UNDO: bool>(
        &self,
        (meta, area): (&Meta, &mut [u8; HEAD_AREA]),
        (l4, is_fragment): (usize, bool),
        key: &Key,
        leaves: bool,
    ) -> Result<(), Unfit> {
        let (old, new) = if UNDO { self.undone(key) } else { self.sides(key, leaves) };
        let turn = |delta: Delta| if leaves && !UNDO { delta } else { delta.back() };
        let (l3, end) = (usize::from(meta.l3), usize::from(meta.end));
        let (head, rest) =
            area.get_mut(l3..end).ok_or(Unfit::Short)?.split_at_mut_checked(l4 - l3).ok_or(Unfit::Short)?;
        if A::addresses(head).ok_or(Unfit::Short)? != [old[0].0, old[1].0] {
            return Err(Unfit::Foreign);
        }
        let (old_ports, new_ports) = ([old[0].1, old[1].1], [new[0].1, new[1].1]);
        let protocol = IpProtocol(key.protocol());
        if protocol == IpProtocol::SCTP {
            if is_fragment && old_ports != new_ports {
                // Its checksum covers what isn't here, and nobody knows how much that is.
                return Err(Unfit::Short);
            }
            let length = (meta.len() as usize).saturating_sub(l4 - l3);
            sctp::replace_ports(rest, length, old_ports, new_ports)?;
        } else {
            transport::<A>(rest, protocol, old_ports, new_ports, |checksum| {
                if meta.offload.checksum_needed {
                    // It is the sum of the pseudo header, which has no ports.
                    return !turn(self.of_addresses).apply(!checksum);
                }
                turn(self.of_all).apply(checksum)
            })?;
        }
        A::replace(head, [new[0].0, new[1].0], turn(self.of_addresses));
        Ok(())
    }

    /// Changes a later fragment, which has addresses only, likewise: the checksum over the ports is in the first one.
    pub(super) fn apply_to_later<const UNDO: bool>(
        &self,
        (meta, area): (&Meta, &mut [u8; HEAD_AREA]),
        key: &Key,
        leaves: bool,
    ) -> Result<(), Unfit> {
        let (old, new) = if UNDO { self.undone(key) } else { self.sides(key, leaves) };
        let head = area.get_mut(meta.l3.into()..meta.end.into()).ok_or(Unfit::Short)?;
        if A::addresses(head).ok_or(Unfit::Short)? != old.map(|end| end.0) {
            return Err(Unfit::Foreign);
        }
        if IpProtocol(key.protocol()) == IpProtocol::SCTP && old.map(|end| end.1) != new.map(|end| end.1) {
            // Nor is the first one changed.
            return Err(Unfit::Short);
        }
        let delta = if leaves && !UNDO { self.of_addresses } else { self.of_addresses.back() };
        A::replace(head, new.map(|end| end.0), delta);
        Ok(())
    }

    /// Source and destination of a packet that leaves or comes in, before it is changed and after.
    #[inline(always)]
    fn sides(&self, key: &Key, leaves: bool) -> ([End<A>; 2], [End<A>; 2]) {
        let (ours, beyond) = (near(key, self.near_is_high), self.beyond());
        if leaves { (ours, beyond) } else { ([beyond[1], beyond[0]], [ours[1], ours[0]]) }
    }

    /// The same where that is undone in a packet that leaves.
    fn undone(&self, key: &Key) -> ([End<A>; 2], [End<A>; 2]) {
        (self.beyond(), near(key, self.near_is_high))
    }

    /// Changes an ICMP error at `l4` about a packet of the session (RFC 5508 section 4), which leaves or comes in: its own addresses and the packet
    /// that it quotes, which went the other way. `is_ours`: it was made here, and its source stays.
    pub(super) fn apply_to_error(
        &self,
        (meta, area): (&Meta, &mut [u8; HEAD_AREA]),
        l4: usize,
        key: &Key,
        leaves: bool,
        is_ours: bool,
    ) -> Result<(), Unfit> {
        let ours = near(key, self.near_is_high);
        let beyond = self.beyond();
        let (old, new) = if leaves { (ours, beyond) } else { (beyond, ours) };
        let (l3, end) = (usize::from(meta.l3), usize::from(meta.end));
        let quoted = l4 + QUOTED;
        let bytes = area.get(quoted..end).ok_or(Unfit::Short)?;
        let (src, dst, behind) = A::quoted(bytes).ok_or(Unfit::Short)?;
        let transport = quoted + behind;
        // The quoted packet came from where the error goes to.
        let (from, to) = if leaves { (1, 0) } else { (0, 1) };
        if (src, dst) != (old[from].0, old[to].0) {
            return Err(Unfit::Foreign);
        }
        let mut edit = Edit::new(area, end);
        if A::get(&edit, l3 + A::DST) != Some(old[from].0) {
            return Err(Unfit::Foreign);
        }
        let turn = |delta: Delta| if leaves { delta } else { delta.back() };
        let done = (|| {
            new[from].0.put(&mut edit, quoted + A::SRC)?;
            new[to].0.put(&mut edit, quoted + A::DST)?;
            if let Some(at) = A::CHECKSUM {
                let checksum = edit.get(quoted + at)?;
                edit.put(quoted + at, turn(self.of_addresses).apply(checksum))?;
            }
            self.quoted_transport(
                &mut edit,
                transport,
                IpProtocol(key.protocol()),
                [old, new],
                (from, to),
                turn,
            )?;
            let of_message = edit.take();
            // Whoever reports it on the near side is seen as the host that it concerns; on the far one that holds where the far host is mapped, and else only the
            // host itself has another address.
            let source = A::get(&edit, l3 + A::SRC)?;
            let hides =
                if leaves { old[0].0 != new[0].0 } else { !self.is_balanced() && old[1].0 != new[1].0 };
            if !is_ours && (hides || source == old[1].0) {
                (if leaves { new[0].0 } else { new[1].0 }).put(&mut edit, l3 + A::SRC)?;
            }
            new[from].0.put(&mut edit, l3 + A::DST)?;
            let of_header = edit.take();
            let checksum = of_message.apply(edit.get(l4 + ICMP_CHECKSUM)?);
            let covered = A::ICMP_COVERS_ADDRESSES;
            let checksum = if covered { of_header.apply(checksum) } else { checksum };
            edit.put(l4 + ICMP_CHECKSUM, checksum)?;
            if let Some(at) = A::CHECKSUM {
                let checksum = edit.get(l3 + at)?;
                edit.put(l3 + at, of_header.apply(checksum))?;
            }
            Some(())
        })();
        done.ok_or(Unfit::Short)
    }

    /// Ports, identifier and checksum of a quoted packet. Of most quoted segments the checksum isn't there.
    fn quoted_transport(
        &self,
        edit: &mut Edit<'_>,
        at: usize,
        protocol: IpProtocol,
        [old, new]: [[End<A>; 2]; 2],
        (from, to): (usize, usize),
        turn: impl Fn(Delta) -> Delta,
    ) -> Option<()> {
        if protocol == A::ICMP {
            edit.put(at + ECHO_ID, new[0].1)?;
            if let Some(checksum) = edit.get(at + ICMP_CHECKSUM) {
                edit.put(at + ICMP_CHECKSUM, of_id(old[0].1, new[0].1).apply(checksum))?;
            }
            return Some(());
        }
        edit.put(at, new[from].1)?;
        edit.put(at + 2, new[to].1)?;
        let field = checksum_at(protocol).map(|field| at + field);
        if let Some((field, checksum)) = field.and_then(|field| Some((field, edit.get(field)?)))
            && !(protocol == IpProtocol::UDP && checksum == 0)
        {
            edit.put(field, never_zero(protocol, turn(self.of_all).apply(checksum)))?;
        }
        Some(())
    }
}

/// What another identifier does to the checksum of an echo of ICMP, which covers no addresses.
fn of_id(old: u16, new: u16) -> Delta {
    Delta::between(Partial::of_u16(old), Partial::of_u16(new))
}

/// Where things are in an ICMP message, and behind the header of an error.
const ICMP_CHECKSUM: usize = 2;
const ECHO_ID: usize = 4;
const QUOTED: usize = 8;

/// Where the checksum is that covers addresses and ports, where there is one.
#[inline(always)]
const fn checksum_at(protocol: IpProtocol) -> Option<usize> {
    match protocol {
        IpProtocol::TCP => Some(16),
        IpProtocol::UDP | IpProtocol::UDP_LITE | IpProtocol::DCCP => Some(6),
        _ => None,
    }
}

/// 0 means "none" in UDP, and mustn't be in UDP-Lite.
#[inline(always)]
pub(super) const fn never_zero(protocol: IpProtocol, checksum: u16) -> u16 {
    match (protocol, checksum) {
        (IpProtocol::UDP | IpProtocol::UDP_LITE, 0) => u16::MAX,
        _ => checksum,
    }
}

/// Replaces the ports of a transport header, or an echo's identifier, and has its checksum changed.
#[inline(always)]
fn transport<A: Address>(
    header: &mut [u8],
    protocol: IpProtocol,
    old: [u16; 2],
    new: [u16; 2],
    change: impl Fn(u16) -> u16,
) -> Result<(), Unfit> {
    let get = |header: &[u8], at: usize| Some(u16::from_be_bytes(*header.get(at..at + 2)?.first_chunk()?));
    if protocol == A::ICMP {
        let header = header.first_chunk_mut::<8>().ok_or(Unfit::Short)?;
        if get(header, ECHO_ID) != Some(old[0]) {
            return Err(Unfit::Foreign);
        }
        let checksum = of_id(old[0], new[0]).apply(u16::from_be_bytes([header[2], header[3]]));
        header[ICMP_CHECKSUM..4].copy_from_slice(&checksum.to_be_bytes());
        header[ECHO_ID..6].copy_from_slice(&new[0].to_be_bytes());
        return Ok(());
    }
    let ports = header.first_chunk_mut::<4>().ok_or(Unfit::Short)?;
    if *ports != joined(old) {
        return Err(Unfit::Foreign);
    }
    *ports = joined(new);
    let Some(at) = checksum_at(protocol) else { return Ok(()) };
    let field =
        header.get_mut(at..at + 2).and_then(|field| field.first_chunk_mut::<2>()).ok_or(Unfit::Short)?;
    let checksum = u16::from_be_bytes(*field);
    if checksum != 0 || protocol != IpProtocol::UDP {
        *field = never_zero(protocol, change(checksum)).to_be_bytes();
    }
    Ok(())
}

/// Source and destination port, as a header begins with them.
#[inline(always)]
pub(super) const fn joined([source, destination]: [u16; 2]) -> [u8; 4] {
    ((source as u32) << 16 | destination as u32).to_be_bytes()
}
