//! A packet in words, one line for each header: for traces, from a head alone.
//!
//! ```
//! use quiver_wire::{LinkType, describe::Describe};
//!
//! let head = [
//!     0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, 17, 0x25, 0xb9, 10, 0, 0, 1, 10, 0, 1, 2, // IPv4
//!     4, 210, 0, 80, 0, 30, // and three quarters of a UDP header
//! ];
//! let text = Describe::new(LinkType::RAW, &head).to_string();
//! assert_eq!(
//!     text,
//!     "IP4: 10.0.0.1 -> 10.0.1.2 UDP ttl 64 len 50 DF\n\
//!      UDP: cut off: header takes 8 bytes, 6 are there"
//! );
//! ```

mod layers;
mod text;

pub use layers::{Layer, Layers, MAX_LAYERS};

use core::fmt;

use crate::LinkType;

/// Writes a packet's headers, one line each, without a line feed at the end.
#[derive(Clone, Copy, Debug)]
pub struct Describe<'a> {
    link: LinkType,
    head: &'a [u8],
}

impl<'a> Describe<'a> {
    /// Of the packet that begins with `head`; the packet may be longer.
    #[must_use]
    pub const fn new(link: LinkType, head: &'a [u8]) -> Self {
        Self { link, head }
    }

    /// The headers one by one.
    #[must_use]
    pub const fn layers(&self) -> Layers<'a> {
        Layers::new(self.link, self.head)
    }
}

impl fmt::Display for Describe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, layer) in self.layers().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            layer.fmt(f)?;
        }
        Ok(())
    }
}
