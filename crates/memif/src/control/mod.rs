//! The control channel: how a client announces its memory to a server.
//!
//! Everything here is without I/O. [`ServerMachine`] and [`ClientMachine`] take the bytes of a message and
//! the descriptors that came with it, and give what to send and, in the end, a
//! [`Connection`](crate::Connection). Each message is legal in one state only, every limit announced is
//! enforced, and whatever a peer does wrong is a [`Reason`].

mod client;
mod config;
mod message;
mod quota;
mod reason;
mod secret;
mod server;
mod text;

pub use client::{Announcement, ClientMachine, ClientNext, ClientStep, Unsealed};
pub use config::{Admission, ClientConfig, DEFAULT_MAX_PACKET, Mode, QueueConfig, ServerConfig};
pub use message::{AddRegion, AddRing, Hello, Init, MESSAGE_SIZE, Message, RING_S2M, VERSION};
pub(crate) use quota::Lease;
pub use quota::{Amount, Member, Quota, Scope};
pub use reason::{Reason, Refusal, Stranger};
pub use secret::{BadSecret, Secret};
pub use server::{Interfaces, Limits, ServerMachine, ServerNext, ServerStep, Unmapped};
pub use text::Text;
