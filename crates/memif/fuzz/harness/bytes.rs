//! Decisions from bytes.

/// Reads numbers off bytes; zeros once they are used up.
pub struct Bytes<'d>(pub &'d [u8]);

impl Bytes<'_> {
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let n = N.min(self.0.len());
        taken[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        taken
    }

    pub fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    pub fn long(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    /// One of these, or, rarely, any number.
    pub fn one_of(&mut self, usual: &[u32]) -> u32 {
        match usize::from(self.byte()) {
            n if n < 224 => usual[n % usual.len()],
            _ => self.long(),
        }
    }
}
