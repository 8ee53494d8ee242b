//! Log lines of MAC addresses that are held: one when it begins and one when it ends, for some addresses per second.

use features::bridge::control::{HeldAddress, Place, review_moves};
use memory::clock::nanoseconds;
use tables::token_bucket::TokenBucket;

use super::core::Core;
use super::directory::Inventory;

/// How many lines may still be written.
#[derive(Debug)]
pub(super) struct HeldMacs {
    lines: TokenBucket,
    suppressed: u64,
}

impl Default for HeldMacs {
    fn default() -> Self {
        Self { lines: TokenBucket::per_second(1, 20), suppressed: 0 }
    }
}

impl HeldMacs {
    fn log(&mut self, now: u64, inventory: &Inventory, held: &HeldAddress) {
        if !self.lines.take(now) {
            self.suppressed += 1;
            return;
        }
        let suppressed = std::mem::take(&mut self.suppressed);
        let HeldAddress { mac, place, contender, begins, .. } = *held;
        let bridge = inventory.bridges.values().find(|bridge| bridge.index == held.bridge);
        let bridge = bridge.map(|bridge| bridge.spec.name.to_string()).unwrap_or_default();
        let interface = match place {
            Place::Interface(index) => inventory.registry.name(index),
            Place::Blocked => String::new(),
        };
        let contender = inventory.registry.name(contender);
        if begins {
            tracing::warn!(
                bridge, %mac, interface, contender, suppressed,
                "MAC address is held at its member: another member has taken it too often (a loop, or an address used twice)"
            );
        } else {
            tracing::info!(bridge, %mac, interface, contender, suppressed, "MAC address is no longer held");
        }
    }
}

impl Core {
    /// Logs addresses that are held since the last call, and those that no longer are, for a part of the table at a time.
    pub(super) fn review_moves(&mut self) {
        let now = nanoseconds();
        // All of it every two seconds or so, as for ageing.
        let step = self.macs.buckets().div_ceil(20);
        let held = review_moves(self.publisher.current().get(self.keys.bridges), now, step);
        if !held.is_empty() {
            let inventory = self.directory.get();
            held.iter().for_each(|held| self.held_macs.log(now, &inventory, held));
        }
    }
}
