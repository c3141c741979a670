//! What calls say in their headers.

use std::time::Duration;

use axum::http::{HeaderMap, header};

use super::failure::{Failure, FailureCode};

/// When the client does not say.
const KEEPALIVE: Duration = Duration::from_secs(90);
/// As the protocol has it.
const MOST_TIMEOUT_DIGITS: usize = 10;

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"))
}

pub(super) fn content_type(headers: &HeaderMap) -> &str {
    text(headers, header::CONTENT_TYPE.as_str()).unwrap_or("")
}

pub(super) fn check_version(headers: &HeaderMap) -> Result<(), Failure> {
    match text(headers, "connect-protocol-version") {
        None | Some("1") => Ok(()),
        Some(_) => Err(Failure::invalid("connect-protocol-version must be \"1\"")),
    }
}

/// A few bytes can unfold to gigabytes, and no client needs it.
pub(super) fn check_encoding(headers: &HeaderMap, name: &str) -> Result<(), Failure> {
    match text(headers, name) {
        None | Some("identity" | "") => Ok(()),
        Some(_) => {
            Err(Failure::new(FailureCode::Unimplemented, "unknown compression: supported encodings are identity"))
        }
    }
}

/// How long the whole call may take.
pub(super) fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Failure> {
    let Some(value) = text(headers, "connect-timeout-ms") else { return Ok(None) };
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    match value.parse() {
        Ok(ms) if is_number && value.len() <= MOST_TIMEOUT_DIGITS => Ok(Some(Duration::from_millis(ms))),
        _ => Err(Failure::invalid("protocol error: connect-timeout-ms must be a number of at most 10 digits")),
    }
}

/// After how much silence the client wants a sign of life; what makes no sense is as good as nothing.
pub(super) fn keepalive(headers: &HeaderMap) -> Duration {
    let seconds = text(headers, "keepalive-ping-interval").and_then(|value| value.trim().parse::<u32>().ok());
    seconds.filter(|seconds| *seconds > 0).map_or(KEEPALIVE, |seconds| Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
    }

    #[test]
    fn keepalive_that_once_ended_the_daemon_is_the_default() {
        for nonsense in ["0", "-1", "", "x", "1.5", "99999999999999999999"] {
            assert_eq!(keepalive(&with("keepalive-ping-interval", nonsense)), KEEPALIVE, "{nonsense:?}");
        }
        assert_eq!(keepalive(&with("keepalive-ping-interval", "50")), Duration::from_secs(50));
        assert_eq!(keepalive(&HeaderMap::new()), KEEPALIVE);
    }

    #[test]
    fn timeouts_are_numbers() {
        let of = |value: &str| timeout(&with("connect-timeout-ms", value));
        assert_eq!(of("60000"), Ok(Some(Duration::from_mins(1))));
        assert_eq!(of("9999999999"), Ok(Some(Duration::from_millis(9_999_999_999))));
        for wrong in ["", "+1", "-1", "1.5", "x", "12345678901"] {
            assert_eq!(of(wrong).unwrap_err().code, FailureCode::InvalidArgument, "{wrong:?}");
        }
        assert_eq!(timeout(&HeaderMap::new()), Ok(None));
    }
}
