//! Durations, times, byte counts and sizes as users write and read them: `500ms`, `1m30s`, `64K`, `120x40`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::rfc3339;

/// Parses `500ms`, `10s`, `5m`, `1h30m`, `2d`; a bare number is seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("{text:?} is not a duration such as 500ms, 10s, 5m or 1h30m");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let ms = match &rest[..letters] {
            "ms" => 1.0,
            "s" => 1e3,
            // Only as the first number: "1m30" is ambiguous.
            "" if total == 0.0 => 1e3,
            "m" => 60e3,
            "h" => 3_600e3,
            "d" => 86_400e3,
            _ => return Err(invalid()),
        };
        rest = &rest[letters..];
        total += number * ms;
    }
    if !total.is_finite() || total > 1e15 {
        return Err(invalid());
    }
    Ok(Duration::from_millis(total.round() as u64))
}

/// Parses `4096`, `64K`, `10M`, `1G` (powers of 1024; a trailing `B` or `iB` changes nothing).
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let invalid = || format!("{text:?} is not a number of bytes such as 4096, 64K or 10M");
    let upper = text.trim().to_ascii_uppercase();
    let digits = upper.find(|c: char| !c.is_ascii_digit()).unwrap_or(upper.len());
    let number: u64 = upper[..digits].parse().map_err(|_| invalid())?;
    let shift = match &upper[digits..] {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        _ => return Err(invalid()),
    };
    number.checked_mul(1 << shift).ok_or_else(invalid)
}

/// How much of the end of a log to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    Lines(u64),
    Bytes(u64),
}

/// Parses a number of lines, or a number of bytes with a unit.
pub(crate) fn parse_tail(text: &str) -> Result<Tail, String> {
    match text.trim().parse() {
        Ok(lines) => Ok(Tail::Lines(lines)),
        Err(_) => parse_bytes(text)
            .map(Tail::Bytes)
            .map_err(|_| format!("{text:?} is not a number of lines such as 100, or of bytes such as 64K or 500B")),
    }
}

/// Parses a terminal size such as `120x40`.
pub(crate) fn parse_size(text: &str) -> Result<(u16, u16), String> {
    let parsed = text.split_once(['x', 'X']).and_then(|(cols, rows)| Some((cols.parse().ok()?, rows.parse().ok()?)));
    parsed
        .filter(|(cols, rows)| *cols > 0 && *rows > 0)
        .ok_or_else(|| format!("{text:?} is not a size such as 120x40 (COLSxROWS)"))
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Parses a point in time to epoch milliseconds: `10m` (ten minutes ago) or `2026-02-03T04:05:06Z`.
pub(crate) fn parse_since(text: &str, now_ms: u64) -> Result<u64, String> {
    if let Ok(ago) = parse_duration(text) {
        return Ok(now_ms.saturating_sub(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)));
    }
    rfc3339::parse_lenient(text.trim())
        .ok_or_else(|| format!("{text:?} is not a duration such as 10m, or a time such as 2026-02-03T04:05:06Z"))
}

/// Formats a duration in its largest unit: `5s`, `3m`, `2h`, `4d`.
pub(crate) fn format_age(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Formats a byte count: `1.5 MiB`.
pub(crate) fn format_bytes(count: u64) -> String {
    let mut amount = count as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB"] {
        if amount < 1024.0 || unit == "GiB" {
            let digits = usize::from(unit != "bytes" && amount < 10.0);
            return format!("{amount:.digits$} {unit}");
        }
        amount /= 1024.0;
    }
    format!("{count} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed() {
        let ms = |text| parse_duration(text).map(|duration| duration.as_millis() as u64);
        for (text, expected) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("3", 3_000),
            ("1.5s", 1_500),
            ("0.25", 250),
            (" 7s ", 7_000),
            ("0", 0),
        ] {
            assert_eq!(ms(text), Ok(expected), "{text}");
        }
        for text in ["", "s", "10x", "-1s", "1m30", "1 s", "ms", "1..2s", "1e9d", "9999999999999999d", "ü"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn byte_counts_and_tails_are_parsed() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("64K"), Ok(65_536));
        assert_eq!(parse_bytes("10MiB"), Ok(10 << 20));
        assert_eq!(parse_bytes("2gb"), Ok(2 << 30));
        for text in ["", "K", "-1", "1T", "1.5K", "99999999999999999999", "18446744073709551615K"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        assert_eq!(parse_tail("100"), Ok(Tail::Lines(100)));
        assert_eq!(parse_tail("500B"), Ok(Tail::Bytes(500)));
        assert_eq!(parse_tail("1M"), Ok(Tail::Bytes(1 << 20)));
        assert!(parse_tail("many").is_err());
    }

    #[test]
    fn times_are_relative_or_absolute() {
        assert_eq!(parse_since("10m", 1_000_000), Ok(400_000));
        assert_eq!(parse_since("10h", 1_000), Ok(0));
        assert_eq!(parse_since("1970-01-02", 0), Ok(86_400_000));
        assert_eq!(parse_since(" 1970-01-01 00:01 ", 0), Ok(60_000));
        assert!(parse_since("yesterday", 0).is_err());
    }

    #[test]
    fn terminal_sizes_are_parsed() {
        assert_eq!(parse_size("120x40"), Ok((120, 40)));
        for text in ["120", "0x40", "120x0", "x", "99999x1", "1x2x3"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ages_and_byte_counts_are_formatted() {
        assert_eq!(format_age(999), "0s");
        assert_eq!(format_age(61_000), "1m");
        assert_eq!(format_age(47 * 3_600_000), "47h");
        assert_eq!(format_age(49 * 3_600_000), "2d");
        assert_eq!(format_bytes(512), "512 bytes");
        assert_eq!(format_bytes(1536), "1.5 KiB");
        assert_eq!(format_bytes(10 << 20), "10 MiB");
        assert_eq!(format_bytes(u64::MAX), "17179869184 GiB");
    }
}
