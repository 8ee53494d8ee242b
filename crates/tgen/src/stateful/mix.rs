//! Numbers that look like chance and follow from a seed.

/// Mixes two words: both halves of a product of which each bit depends on all bits of both.
#[inline(always)]
#[must_use]
pub const fn mix(a: u64, b: u64) -> u64 {
    let product = (a ^ 0x9e37_79b9_7f4a_7c15) as u128 * (b ^ 0xd6e8_feb8_6659_fd93) as u128;
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::mix;

    #[test]
    fn neighbours_spread_over_a_table() {
        let mut seen = [0u8; 1024];
        for n in 0..1024 {
            seen[mix(n << 16 | 80, 7) as usize % 1024] += 1;
        }
        // A random function hits about 63 % of the places, few of them more than six times.
        assert!(seen.iter().filter(|n| **n > 0).count() > 550);
        assert!(seen.iter().all(|n| *n < 12));
    }
}
