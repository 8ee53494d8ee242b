//! A connection that was over begins anew, in the session that there is of it.

use super::entry::Direction;
use super::events::End;
use super::renewal::whole;
use super::sessions::Sessions;
use super::tenants::Tenants;
use graph::IfIndex;
use std::sync::atomic::Ordering;

impl Sessions {
    /// It does with a packet of `bytes` from that side of it, by that interface: what is counted is its own, and services see it as new.
    ///
    /// # Errors
    /// Why the packet is dropped, and the session has ended: `gone` where it is another tenant's now, so that one may begin there; `refused` where its source has as many as it may.
    #[cold]
    pub(super) fn restart(
        &mut self,
        tenants: &Tenants,
        index: u32,
        (interface, side, bytes): (IfIndex, Direction, u32),
        tick: u64,
        (gone, refused): (u16, u16),
    ) -> Result<(), u16> {
        self.now_is(tick);
        let number = self.table.get(index).ok_or(gone)?.tenant;
        if tenants.is_anothers(interface, number) {
            self.end(index, End::Reconfigured);
            return Err(gone);
        }
        if !self.begins_again(tenants, index, interface) {
            self.end(index, End::Finished);
            if let Some(tenant) = tenants.get(number) {
                tenant.occupancy.refused.fetch_add(1, Ordering::Relaxed);
            }
            self.dropped.count(tenants, number, refused);
            return Err(refused);
        }
        self.tell_reopened(index, side, bytes);
        self.count_anew(index, (side, bytes), tick);
        let (handle, _, session) = self.table.visit(index).ok_or(gone)?;
        // Its chain is its tenant's again. (One that is given another backend keeps its own.)
        self.decided.reset(handle);
        if let Some(tenant) = tenants.get(number) {
            session.chain = whole(tenant, session, handle, &self.translations);
        }
        self.begins_at(index, interface);
        self.moved(tenants, index, tick);
        self.tell_anew(index);
        Ok(())
    }
}
