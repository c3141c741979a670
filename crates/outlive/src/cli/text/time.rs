//! Wall-clock times, in UTC: a log line should mean the same to everybody who reads it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// `2026-02-03T04:05:06.789Z`.
pub(crate) fn utc(at_ms: u64) -> String {
    let (days, within) = (at_ms / 86_400_000, at_ms % 86_400_000);
    let (year, month, day) = civil(days);
    let (seconds, ms) = (within / 1000, within % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Days since 1970 as a date of the Gregorian calendar (Howard Hinnant's method, for days ≥ 0).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// The inverse of [`civil`].
fn days_of(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let month_index = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_index + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
}

/// A moment: `10m` (that long ago) or `2026-02-03T04:05:06Z` (also with a space, without seconds or `Z`; UTC).
pub(crate) fn moment(text: &str, now_ms: u64) -> Result<u64, String> {
    if let Ok(ago) = super::amount::duration(text) {
        return Ok(now_ms.saturating_sub(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)));
    }
    date(text.trim())
        .ok_or_else(|| format!("{text:?} is neither a duration such as 10m nor a time such as 2026-02-03T04:05:06Z"))
}

fn date(text: &str) -> Option<u64> {
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    let (date, clock) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00:00"));
    let mut parts = date.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let mut parts = clock.split(':');
    let (hour, minute) = (parts.next()?.parse::<u64>().ok()?, parts.next()?.parse::<u64>().ok()?);
    let second = parts.next().map_or(Some(0.0), |part| part.parse::<f64>().ok())?;
    let fits = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && (0.0..61.0).contains(&second);
    let whole = fits.then(|| days_of(year, month, day))?? * 86_400 + hour * 3_600 + minute * 60;
    Some(whole * 1000 + Duration::from_secs_f64(second).as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_763_000_000_123, "2025-11-13T02:13:20.123Z"),
            (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(utc(ms), text);
            assert_eq!(moment(text, 0), Ok(ms));
        }
    }

    #[test]
    fn every_day_goes_there_and_back() {
        for days in 0..100_000 {
            let (year, month, day) = civil(days);
            assert_eq!(days_of(year, month, day), Some(days));
        }
    }

    #[test]
    fn moments() {
        assert_eq!(moment("10m", 1_000_000), Ok(400_000));
        assert_eq!(moment("10h", 1_000), Ok(0));
        assert_eq!(moment("1970-01-02", 0), Ok(86_400_000));
        assert_eq!(moment("1970-01-01 00:01", 0), Ok(60_000));
        for text in ["", "yesterday", "1970-13-01", "1970-01-01T25:00", "1970-01", "1970-01-01T00:00:-1"] {
            assert!(moment(text, 0).is_err(), "{text}");
        }
    }
}
