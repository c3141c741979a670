//! RFC 3339, as Go and JavaScript write it: which of two calls was later.

/// Nanoseconds since 1970; `None` for what is no time.
pub(super) fn parse(text: &str) -> Option<i128> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let [year, month, day] = numbers(date, '-')?;
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = rest.split_at(zone_at);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [hour, minute, second] = numbers(time, ':')?;
    let fits = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    let zone_minutes = match zone {
        "Z" | "z" => 0,
        _ => {
            let (sign, zone) = zone.split_at(1);
            let (hours, minutes) = zone.split_once(':')?;
            let ahead = number(hours)? * 60 + number(minutes)?;
            if sign == "-" { -ahead } else { ahead }
        }
    };
    let is_fraction = fraction.len() <= 9 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !fits || !is_fraction {
        return None;
    }
    let nanoseconds: i128 = format!("{fraction:0<9}").parse().ok()?;
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute - zone_minutes) * 60 + second;
    Some(i128::from(seconds) * 1_000_000_000 + nanoseconds)
}

fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let mut parts = text.split(between).map(number);
    let three = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(three)
}

fn number(text: &str) -> Option<i64> {
    let is_short = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_short.then(|| text.parse().ok()).flatten()
}

/// Since 1970, of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn moments_are_compared_and_not_texts() {
        assert_eq!(parse("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse("2026-02-03T04:05:06Z"), Some(1_770_091_506_000_000_000));
        assert_eq!(parse("2026-02-03T05:05:06.5+01:00"), Some(1_770_091_506_500_000_000));
        assert_eq!(parse("2024-02-29t23:59:59.123456789z").map(|at| at % 1_000_000_000), Some(123_456_789));
        assert!(parse("1969-12-31T23:59:59Z") < parse("1970-01-01T00:00:00Z"));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "now",
            "2026-02-03",
            "2026-13-03T04:05:06Z",
            "2026-02-03T04:05:06",
            "2026-02-03T04:05Z",
            "2026-02-03T04:05:06.1234567890Z",
            "2026-02-03T04:05:06+0100",
            "٢026-02-03T04:05:06Z",
            "2026-02-03T04:05:06+é",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
