//! RFC 3339 timestamps in UTC, the only place that uses the calendar.
//!
//! Times inside outlive are numbers: milliseconds or nanoseconds since the Unix epoch. This module turns them into
//! text for the CLI and for dialects whose clients expect text, and parses text that clients and users send.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Formats the current time with milliseconds.
pub(crate) fn now() -> String {
    format_millis(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64))
}

/// Formats milliseconds since the epoch: `2026-02-03T04:05:06.789Z`. Times after the year 9999 become its last instant.
pub(crate) fn format_millis(epoch_ms: u64) -> String {
    let timestamp = i64::try_from(epoch_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    format!("{:.3}", timestamp.unwrap_or(Timestamp::MAX))
}

/// Parses RFC 3339 text to nanoseconds since the epoch. Seconds and an offset (`Z` or `+01:00`) are required.
pub(crate) fn parse(text: &str) -> Option<i128> {
    // jiff also accepts other ISO 8601 forms, for example without seconds.
    if !has_rfc3339_form(text.as_bytes()) {
        return None;
    }
    text.parse::<Timestamp>().ok().map(Timestamp::as_nanosecond)
}

/// Parses a time that a person wrote, to milliseconds since the epoch: RFC 3339, or shorter (`2026-02-03`,
/// `2026-02-03 04:05`), which means UTC. Times before 1970 are refused.
pub(crate) fn parse_lenient(text: &str) -> Option<u64> {
    // `[Europe/Berlin]` needs the time zone database, which is not compiled in.
    if text.contains('[') {
        return None;
    }
    let timestamp = text.parse::<Timestamp>().ok().or_else(|| {
        let datetime: DateTime = text.strip_suffix(['Z', 'z']).unwrap_or(text).parse().ok()?;
        TimeZone::UTC.to_timestamp(datetime).ok()
    })?;
    u64::try_from(timestamp.as_millisecond()).ok()
}

/// Checks for `YYYY-MM-DDTHH:MM:SS`, an optional fraction of one to nine digits, and `Z` or `±HH:MM`.
fn has_rfc3339_form(text: &[u8]) -> bool {
    let Some((datetime, rest)) = text.split_at_checked("YYYY-MM-DDTHH:MM:SS".len()) else { return false };
    let (fraction, offset) = match rest.split_first() {
        Some((b'.', rest)) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            (Some(digits), &rest[digits..])
        }
        _ => (None, rest),
    };
    matches_form(datetime, b"0000-00-00T00:00:00")
        && fraction.is_none_or(|digits| (1..=9).contains(&digits))
        && (matches!(offset, b"Z" | b"z") || matches_form(offset, b"+00:00"))
}

/// In `form`, `0` stands for a digit, `T` for one of `T`, `t` and a blank, and `+` for a sign.
fn matches_form(text: &[u8], form: &[u8]) -> bool {
    text.len() == form.len()
        && text.iter().zip(form).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            b'T' => matches!(byte, b'T' | b't' | b' '),
            b'+' => matches!(byte, b'+' | b'-'),
            _ => byte == form,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_have_three_digits() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_763_000_000_123, "2025-11-13T02:13:20.123Z"),
            (1_770_091_506_789, "2026-02-03T04:05:06.789Z"),
            (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(format_millis(ms), text);
            assert_eq!(parse(text), Some(i128::from(ms) * 1_000_000));
            assert_eq!(parse_lenient(text), Some(ms));
        }
    }

    #[test]
    fn times_after_the_year_9999_are_clamped() {
        assert!(format_millis(u64::MAX).starts_with("9999-12-30T"));
        assert_eq!(format_millis(i64::MAX as u64), format_millis(u64::MAX));
    }

    #[test]
    fn offsets_and_fractions_are_parsed() {
        assert_eq!(parse("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse("2026-02-03T04:05:06Z"), Some(1_770_091_506_000_000_000));
        assert_eq!(parse("2026-02-03T05:05:06.5+01:00"), Some(1_770_091_506_500_000_000));
        assert_eq!(parse("2024-02-29t23:59:59.123456789z").map(|at| at % 1_000_000_000), Some(123_456_789));
        assert!(parse("1969-12-31T23:59:59Z") < parse("1970-01-01T00:00:00Z"));
    }

    #[test]
    fn text_that_is_not_rfc_3339_is_refused() {
        for text in [
            "",
            "now",
            "2026-02-03",
            "2026-13-03T04:05:06Z",
            "2026-02-30T04:05:06Z",
            "2026-02-03T04:05:06",
            "2026-02-03T04:05Z",
            "2026-02-03T04:05:06.Z",
            "2026-02-03T04:05:06.1234567890Z",
            "2026-02-03T04:05:06+0100",
            "2026-02-03T04:05:06Z[UTC]",
            "٢026-02-03T04:05:06Z",
            "2026-02-03T04:05:06+é",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn lenient_times_are_utc_unless_they_have_an_offset() {
        assert_eq!(parse_lenient("1970-01-02"), Some(86_400_000));
        assert_eq!(parse_lenient("1970-01-01 00:01"), Some(60_000));
        assert_eq!(parse_lenient("1970-01-01T00:01Z"), Some(60_000));
        assert_eq!(parse_lenient("1970-01-01T02:00:00.25+01:00"), Some(3_600_250));
        for text in [
            "",
            "yesterday",
            "1969-12-31",
            "1970-13-01",
            "1970-01-01T25:00",
            "1970-01",
            "1970-01-01T00:00:-1",
            "1970-01-01T00:00:00[Europe/Berlin]",
        ] {
            assert_eq!(parse_lenient(text), None, "{text}");
        }
    }
}
