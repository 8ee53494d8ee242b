//! Text forms of the messages: TOML and JSON.
//!
//! Field names are those of the protobuf files. Enums are words (`role = "server"`: the value's name without its
//! prefix, in lower case), addresses, prefixes and Ethernet addresses are strings, `bytes` are hexadecimal digits.
//! Whatever has its default value is left out. A field that doesn't exist is an error that names it and its place.

mod format;
pub mod hex;
pub(crate) mod interface;
mod pieces;
mod plain;
mod strings;
mod toml_error;
mod word;

pub use format::{Format, TextError, line, read_config, write};
pub use toml_error::TomlError;
pub use word::{Word, Words};

/// Whether a field has its default value and needn't be written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
