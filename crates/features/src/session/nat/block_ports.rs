//! How a session is given a port of one of its host's blocks.

use super::super::sessions::Sessions;
use super::super::tenants::Tenants;
use super::super::translate::End;
use super::bind::{Candidate, NoPort, TRIES, has_free_ports};
use super::blocks::{Binding, Block, Blocks, Given};
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

impl Wanting<'_> {
    /// Whether it can have a port of the block: ports that can't be changed are in one block alone.
    fn fits(&self, block: &Block) -> bool {
        has_free_ports(IpProtocol(self.key.protocol())) || block.ports.contains(&self.ends.0.1)
    }

    /// Why its host, whose blocks are at that address, is given no block more.
    fn refused(&self, blocks: &Blocks, home: Option<u32>) -> NoPort {
        let is_free = has_free_ports(IpProtocol(self.key.protocol()));
        let has = |home| blocks.of(home, self.ends.0.0).any(|block| self.fits(&block));
        match home {
            None => NoPort::NoBlock,
            // It has the only one that fits.
            Some(home) if !is_free && has(home) => NoPort::Exhausted,
            Some(_) => NoPort::NoMore,
        }
    }
}

/// How often a session is begun with where other workers give its host blocks, or take them back, at the same time.
const TURNS: usize = 8;

/// A port of a block that a host has.
enum Had {
    /// It has this one.
    Port(Block, Candidate),
    /// None is to be had.
    Nothing,
    /// There was one, and its block isn't the host's any more.
    Lost,
}

/// The second key by which it is found, how both sides are seen beyond, and what is said of its port.
pub(super) type Found = (u32, [End<u32>; 2], Binding);

impl Sessions {
    /// A port of a block that the host has, or of one more; `first` is the address that its order begins with. All of its blocks together are tried as often as a pool without blocks.
    ///
    /// # Errors
    /// [`NoPort`] where there is none.
    pub(super) fn block_port(
        &mut self,
        tenants: &Tenants,
        (handle, wanting): (Handle, &Wanting<'_>),
        blocks: &Blocks,
        first: u32,
    ) -> Result<Found, NoPort> {
        let host = wanting.ends.0.0;
        for _ in 0..TURNS {
            let home = blocks.home(first, host);
            let had =
                home.map_or(Had::Nothing, |home| self.block_of_host(tenants, wanting, blocks, (first, home)));
            let (block, seen) = match had {
                Had::Port(block, seen) => (block, seen),
                Had::Lost => continue,
                Had::Nothing => match blocks.give((first, home), host, |block| wanting.fits(block)) {
                    Given::Block(block) => match self.port_in(tenants, wanting, (&block, TRIES)) {
                        Some(seen) => (block, seen),
                        None => {
                            blocks.leave_block(&block, host);
                            return Err(NoPort::Exhausted);
                        }
                    },
                    Given::Lost => continue,
                    // Another worker has given it its last one meanwhile.
                    Given::Nothing if home.is_none() && blocks.home(first, host).is_some() => continue,
                    Given::Nothing => return Err(wanting.refused(blocks, home)),
                },
            };
            let Ok(alias) = self.table.add_alias(handle, seen.key, seen.turned) else {
                blocks.leave_block(&block, host);
                return Err(NoPort::Exhausted);
            };
            return Ok((alias, seen.beyond, blocks.tell(&block)));
        }
        Err(NoPort::NoMore)
    }

    /// A port of a block that the host has at its address, which has one session more then.
    fn block_of_host(
        &self,
        tenants: &Tenants,
        wanting: &Wanting<'_>,
        blocks: &Blocks,
        (first, home): (u32, u32),
    ) -> Had {
        let host = wanting.ends.0.0;
        // Each as often as the others: the first one, full, leaves some for those behind it.
        let each = TRIES / blocks.of(home, host).take(TRIES).count().max(1);
        let mut had = Had::Nothing;
        for block in blocks.of(home, host).take(TRIES) {
            if let Some(seen) = self.port_in(tenants, wanting, (&block, each)) {
                if blocks.join(first, &block, host) {
                    return Had::Port(block, seen);
                }
                had = Had::Lost;
            }
        }
        had
    }

    /// How both sides of a session that began now would be seen.
    ///
    /// # Errors
    /// [`NoPort`] as [`Sessions::block_port`].
    pub(super) fn would_have_block_port(
        &self,
        tenants: &Tenants,
        wanting: &Wanting<'_>,
        blocks: &Blocks,
        first: u32,
    ) -> Result<[End<u32>; 2], NoPort> {
        let host = wanting.ends.0.0;
        let home = blocks.home(first, host);
        let mut its = home.into_iter().flat_map(|home| blocks.of(home, host));
        if let Some(seen) = its.find_map(|block| self.port_in(tenants, wanting, (&block, TRIES))) {
            return Ok(seen.beyond);
        }
        let next = blocks.next((first, home), host, |block| wanting.fits(block));
        let next = next.ok_or_else(|| wanting.refused(blocks, home))?;
        let seen = self.port_in(tenants, wanting, (&next, TRIES)).ok_or(NoPort::Exhausted)?;
        Ok(seen.beyond)
    }

    fn port_in(
        &self,
        tenants: &Tenants,
        wanting: &Wanting<'_>,
        (block, tries): (&Block, usize),
    ) -> Option<Candidate> {
        let share = Share { address: block.address, ports: block.ports.clone() };
        self.port(tenants, wanting.worker, (wanting.key, wanting.ends), &share, tries)
    }
}
