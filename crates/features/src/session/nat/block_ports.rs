//! How a session is given a port of one of its host's blocks.

use super::super::sessions::Sessions;
use super::super::tenants::Tenants;
use super::super::translate::End;
use super::bind::{Candidate, TRIES, has_free_ports};
use super::blocks::{Binding, Block, Blocks};
use super::pool::Share;
use tables::session::{Handle, Key};
use wire::IpProtocol;

/// A session that is to be translated.
pub(super) struct Wanting<'a> {
    pub(super) worker: u32,
    pub(super) key: &'a Key,
    /// Host, remote, and whether the host is the higher endpoint.
    pub(super) ends: (End<u32>, End<u32>, bool),
}

/// The second key by which it is found, how both sides are seen beyond, and what is said of its port.
pub(super) type Found = (u32, [End<u32>; 2], Binding);

impl Sessions {
    /// A port of a block that the host has, or of one more. All of its blocks together are tried as often as a pool without blocks.
    pub(super) fn block_port(
        &mut self,
        tenants: &Tenants,
        (handle, wanting): (Handle, &Wanting<'_>),
        blocks: &Blocks,
        address: u32,
    ) -> Option<Found> {
        let (host, own) = wanting.ends.0;
        let has_none = blocks.of(address, host).next().is_none();
        let mut had = self.block_of_host(tenants, wanting, blocks, address);
        if had.is_none() {
            // Ports that can't be changed are in one block alone.
            let is_free = has_free_ports(IpProtocol(wanting.key.protocol()));
            let given =
                if is_free { blocks.give(address, host) } else { blocks.give_with(address, host, own) };
            had = match given {
                Some(block) => match self.port_in(tenants, wanting, address, (&block, TRIES)) {
                    Some(seen) => Some((block, seen)),
                    None => {
                        blocks.leave_block(&block, host);
                        None
                    }
                },
                // Another worker has given it its last one meanwhile.
                None if has_none => self.block_of_host(tenants, wanting, blocks, address),
                None => None,
            };
        }
        let (block, seen) = had?;
        match self.table.add_alias(handle, seen.key, seen.turned) {
            Ok(alias) => Some((alias, seen.beyond, blocks.tell(&block))),
            Err(_) => {
                blocks.leave_block(&block, host);
                None
            }
        }
    }

    /// A port of a block that the host has, which has one session more then.
    fn block_of_host(
        &self,
        tenants: &Tenants,
        wanting: &Wanting<'_>,
        blocks: &Blocks,
        address: u32,
    ) -> Option<(Block, Candidate)> {
        let host = wanting.ends.0.0;
        // Each as often as the others: the first one, full, leaves some for those behind it.
        let each = TRIES / blocks.of(address, host).take(TRIES).count().max(1);
        for block in blocks.of(address, host).take(TRIES) {
            if let Some(seen) = self.port_in(tenants, wanting, address, (&block, each))
                && blocks.join(&block, host)
            {
                return Some((block, seen));
            }
        }
        None
    }

    /// How both sides of a session that began now would be seen.
    pub(super) fn would_have_block_port(
        &self,
        tenants: &Tenants,
        wanting: &Wanting<'_>,
        blocks: &Blocks,
        address: u32,
    ) -> Option<[End<u32>; 2]> {
        let (host, own) = wanting.ends.0;
        let is_free = has_free_ports(IpProtocol(wanting.key.protocol()));
        let next = || blocks.next(address, host, |block| is_free || block.ports.contains(&own));
        let has = blocks
            .of(address, host)
            .find_map(|block| self.port_in(tenants, wanting, address, (&block, TRIES)));
        let seen = has.or_else(|| self.port_in(tenants, wanting, address, (&next()?, TRIES)))?;
        Some(seen.beyond)
    }

    fn port_in(
        &self,
        tenants: &Tenants,
        wanting: &Wanting<'_>,
        address: u32,
        (block, tries): (&Block, usize),
    ) -> Option<Candidate> {
        let share = Share { address, ports: block.ports.clone() };
        self.port(tenants, wanting.worker, (wanting.key, wanting.ends), &share, tries)
    }
}
