//! Enums as words.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Unexpected, Visitor};
use serde::{Deserializer, Serializer};

/// An enum of the protobuf files with its words; implemented for all of them at build time.
pub trait Words: Copy + TryFrom<i32> + Into<i32> + 'static {
    /// What all value names begin with: "MEMIF_ROLE_".
    const PREFIX: &'static str;
    /// The words, without the one for "not said".
    const WORDS: &'static [&'static str];

    /// Name of the value in the protobuf file.
    fn proto_name(&self) -> &'static str;
    /// The value of that name.
    fn from_proto_name(name: &str) -> Option<Self>;

    /// The word for this value: "server"; "unspecified" if nothing was said.
    fn word(&self) -> String {
        self.proto_name().trim_start_matches(Self::PREFIX).to_lowercase()
    }

    /// The value a word stands for.
    fn from_word(word: &str) -> Option<Self> {
        let known = Self::WORDS.contains(&word);
        known.then(|| Self::from_proto_name(&format!("{}{}", Self::PREFIX, word.to_uppercase()))).flatten()
    }
}

include!(concat!(env!("OUT_DIR"), "/words.rs"));

/// Reads and writes the `i32` that prost keeps for a field of enum `E` as a word: `#[serde(with = "Word::<E>")]`.
#[derive(Debug)]
pub struct Word<E>(PhantomData<E>);

impl<E: Words> Word<E> {
    /// Writes the word; a value this version doesn't know becomes "unknown-17".
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(value: &i32, serializer: S) -> Result<S::Ok, S::Error> {
        match E::try_from(*value) {
            Ok(value) => serializer.serialize_str(&value.word()),
            Err(_) => serializer.serialize_str(&format!("unknown-{value}")),
        }
    }

    /// Reads a word.
    ///
    /// # Errors
    /// If it is none of the enum's words; the error lists them.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
        deserializer.deserialize_str(Self(PhantomData))
    }
}

impl<E: Words> Visitor<'_> for Word<E> {
    type Value = i32;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = E::WORDS.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>();
        write!(formatter, "one of {}", words.join(", "))
    }

    fn visit_str<R: serde::de::Error>(self, word: &str) -> Result<i32, R> {
        E::from_word(word).map(Into::into).ok_or_else(|| R::invalid_value(Unexpected::Str(word), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{GeneratorProtocol, MemifRole};

    #[test]
    fn a_word_is_the_name_without_prefix() {
        assert_eq!(MemifRole::Client.word(), "client");
        assert_eq!(GeneratorProtocol::from_word("tcp_syn"), Some(GeneratorProtocol::TcpSyn));
        assert_eq!(MemifRole::WORDS, ["server", "client"]);
    }

    #[test]
    fn what_is_no_word_is_refused() {
        for wrong in ["", "Server", "SERVER", "unspecified", "master", "role_server"] {
            assert_eq!(MemifRole::from_word(wrong), None, "{wrong}");
        }
    }
}
