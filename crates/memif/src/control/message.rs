//! The messages of the control channel: 128 bytes each, little-endian, type u16 at 0, payload from 2.

use super::secret::SECRET_LEN;
use super::{Reason, Secret, Text};

/// Bytes of every message.
pub const MESSAGE_SIZE: usize = 128;
/// The version this crate speaks: 2.0.
pub const VERSION: u16 = 0x0200;

type Bytes = [u8; MESSAGE_SIZE];

/// A message.
#[derive(Debug, Clone)]
pub enum Message {
    /// Server: the last message was accepted.
    Ack,
    /// Server: what it can do. The first message on a connection.
    Hello(Hello),
    /// Client: which interface it wants, and why it should get it.
    Init(Init),
    /// Client: a region; its memfd comes along.
    AddRegion(AddRegion),
    /// Client: a ring; its eventfd comes along.
    AddRing(AddRing),
    /// Client: all is announced.
    Connect {
        /// The client's name of the interface.
        interface: Text<32>,
    },
    /// Server: packets may flow.
    Connected {
        /// The server's name of the interface.
        interface: Text<32>,
    },
    /// Either side: it is over.
    Disconnect {
        /// A number: 0 by custom, or that of a [`Refusal`](super::Refusal).
        code: u32,
        /// Why.
        reason: Text<96>,
    },
}

/// Payload of HELLO. The limits are highest indices: one less than counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Name of the server's application.
    pub name: Text<32>,
    /// Oldest version it speaks.
    pub min_version: u16,
    /// Newest version it speaks.
    pub max_version: u16,
    /// Highest region index.
    pub max_region: u16,
    /// Highest index of a ring from server to client.
    pub max_m2s_ring: u16,
    /// Highest index of a ring from client to server.
    pub max_s2m_ring: u16,
    /// Binary logarithm of the largest ring.
    pub max_log2_ring_size: u8,
}

/// Payload of INIT.
#[derive(Debug, Clone)]
pub struct Init {
    /// Version the client chose.
    pub version: u16,
    /// Which interface of the server.
    pub id: u32,
    /// Interface mode as a number; see [`Mode`](super::Mode).
    pub mode: u8,
    /// The secret, if any.
    pub secret: Option<Secret>,
    /// Name of the client's application.
    pub name: Text<32>,
}

/// Payload of ADD_REGION.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddRegion {
    /// Its index; counted up from 0.
    pub index: u16,
    /// Bytes.
    pub size: u64,
}

/// Payload of ADD_RING.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddRing {
    /// Bit 0: from client to server.
    pub flags: u16,
    /// Its index among the rings of its direction; counted up from 0.
    pub index: u16,
    /// Region it lies in.
    pub region: u16,
    /// Where in the region, in bytes.
    pub offset: u32,
    /// Binary logarithm of its size.
    pub log2_ring_size: u8,
    /// Must be 0.
    pub private_hdr_size: u16,
}

/// Flag of ADD_RING: from client to server.
pub const RING_S2M: u16 = 1;

impl Message {
    /// Whether a descriptor comes with it.
    #[must_use]
    pub const fn has_descriptor(&self) -> bool {
        matches!(self, Self::AddRegion(_) | Self::AddRing(_))
    }

    /// Its name in the protocol.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ack => "ACK",
            Self::Hello(_) => "HELLO",
            Self::Init(_) => "INIT",
            Self::AddRegion(_) => "ADD_REGION",
            Self::AddRing(_) => "ADD_RING",
            Self::Connect { .. } => "CONNECT",
            Self::Connected { .. } => "CONNECTED",
            Self::Disconnect { .. } => "DISCONNECT",
        }
    }

    /// Its 128 bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut b = [0; MESSAGE_SIZE];
        let number: u16 = match self {
            Self::Ack => 1,
            Self::Hello(hello) => {
                hello.name.write(&mut b[2..34]);
                b[34..36].copy_from_slice(&hello.min_version.to_le_bytes());
                b[36..38].copy_from_slice(&hello.max_version.to_le_bytes());
                b[38..40].copy_from_slice(&hello.max_region.to_le_bytes());
                b[40..42].copy_from_slice(&hello.max_m2s_ring.to_le_bytes());
                b[42..44].copy_from_slice(&hello.max_s2m_ring.to_le_bytes());
                b[44] = hello.max_log2_ring_size;
                2
            }
            Self::Init(init) => {
                b[2..4].copy_from_slice(&init.version.to_le_bytes());
                b[4..8].copy_from_slice(&init.id.to_le_bytes());
                b[8] = init.mode;
                if let Some(secret) = &init.secret {
                    b[9..33].copy_from_slice(secret.bytes());
                }
                init.name.write(&mut b[33..65]);
                3
            }
            Self::AddRegion(region) => {
                b[2..4].copy_from_slice(&region.index.to_le_bytes());
                b[4..12].copy_from_slice(&region.size.to_le_bytes());
                4
            }
            Self::AddRing(ring) => {
                b[2..4].copy_from_slice(&ring.flags.to_le_bytes());
                b[4..6].copy_from_slice(&ring.index.to_le_bytes());
                b[6..8].copy_from_slice(&ring.region.to_le_bytes());
                b[8..12].copy_from_slice(&ring.offset.to_le_bytes());
                b[12] = ring.log2_ring_size;
                b[13..15].copy_from_slice(&ring.private_hdr_size.to_le_bytes());
                5
            }
            Self::Connect { interface } => {
                interface.write(&mut b[2..34]);
                6
            }
            Self::Connected { interface } => {
                interface.write(&mut b[2..34]);
                7
            }
            Self::Disconnect { code, reason } => {
                b[2..6].copy_from_slice(&code.to_le_bytes());
                reason.write(&mut b[6..102]);
                8
            }
        };
        b[..2].copy_from_slice(&number.to_le_bytes());
        b
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`Reason::MessageSize`] unless it has 128 bytes, [`Reason::UnknownMessage`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Reason> {
        let b: &Bytes = bytes.try_into().map_err(|_| Reason::MessageSize(bytes.len()))?;
        Ok(match u16_at(b, 0) {
            1 => Self::Ack,
            2 => Self::Hello(Hello {
                name: Text::read(&b[2..34]),
                min_version: u16_at(b, 34),
                max_version: u16_at(b, 36),
                max_region: u16_at(b, 38),
                max_m2s_ring: u16_at(b, 40),
                max_s2m_ring: u16_at(b, 42),
                max_log2_ring_size: b[44],
            }),
            3 => Self::Init(Init {
                version: u16_at(b, 2),
                id: u32::from_le_bytes(at(b, 4)),
                mode: b[8],
                secret: Secret::read(at::<SECRET_LEN>(b, 9)),
                name: Text::read(&b[33..65]),
            }),
            4 => Self::AddRegion(AddRegion { index: u16_at(b, 2), size: u64::from_le_bytes(at(b, 4)) }),
            5 => Self::AddRing(AddRing {
                flags: u16_at(b, 2),
                index: u16_at(b, 4),
                region: u16_at(b, 6),
                offset: u32::from_le_bytes(at(b, 8)),
                log2_ring_size: b[12],
                private_hdr_size: u16_at(b, 13),
            }),
            6 => Self::Connect { interface: Text::read(&b[2..34]) },
            7 => Self::Connected { interface: Text::read(&b[2..34]) },
            8 => Self::Disconnect { code: u32::from_le_bytes(at(b, 2)), reason: Text::read(&b[6..102]) },
            other => return Err(Reason::UnknownMessage(other)),
        })
    }
}

/// `N` bytes from a constant place inside the message.
fn at<const N: usize>(b: &Bytes, from: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&b[from..from + N]);
    field
}

fn u16_at(b: &Bytes, from: usize) -> u16 {
    u16::from_le_bytes(at(b, from))
}

#[cfg(test)]
mod tests;
