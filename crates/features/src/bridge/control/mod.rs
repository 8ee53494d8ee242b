//! Configuration of bridges turned into tables, and the care of their address table: called by the control thread.
//!
//! * [`BridgeConfig::build`]: what workers see of a bridge; [`BridgeConfig::set_addresses`]: its fixed addresses.
//! * [`age`]: forgets addresses, in steps; [`addresses`]: what a bridge knows, for `show bridge`.

mod addresses;
mod config;

pub use addresses::{Address, Place, addresses, age, forget};
pub use config::{BridgeConfig, BridgeError, StaticMac};
