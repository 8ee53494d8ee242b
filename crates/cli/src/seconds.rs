//! Times on the command line.

use std::time::Duration;

/// Reads "2", "0.5", "500ms", "10s", "5m", "1h".
///
/// # Errors
/// A text for the user if it is none of these, or not above zero.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let factor = match text.get(digits.len()..) {
        Some("" | "s") => 1.0,
        Some("ms") => 1e-3,
        Some("m" | "min") => 60.0,
        Some("h") => 3600.0,
        _ => return Err("take a number of seconds, or 500ms, 10s, 5m, 1h".into()),
    };
    let number: f64 = digits.trim().parse().map_err(|_| "take a number of seconds, or 500ms, 10s, 5m, 1h")?;
    if number.is_nan() || number <= 0.0 {
        return Err("must be above zero".into());
    }
    Duration::try_from_secs_f64(number * factor).map_err(|_| "is too long".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        for (text, milliseconds) in
            [("2", 2000), ("0.5", 500), ("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn nonsense() {
        for text in ["", "s", "0", "-1", "nan", "inf", "10 parsecs", "1e300h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
