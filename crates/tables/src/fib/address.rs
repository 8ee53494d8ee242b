//! What the trie needs to know of an address: its width, and how to take bits from its top.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};

/// An address in host byte order: `u32` for IPv4, `u128` for IPv6. Sealed: the trie is tested for these two.
pub trait Address: sealed::Sealed + Copy + Eq + Ord + Hash + Debug + Send + Sync + 'static {
    /// Width in bits.
    const BITS: u8;
    /// Whether runs of nodes with a single way down are folded into one (worth it from three levels on).
    const FOLDS: bool;
    /// What hash tables have for it.
    type Packed: Copy + Eq + Hash + Debug + Send + Sync;

    /// The upper 16 bits: index of the root.
    fn root(self) -> usize;
    /// The 8 bits that follow the first `depth` bits; `depth` is a multiple of 8 below [`Self::BITS`].
    fn byte(self, depth: u32) -> u8;
    /// The address with all but the first `len` bits cleared.
    #[must_use]
    fn masked(self, len: u8) -> Self;
    /// The address as the upper bits of a `u128`.
    fn widen(self) -> u128;
    /// Inverse of [`widen`](Self::widen); lower bits are lost.
    fn narrow(wide: u128) -> Self;
    /// The address as the key of a hash table.
    fn packed(self) -> Self::Packed;
    /// Inverse of [`packed`](Self::packed).
    fn unpacked(packed: Self::Packed) -> Self;
}

/// An IPv6 address that lies anywhere: a `u128` begins at multiples of 16 bytes, so that one with an id takes 32, and this one 20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed128([u32; 4]);

impl Hash for Packed128 {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(u128::unpacked(*self));
    }
}

macro_rules! address {
    ($int:ty, folds: $folds:literal, $packed:ty: $pack:expr, $unpack:expr) => {
        impl sealed::Sealed for $int {}
        impl Address for $int {
            const BITS: u8 = <$int>::BITS as u8;
            const FOLDS: bool = $folds;
            type Packed = $packed;

            #[inline]
            fn root(self) -> usize {
                (self >> (<$int>::BITS - 16)) as usize
            }
            #[inline]
            fn byte(self, depth: u32) -> u8 {
                // A 128-bit shift by a variable is slow: choose the half, then shift that.
                let wide = self.widen();
                let half = if depth < 64 { (wide >> 64) as u64 } else { wide as u64 };
                ((half << (depth % 64)) >> 56) as u8
            }
            #[inline]
            fn masked(self, len: u8) -> Self {
                self & <$int>::MAX.checked_shl(<$int>::BITS - u32::from(len)).unwrap_or(0)
            }
            #[inline]
            fn widen(self) -> u128 {
                (self as u128) << (128 - <$int>::BITS)
            }
            #[inline]
            fn narrow(wide: u128) -> Self {
                (wide >> (128 - <$int>::BITS)) as $int
            }
            #[inline]
            fn packed(self) -> $packed {
                $pack(self)
            }
            #[inline]
            fn unpacked(packed: $packed) -> Self {
                $unpack(packed)
            }
        }
    };
}

address!(u32, folds: false, u32: |own| own, |packed| packed);
address!(u128, folds: true, Packed128: pack128, unpack128);

#[inline]
fn pack128(address: u128) -> Packed128 {
    Packed128([0, 32, 64, 96].map(|shift| (address >> shift) as u32))
}

#[inline]
fn unpack128(Packed128([a, b, c, d]): Packed128) -> u128 {
    [d, c, b, a].into_iter().fold(0, |address, word| address << 32 | u128::from(word))
}

mod sealed {
    pub trait Sealed {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_taken_from_the_top() {
        let v4 = 0x0a01_02ffu32;
        assert_eq!((v4.root(), v4.byte(16), v4.byte(24)), (0x0a01, 0x02, 0xff));
        assert_eq!((v4.masked(0), v4.masked(9), v4.masked(32)), (0, 0x0a00_0000, v4));
        let v6 = 0x2001_0db8_0000_0000_0000_0000_0000_00abu128;
        assert_eq!((v6.root(), v6.byte(16), v6.byte(24), v6.byte(120)), (0x2001, 0x0d, 0xb8, 0xab));
        assert_eq!((v6.masked(0), v6.masked(32), v6.masked(128)), (0, 0x2001_0db8 << 96, v6));
        assert_eq!((u32::narrow(v4.widen()), u128::narrow(v6.widen())), (v4, v6));
        assert_eq!((u32::unpacked(v4.packed()), u128::unpacked(v6.packed())), (v4, v6));
        assert_eq!(size_of::<(Packed128, u32)>(), 20);
    }
}
