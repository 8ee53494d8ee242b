//! As much HTTP/1.1 as scrapers and probes speak: one GET for each connection.

mod endpoint;
mod request;
mod server;

pub use endpoint::{Endpoint, EndpointError};
pub use server::{Page, Pages, serve};
