//! quiverd with two services and a parser more. Everything else is as in Quiver's own: settings, API, state, metrics.

mod amplification_guard;
mod first_packets;
mod quic_connections;

use std::process::ExitCode;

fn main() -> ExitCode {
    quiverd::program::run_with(
        &[amplification_guard::SERVICE, first_packets::SERVICE],
        &[quic_connections::PARSER],
    )
}
