//! The holder's own log lines on stderr: text, or JSON objects with the keys of the server's lines.
//!
//! The JSON is written by hand, because the holder has no serializer.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Limit on a message in a line. A pipe then accepts the line whole, in one write.
const MAX_MESSAGE_BYTES: usize = 1000;

/// Static, because the holder logs even when it cannot restore its state.
static IS_JSON: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Info,
    Warn,
    Error,
}

pub(super) fn set_json(is_json: bool) {
    IS_JSON.store(is_json, Relaxed);
}

/// Writes one line to stderr, or drops it: a full pipe behind stderr must not block the holder.
pub(super) fn log_to_stderr(level: Level, message: &str) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stderr = rustix::stdio::stderr();
    let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
    let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
    if matches!(poll(&mut polled, Some(&no_wait)), Ok(1)) {
        let line = if IS_JSON.load(Relaxed) {
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            json_line(level, message, since_epoch)
        } else {
            let end = (0..=MAX_MESSAGE_BYTES.min(message.len())).rev().find(|end| message.is_char_boundary(*end));
            format!("outlive holder: {}\n", &message[..end.unwrap_or(0)])
        };
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

fn json_line(level: Level, message: &str, since_epoch: Duration) -> String {
    let level = match level {
        Level::Info => "INFO",
        Level::Warn => "WARN",
        Level::Error => "ERROR",
    };
    let (timestamp, message) = (format_rfc3339(since_epoch), escape(message));
    format!(
        "{{\"timestamp\":\"{timestamp}\",\"level\":\"{level}\",\"fields\":{{\"message\":\"{message}\"}},\
         \"target\":\"outlive_holder\"}}\n"
    )
}

/// The inside of a JSON string of at most `MAX_MESSAGE_BYTES`; a longer text is cut off.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len().min(MAX_MESSAGE_BYTES));
    for character in text.chars() {
        let before = escaped.len();
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\u{0}'..='\u{1f}' => {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{:04x}", u32::from(character));
            }
            _ => escaped.push(character),
        }
        if escaped.len() > MAX_MESSAGE_BYTES {
            escaped.truncate(before);
            break;
        }
    }
    escaped
}

/// `2026-02-03T04:05:06.789012Z`. Not by libc's `gmtime_r`, which reads the time zone file.
fn format_rfc3339(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    // Years start in March here, so that the leap day is the last day of a year. An era is 400 years.
    let days_since_era_0 = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days_since_era_0 / 146_097, days_since_era_0 % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_since_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_since_march + 2) / 5 + 1;
    let month = (months_since_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let micros = since_epoch.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_line_has_the_keys_of_the_servers_lines() {
        let line = json_line(Level::Warn, "a \"b\"", Duration::from_micros(1_770_091_506_789_012));
        assert_eq!(
            line,
            "{\"timestamp\":\"2026-02-03T04:05:06.789012Z\",\"level\":\"WARN\",\
             \"fields\":{\"message\":\"a \\\"b\\\"\"},\"target\":\"outlive_holder\"}\n"
        );
    }

    #[test]
    fn messages_are_escaped() {
        for (text, escaped) in [
            ("plain ü 🦀", "plain ü 🦀"),
            ("\"\\", "\\\"\\\\"),
            ("a\nb\tc\r\0\u{1b}\u{7f}", "a\\nb\\u0009c\\u000d\\u0000\\u001b\u{7f}"),
        ] {
            assert_eq!(escape(text), escaped, "{text:?}");
        }
    }

    #[test]
    fn long_messages_are_cut_off_between_characters() {
        assert_eq!(escape(&"x".repeat(5000)), "x".repeat(MAX_MESSAGE_BYTES));
        // 1000 is not a multiple of three or six: neither a character nor an escape is cut in two.
        assert_eq!(escape(&"€".repeat(5000)), "€".repeat(333));
        assert_eq!(escape(&"\u{1}".repeat(5000)), "\\u0001".repeat(166));
    }

    #[test]
    fn timestamps_follow_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (951_868_800, "2000-03-01T00:00:00.000000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000000Z"),
            (1_735_689_600, "2025-01-01T00:00:00.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(format_rfc3339(Duration::from_secs(seconds)), text);
        }
    }
}
