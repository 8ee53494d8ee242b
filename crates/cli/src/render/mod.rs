//! Tables, numbers and colours.

pub(crate) mod number;
mod paint;
mod table;

pub(crate) use paint::{ColorChoice, Paint, Tone};
pub(crate) use table::{Cell, Column, Table};

/// "10.0.0.1:53", "[fd00::1]:53".
pub(crate) fn endpoint(address: &str, port: u32) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}
