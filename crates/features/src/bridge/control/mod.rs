//! Configuration of bridges turned into tables, and the care of their address table: called by the control thread.
//!
//! * [`BridgeConfig::build`]: what workers see of a bridge; [`set_addresses`]: what the address table may have of all of them.
//! * [`age`]: forgets addresses, in steps; [`addresses`]: what bridges know, for `show bridge`.

mod addresses;
mod config;

pub use addresses::{Address, HeldAddress, Place, addresses, age, forget, review_moves, set_addresses};
pub use config::{BridgeConfig, BridgeError, MAX_AGE, StaticMac, default_share};
