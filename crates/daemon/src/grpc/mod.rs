//! The API: the service `Quiver` on a unix socket.

mod get;
mod inspect;
mod limits;
mod service;
mod status;
mod watch;

pub use limits::LIMITS;
pub use service::{Service, serve};
