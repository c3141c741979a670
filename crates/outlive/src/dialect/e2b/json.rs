//! Rules of protobuf's JSON mapping that serde does not have: bytes are base64, numbers may be strings, and `null` is
//! an unset field.

use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use outlive_core::signal as signals;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value;

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// `null` is the default value.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(input: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

pub(super) fn number<'de, D: Deserializer<'de>>(input: D) -> Result<u32, D::Error> {
    Ok(optional_number(input)?.unwrap_or_default())
}

/// A number, including one in a string or with a fraction of zero.
pub(super) fn optional_number<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u32>, D::Error> {
    let invalid = || D::Error::custom("expected a number from 0 to 4294967295");
    let number = match Value::deserialize(input)? {
        Value::Null => return Ok(None),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let number = number.filter(|number| number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(number));
    Ok(Some(number.ok_or_else(invalid)? as u32))
}

/// A signal's number, or its name in the protobuf enum.
pub(super) fn signal<'de, D: Deserializer<'de>>(input: D) -> Result<i32, D::Error> {
    let invalid = || D::Error::custom("expected a signal such as SIGNAL_SIGTERM");
    match Value::deserialize(input)? {
        Value::Null => Ok(0),
        Value::Number(number) => number.as_i64().and_then(|number| number.try_into().ok()).ok_or_else(invalid),
        Value::String(name) if name == "SIGNAL_UNSPECIFIED" => Ok(0),
        Value::String(name) => {
            let number = name.strip_prefix("SIGNAL_").and_then(|name| signals::parse(name).ok());
            number.map(i32::from).ok_or_else(invalid)
        }
        _ => Err(invalid()),
    }
}

/// Accepts base64 with and without padding.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Bytes as base64: written in the standard alphabet, read in that and in the URL-safe one.
pub(super) mod optional_bytes {
    use base64::Engine as _;
    use base64::display::Base64Display;
    use bytes::Bytes;
    use serde::Serializer;
    use serde::de::Error as _;

    use super::{Deserialize, Deserializer, STANDARD, URL_SAFE};

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(in super::super) fn serialize<S: Serializer>(bytes: &Option<Bytes>, out: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => out.collect_str(&Base64Display::new(bytes, &STANDARD)),
            None => out.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, I: Deserializer<'de>>(input: I) -> Result<Option<Bytes>, I::Error> {
        let Some(text) = Option::<String>::deserialize(input)? else { return Ok(None) };
        let is_url_safe = text.contains(['-', '_']);
        let decoded = if is_url_safe { URL_SAFE.decode(&text) } else { STANDARD.decode(&text) };
        decoded.map(|bytes| Some(bytes.into())).map_err(|error| I::Error::custom(format!("expected base64: {error}")))
    }
}
