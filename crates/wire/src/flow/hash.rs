//! The mixing: 64 x 64 -> 128 bit multiplication whose halves are xored.

/// Constants without pattern: the fractions of the square roots of 2, 3, 5 and 7 (as in SHA-512).
const K: [u64; 4] =
    [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1];

/// Every bit of both numbers reaches every bit of the result.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// An IPv6 address and port as one number. The IPv4 pair needs no hash: it fits into 48 bits.
#[inline]
pub(super) const fn endpoint(address: u128, port: u16, seed: u64) -> u64 {
    let mixed = fold((address >> 64) as u64 ^ K[2] ^ seed, address as u64 ^ K[3]);
    mixed.wrapping_add((port as u64).wrapping_mul(K[1]))
}

/// Two endpoints, in their order, and the protocol.
#[inline]
pub(super) const fn pair(a: u64, b: u64, protocol: u8, seed: u64) -> u32 {
    // spread over all bits first: a change of one low bit alone would not reach every bit of the result
    let protocol = (protocol as u64).wrapping_mul(K[3]);
    let mixed = fold(a ^ K[0] ^ seed, b ^ K[1] ^ seed.rotate_left(32) ^ protocol);
    let mixed = fold(mixed, K[2]);
    (mixed ^ (mixed >> 32)) as u32
}

/// Two endpoints in either order, and the protocol.
#[inline]
pub(super) const fn unordered_pair(a: u64, b: u64, protocol: u8, seed: u64) -> u32 {
    if a <= b { pair(a, b, protocol, seed) } else { pair(b, a, protocol, seed) }
}

/// One of `n` for a hash: its high bits, scaled (`hash * n / 2^32`). 0 when `n` is 0.
///
/// Changing `n` moves flows; where that must not be, use a table (resilient hashing, Maglev).
#[inline]
#[must_use]
pub const fn pick(hash: u32, n: u32) -> u32 {
    ((hash as u64 * n as u64) >> 32) as u32
}
