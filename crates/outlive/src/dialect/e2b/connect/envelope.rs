//! Envelopes: a byte of flags, the length in four bytes (big-endian), the payload.

use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use serde_json::json;

use super::codec::{Codec, Message};
use super::failure::{Failure, FailureCode};

const HEAD_BYTES: usize = 5;
const COMPRESSED: u8 = 1;
const END: u8 = 2;

fn append(flags: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([flags, 0, 0, 0, 0]);
    write(out);
    let length = u32::try_from(out.len() - start - HEAD_BYTES).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start + 1..start + HEAD_BYTES) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

pub(in super::super) fn append_message<M: Message>(codec: Codec, message: &M, out: &mut Vec<u8>) {
    append(0, out, |out| codec.append(message, out));
}

/// The last envelope; JSON, whatever the messages were in.
pub(in super::super) fn append_end(failure: Option<&Failure>, out: &mut Vec<u8>) {
    let end = failure.map_or_else(|| json!({}), |failure| json!({ "error": failure.to_json() }));
    append(END, out, |out| out.extend(end.to_string().into_bytes()));
}

/// What a client sends, envelope by envelope, as it comes.
pub(in super::super) struct Envelopes {
    body: Body,
    codec: Codec,
    /// Came in, and is no whole envelope yet.
    rest: BytesMut,
    largest: usize,
    /// How long a client may be silent.
    patience: Duration,
}

impl Envelopes {
    pub(in super::super) fn new(body: Body, codec: Codec, largest: usize, patience: Duration) -> Self {
        Self { body, codec, rest: BytesMut::new(), largest, patience }
    }

    /// The next message; `None` at the end of what the client has to say.
    pub(in super::super) async fn next<M: Message>(&mut self) -> Result<Option<M>, Failure> {
        loop {
            if let Some((flags, payload)) = take(&mut self.rest, self.largest)? {
                if flags & END != 0 {
                    return Err(Failure::invalid("protocol error: the end of a stream is for servers to say"));
                }
                return self.codec.decode(&payload).map(Some);
            }
            let frame = tokio::time::timeout(self.patience, self.body.frame()).await.map_err(|_| {
                Failure::new(FailureCode::DeadlineExceeded, "nothing came from the client for too long")
            })?;
            match frame {
                Some(Ok(frame)) => self.rest.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
                Some(Err(_)) => return Err(Failure::new(FailureCode::Aborted, "the request was broken off")),
                None if self.rest.is_empty() => return Ok(None),
                None => return Err(Failure::invalid("protocol error: the last envelope is incomplete")),
            }
        }
    }
}

/// Who is answered in the middle of sending would find the connection closed at the next call.
const REST_BYTES: usize = 16 << 20;
const REST_WITHIN: Duration = Duration::from_secs(2);

impl Envelopes {
    /// Reads what the client still sends and throws it away. False: it goes on for too long.
    pub(super) async fn discard_rest(&mut self) -> bool {
        let discard = async {
            let mut left = REST_BYTES;
            while let Some(frame) = self.body.frame().await {
                let Ok(frame) = frame else { return false };
                match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                    Some(rest) => left = rest,
                    None => return false,
                }
            }
            true
        };
        tokio::time::timeout(REST_WITHIN, discard).await.unwrap_or(false)
    }
}

/// Takes a whole envelope off the front, if there is one.
fn take(rest: &mut BytesMut, largest: usize) -> Result<Option<(u8, Bytes)>, Failure> {
    let Some(&[flags, a, b, c, d]) = rest.first_chunk() else { return Ok(None) };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if flags & COMPRESSED != 0 {
        return Err(Failure::new(FailureCode::Unimplemented, "protocol error: compression was not agreed on"));
    }
    if flags & !(COMPRESSED | END) != 0 {
        return Err(Failure::invalid(format!("protocol error: an envelope has the unknown flags {flags:#04x}")));
    }
    if length > largest {
        let message = format!("a message of {length} bytes is larger than the {largest} that are taken");
        return Err(Failure::new(FailureCode::ResourceExhausted, message));
    }
    if rest.len() < HEAD_BYTES + length {
        return Ok(None);
    }
    rest.advance(HEAD_BYTES);
    Ok(Some((flags, rest.split_to(length).freeze())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_are_found_however_they_are_cut() {
        let mut wire = Vec::new();
        append(0, &mut wire, |out| out.extend(b"one"));
        append(0, &mut wire, |_| {});
        append_end(Some(&Failure::invalid("no")), &mut wire);
        for cut in 0..=wire.len() {
            let mut found = Vec::new();
            let mut rest = BytesMut::new();
            for part in [&wire[..cut], &wire[cut..]] {
                rest.extend_from_slice(part);
                while let Some(envelope) = take(&mut rest, 1000).unwrap() {
                    found.push(envelope);
                }
            }
            assert!(rest.is_empty());
            let end = br#"{"error":{"code":"invalid_argument","message":"no"}}"#;
            let expected: [(u8, &[u8]); 3] = [(0, b"one"), (0, b""), (2, end)];
            assert!(found.iter().map(|(flags, bytes)| (*flags, &bytes[..])).eq(expected), "{found:?}");
        }
    }

    #[test]
    fn what_is_no_envelope_is_refused_before_it_is_read() {
        for (wire, code) in [
            (&[0u8, 0xff, 0xff, 0xff, 0xff][..], FailureCode::ResourceExhausted),
            (&[1, 0, 0, 0, 0], FailureCode::Unimplemented),
            (&[0x80, 0, 0, 0, 0], FailureCode::InvalidArgument),
        ] {
            assert_eq!(take(&mut BytesMut::from(wire), 1000).unwrap_err().code, code);
        }
        assert_eq!(take(&mut BytesMut::from(&[0u8, 0, 0, 0][..]), 1000), Ok(None));
    }
}
