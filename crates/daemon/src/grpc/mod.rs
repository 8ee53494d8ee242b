//! The API: the service `Quiver` on a unix socket.

mod get;
mod inspect;
mod service;
mod socket;
mod status;
mod watch;

pub use service::{Service, serve};
pub use socket::{ApiSocket, SocketError, bind, check_free};
