//! The two languages of messages.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::failure::Failure;

/// A message that can be said in both.
pub(in super::super) trait Message: prost::Message + Default + Serialize + DeserializeOwned {}

impl<T: prost::Message + Default + Serialize + DeserializeOwned> Message for T {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Codec {
    Json,
    Proto,
}

impl Codec {
    /// By the content type of a unary call.
    pub(super) fn of_unary(content_type: &str) -> Option<Self> {
        Self::named(essence(content_type).strip_prefix("application/")?)
    }

    /// By the content type of a stream.
    pub(super) fn of_stream(content_type: &str) -> Option<Self> {
        Self::named(essence(content_type).strip_prefix("application/connect+")?)
    }

    fn named(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "proto" => Some(Self::Proto),
            _ => None,
        }
    }

    /// Without parameters: Python's client compares it as a whole.
    pub(super) fn unary_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Proto => "application/proto",
        }
    }

    pub(super) fn stream_type(self) -> &'static str {
        match self {
            Self::Json => "application/connect+json",
            Self::Proto => "application/connect+proto",
        }
    }

    pub(in super::super) fn decode<M: Message>(self, bytes: &[u8]) -> Result<M, Failure> {
        match self {
            // Nothing at all is the empty message, as in the binary form.
            Self::Json if bytes.is_empty() => Ok(M::default()),
            Self::Json => crate::api::extract::parse(bytes).map_err(Failure::from),
            Self::Proto => {
                M::decode(bytes).map_err(|error| Failure::invalid(format!("the message cannot be understood: {error}")))
            }
        }
    }

    pub(in super::super) fn append<M: Message>(self, message: &M, out: &mut Vec<u8>) {
        // Neither can fail on memory that grows.
        match self {
            Self::Json => drop(serde_json::to_writer(out, message)),
            Self::Proto => drop(message.encode(out)),
        }
    }
}

fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}
