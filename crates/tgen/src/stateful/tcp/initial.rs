//! Where sequence numbers begin.

use super::Rules;
use super::tcb::before;
use crate::stateful::address::Address;
use crate::stateful::clock::Now;
use crate::stateful::mix::mix;

/// An end: address and port.
type End<A> = (A, u16);

/// The initial sequence number of a connection (RFC 6528 section 3): a timer of 4 µs, which all runs on a machine have in
/// common, and a hash of both ends with the seed as its key. So a run that uses the addresses and ports of one before begins
/// behind its numbers, and whoever still holds those connections in TIME-WAIT takes the new ones (RFC 9293 section 3.6.1).
/// There is nobody to guess numbers here: the hash needn't be a cryptographic one.
#[inline(always)]
pub(super) fn initial<A: Address>(local: End<A>, remote: End<A>, rules: &Rules, now: Now) -> u32 {
    let addresses = local.0.bits().rotate_left(32) ^ remote.0.bits();
    let ports = u64::from(local.1) << 16 | u64::from(remote.1);
    let hash = mix(mix(addresses, ports), rules.seed) as u32;
    rules.epoch.wrapping_add(now.timer).wrapping_add(hash)
}

/// The same for a connection whose ends were those of one that has sent up to before `max`: where connections use numbers up
/// faster than the timer goes, the next begins right behind.
#[inline(always)]
pub(super) fn following<A: Address>(max: u32, local: End<A>, remote: End<A>, rules: &Rules, now: Now) -> u32 {
    let iss = initial(local, remote, rules, now);
    if before(max, iss) { iss } else { max.wrapping_add(1) }
}
