//! Numbers for people: three digits that count, and a unit.

use std::time::Duration;

/// Steps of 1000, from one up.
const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
/// Steps of 1024, from one up.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Packets per second: "12.3 Mpps".
pub(crate) fn packet_rate(per_second: f64) -> String {
    scaled(per_second, 1000.0, &DECIMAL, "pps")
}

/// Bits per second on the base of bytes per second: "9.87 Gbps".
pub(crate) fn bit_rate(bytes_per_second: f64) -> String {
    scaled(bytes_per_second * 8.0, 1000.0, &DECIMAL, "bps")
}

/// Events per second: "1.5 k/s".
pub(crate) fn event_rate(per_second: f64) -> String {
    scaled(per_second, 1000.0, &DECIMAL, "/s")
}

/// Memory: "8.00 MiB".
pub(crate) fn memory(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &BINARY, "B")
}

/// A mean of counts: "12.3"; "-" where nothing was counted.
pub(crate) fn ratio(sum: u64, count: u64) -> String {
    if count == 0 { "-".into() } else { digits(sum as f64 / count as f64) }
}

/// A share of one as per cent: "37 %".
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A time span: "12.3 s", "5m03s", "2h05m", "3d04h".
pub(crate) fn span(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{} s", digits(seconds.max(0.0)));
    }
    // Saturates where there are more seconds than u64 has.
    let whole = seconds as u64;
    let (minutes, hours, days) = (whole / 60, whole / 3600, whole / 86_400);
    match whole {
        0..3600 => format!("{minutes}m{:02}s", whole % 60),
        3600..86_400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

/// A time below seconds, of microseconds: "400 µs", "38.2 ms".
pub(crate) fn short_span(microseconds: f64) -> String {
    let (number, unit) =
        if microseconds < 1000.0 { (microseconds, "µs") } else { (microseconds / 1000.0, "ms") };
    format!("{} {unit}", digits(number))
}

/// Time of day in UTC of nanoseconds since 1970: "10:15:02.123456789".
pub(crate) fn time_of_day(timestamp_ns: u64) -> String {
    let (seconds, fraction) = (timestamp_ns / 1_000_000_000, timestamp_ns % 1_000_000_000);
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{fraction:09}", seconds % 60)
}

/// How much a counter grew per second. Counters that were cleared in between count from zero.
pub(crate) fn growth(now: u64, before: u64, elapsed: Duration) -> f64 {
    let grown = now.checked_sub(before).unwrap_or(now);
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { grown as f64 / seconds } else { 0.0 }
}

/// "1.23 M" + unit with the step that leaves 1 to 999 before the point.
fn scaled(value: f64, step: f64, prefixes: &[&str; 7], unit: &str) -> String {
    let mut value = value;
    let mut prefixes = prefixes.iter();
    let mut prefix = prefixes.next();
    // 999.5 would be rounded up to 1000.
    while value.abs() >= step - 0.5 {
        let Some(next) = prefixes.next() else { break };
        value /= step;
        prefix = Some(next);
    }
    format!("{} {}{unit}", digits(value), prefix.unwrap_or(&""))
}

/// Three digits that count; whole numbers without a point.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        assert_eq!(packet_rate(0.0), "0 pps");
        assert_eq!(packet_rate(950.0), "950 pps");
        assert_eq!(packet_rate(999.7), "1.00 kpps");
        assert_eq!(packet_rate(12_345_678.0), "12.3 Mpps");
        assert_eq!(bit_rate(1_250_000_000.0), "10 Gbps");
        assert_eq!(memory(8 << 20), "8 MiB");
        assert_eq!(memory(1_536), "1.50 KiB");
        assert_eq!(memory(u64::MAX), "16 EiB");
        assert_eq!(ratio(10, 4), "2.50");
        assert_eq!(ratio(10, 0), "-");
        assert_eq!(percent(0.374), "37 %");
    }

    #[test]
    fn times() {
        assert_eq!(span(0.25), "0.25 s");
        assert_eq!(span(59.0), "59 s");
        assert_eq!(span(303.0), "5m03s");
        assert_eq!(span(7_530.0), "2h05m");
        assert_eq!(span(273_700.0), "3d04h");
        assert_eq!(span(-1.0), "0 s");
        assert_eq!(short_span(12.34), "12.3 µs");
        assert_eq!(short_span(12_340.0), "12.3 ms");
        // 2023-11-14 22:13:20 UTC
        assert_eq!(time_of_day(1_700_000_000_000_000_042), "22:13:20.000000042");
    }

    #[test]
    fn growth_survives_cleared_counters() {
        let second = Duration::from_secs(2);
        assert_eq!(growth(30, 10, second), 10.0);
        assert_eq!(growth(4, 10, second), 2.0);
        assert_eq!(growth(4, 1, Duration::ZERO), 0.0);
    }
}
