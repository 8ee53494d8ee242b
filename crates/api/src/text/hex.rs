//! Bytes as hexadecimal digits.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// Hexadecimal digits could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum HexError {
    /// A character is no digit.
    #[error("character {0:?} is no hexadecimal digit")]
    Digit(char),
    /// The last byte has one digit only.
    #[error("odd number of hexadecimal digits; each byte takes two")]
    Odd,
}

/// The digits of `bytes`, lower case, without separators.
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).collect()
}

/// The bytes that `text` stands for; white space and colons between digits are skipped.
///
/// # Errors
/// [`HexError`] if a character is no digit or their number is odd.
pub fn decode(text: &str) -> Result<Vec<u8>, HexError> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for character in text.chars().filter(|character| !character.is_whitespace() && *character != ':') {
        let digit = character.to_digit(16).ok_or(HexError::Digit(character))?;
        let digit = u8::try_from(digit).map_err(|_| HexError::Digit(character))?;
        match high.take() {
            None => high = Some(digit << 4),
            Some(high) => bytes.push(high | digit),
        }
    }
    if high.is_some() { Err(HexError::Odd) } else { Ok(bytes) }
}

/// For `#[serde(with = "hex")]`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&encode(bytes))
}

/// For `#[serde(with = "hex")]`.
///
/// # Errors
/// If the text isn't hexadecimal.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    decode(&Cow::<str>::deserialize(deserializer)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        let bytes = (0..=255).collect::<Vec<u8>>();
        assert_eq!(decode(&encode(&bytes)), Ok(bytes));
        assert_eq!(encode(&[0x0f, 0xa0]), "0fa0");
    }

    #[test]
    fn people_write_it_in_their_own_ways() {
        assert_eq!(decode("02:FE 00\n01"), Ok(vec![2, 0xfe, 0, 1]));
        assert_eq!(decode("02f"), Err(HexError::Odd));
        assert_eq!(decode("0g"), Err(HexError::Digit('g')));
    }
}
